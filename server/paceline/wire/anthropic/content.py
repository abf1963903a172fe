"""The content of Anthropic's messages: each becomes a role, one text, and the tokens without text.

A user message that brings tool results becomes messages of the role `tool`, one a result; what
else it says goes with the last of them, since it is no new turn of the user's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from paceline.core.request import Message
from paceline.wire.anthropic.media import PDF_TOKENS, image_tokens
from paceline.wire.errors import invalid
from paceline.wire.fields import (
    an_array,
    an_object,
    any_text,
    flag,
    name_text,
    one_of,
    required,
    required_object,
    required_text,
    wrong_type,
    wrong_value,
)

_KNOWN = frozenset({"role", "content", "id", "type"})
_role = one_of("user", "assistant", "system")
_image_type = one_of("image/jpeg", "image/png", "image/gif", "image/webp")


class _Said:
    """What one message or block says: its texts, and the tokens that no text shows."""

    __slots__ = ("fixed", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.fixed = 0

    def message(self, role: str) -> Message:
        return Message(role, "\n".join(self.texts), self.fixed)


def parse_system(value: Any, path: str) -> tuple[Message, ...]:
    """The system prompt: a string, or text blocks."""
    if isinstance(value, str):
        return (Message("system", value),) if value else ()
    said = _Said()
    for i, item in enumerate(an_array(value, path)):
        where = f"{path}[{i}]"
        block = an_object(item, where)
        if required_text(block, "type", where) != "text":
            raise wrong_value(f"{where}.type", "text", block["type"])
        said.texts.append(required_text(block, "text", where))
    return (said.message("system"),) if said.texts else ()


def parse_messages(value: Any, path: str) -> tuple[Message, ...]:
    """A non-empty list of messages; `system` may be a role among them."""
    items = an_array(value, path)
    if not items:
        raise invalid(path, f"{path}: at least one message is required", "empty_array")
    found: list[Message] = []
    for i, item in enumerate(items):
        where = f"{path}[{i}]"
        message = an_object(item, where)
        role = _role(required(message, "role", where), f"{where}.role")
        content = required(message, "content", where)
        if isinstance(content, str):
            found.append(Message(role, content))
        elif isinstance(content, list):
            found += _message(role, content, f"{where}.content")
        else:
            raise wrong_type(f"{where}.content", "a string or an array of blocks", content)
    return tuple(found)


def unknown_in_messages(messages: Iterable[Any]) -> tuple[str, ...]:
    """The fields of messages that nobody understands, each named once."""
    names: dict[str, None] = {}
    for item in messages:
        names.update((f"messages[].{key}", None) for key in item if key not in _KNOWN)
    return tuple(names)


def _message(role: str, blocks: list[Any], path: str) -> list[Message]:
    said, results = _Said(), []
    for i, item in enumerate(blocks):
        where = f"{path}[{i}]"
        block = an_object(item, where)
        if required_text(block, "type", where) == "tool_result":
            if role != "user":
                raise invalid(where, f"{where}: tool_result blocks can only be in user messages")
            results.append(_Said())
            _tool_result(block, where, results[-1])
        else:
            _block(block, where, said)
    if not results:
        return [said.message(role)]
    results[-1].texts += said.texts
    results[-1].fixed += said.fixed
    return [result.message("tool") for result in results]


def _block(block: Mapping[str, Any], path: str, said: _Said) -> None:
    """One content block of any type that Anthropic's API takes."""
    kind = required_text(block, "type", path)
    if kind == "text":
        said.texts.append(required_text(block, "text", path))
    elif kind == "image":
        said.fixed += _image(required_object(block, "source", path), f"{path}.source")
    elif kind == "document":
        _document(block, path, said)
    elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        name_text(required(block, "id", path), f"{path}.id")
        said.texts.append(required_text(block, "name", path))
        said.texts.append(_json(required_object(block, "input", path)))
    elif kind == "thinking":
        said.texts.append(required_text(block, "thinking", path))
        required_text(block, "signature", path)
    elif kind == "redacted_thinking":
        # Four characters of base64 are three bytes, some four of which make a token.
        said.fixed += len(required_text(block, "data", path)) * 3 // 16
    elif kind == "search_result":
        said.texts += [required_text(block, "title", path), required_text(block, "source", path)]
        _blocks(required(block, "content", path), f"{path}.content", said)
    elif kind == "tool_reference":
        said.texts.append(required_text(block, "tool_name", path))
    elif kind in _OPAQUE or kind.endswith("_tool_result"):
        said.texts.append(_json({k: v for k, v in block.items() if k not in _NOT_SAID}))
    else:
        raise wrong_value(
            f"{path}.type",
            "one of text, image, document, search_result, thinking, redacted_thinking, tool_use, "
            "tool_result, server_tool_use, container_upload or a server tool's result",
            kind,
        )


_OPAQUE = frozenset({"container_upload", "compaction"})
_NOT_SAID = frozenset({"type", "cache_control"})


def _blocks(value: Any, path: str, said: _Said) -> None:
    """A string, or blocks, inside another block."""
    if isinstance(value, str):
        said.texts.append(value)
        return
    for i, item in enumerate(an_array(value, path)):
        _block(an_object(item, f"{path}[{i}]"), f"{path}[{i}]", said)


def _tool_result(block: Mapping[str, Any], path: str, said: _Said) -> None:
    name_text(required(block, "tool_use_id", path), f"{path}.tool_use_id")
    if block.get("is_error") is not None:
        flag(block["is_error"], f"{path}.is_error")
    if block.get("content") is not None:
        _blocks(block["content"], f"{path}.content", said)


def _image(source: Mapping[str, Any], path: str) -> int:
    kind = required_text(source, "type", path)
    if kind == "base64":
        media_type = _image_type(required(source, "media_type", path), f"{path}.media_type")
        return image_tokens(media_type, required_text(source, "data", path))
    if kind == "url":
        required_text(source, "url", path)
    elif kind == "file":
        required_text(source, "file_id", path)
    else:
        raise wrong_value(f"{path}.type", "one of base64, url, file", kind)
    return image_tokens("", "")


def _document(block: Mapping[str, Any], path: str, said: _Said) -> None:
    source = required_object(block, "source", path)
    where = f"{path}.source"
    for key in ("title", "context"):
        if block.get(key) is not None:
            said.texts.append(any_text(block[key], f"{path}.{key}"))
    kind = required_text(source, "type", where)
    if kind == "text":
        said.texts.append(required_text(source, "data", where))
    elif kind == "content":
        _blocks(required(source, "content", where), f"{where}.content", said)
    elif kind in ("base64", "url", "file"):
        required_text(source, {"base64": "data", "url": "url", "file": "file_id"}[kind], where)
        said.fixed += PDF_TOKENS
    else:
        raise wrong_value(f"{where}.type", "one of base64, text, content, url, file", kind)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
