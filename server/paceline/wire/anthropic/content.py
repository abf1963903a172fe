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
    missing,
    name_text,
    one_of,
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
        if _type(block, where) != "text":
            raise wrong_value(f"{where}.type", "text", block["type"])
        said.texts.append(_text(block, "text", where))
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
        role = _role(_there(message, "role", where), f"{where}.role")
        content = _there(message, "content", where)
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
        if _type(block, where) == "tool_result":
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
    kind = _type(block, path)
    if kind == "text":
        said.texts.append(_text(block, "text", path))
    elif kind == "image":
        said.fixed += _image(_object(block, "source", path), f"{path}.source")
    elif kind == "document":
        _document(block, path, said)
    elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        name_text(_there(block, "id", path), f"{path}.id")
        said.texts.append(_text(block, "name", path))
        said.texts.append(_json(_object(block, "input", path)))
    elif kind == "thinking":
        said.texts.append(_text(block, "thinking", path))
        _text(block, "signature", path)
    elif kind == "redacted_thinking":
        # Four characters of base64 are three bytes, some four of which make a token.
        said.fixed += len(_text(block, "data", path)) * 3 // 16
    elif kind == "search_result":
        said.texts += [_text(block, "title", path), _text(block, "source", path)]
        _blocks(_there(block, "content", path), f"{path}.content", said)
    elif kind == "tool_reference":
        said.texts.append(_text(block, "tool_name", path))
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
    name_text(_there(block, "tool_use_id", path), f"{path}.tool_use_id")
    if block.get("is_error") is not None:
        flag(block["is_error"], f"{path}.is_error")
    if block.get("content") is not None:
        _blocks(block["content"], f"{path}.content", said)


def _image(source: Mapping[str, Any], path: str) -> int:
    kind = _type(source, path)
    if kind == "base64":
        media_type = _image_type(_there(source, "media_type", path), f"{path}.media_type")
        return image_tokens(media_type, _text(source, "data", path))
    if kind == "url":
        _text(source, "url", path)
    elif kind == "file":
        _text(source, "file_id", path)
    else:
        raise wrong_value(f"{path}.type", "one of base64, url, file", kind)
    return image_tokens("", "")


def _document(block: Mapping[str, Any], path: str, said: _Said) -> None:
    source = _object(block, "source", path)
    where = f"{path}.source"
    for key in ("title", "context"):
        if block.get(key) is not None:
            said.texts.append(any_text(block[key], f"{path}.{key}"))
    kind = _type(source, where)
    if kind == "text":
        said.texts.append(_text(source, "data", where))
    elif kind == "content":
        _blocks(_there(source, "content", where), f"{where}.content", said)
    elif kind in ("base64", "url", "file"):
        _text(source, {"base64": "data", "url": "url", "file": "file_id"}[kind], where)
        said.fixed += PDF_TOKENS
    else:
        raise wrong_value(f"{where}.type", "one of base64, text, content, url, file", kind)


def _type(block: Mapping[str, Any], path: str) -> str:
    return _text(block, "type", path)


def _there(block: Mapping[str, Any], key: str, path: str) -> Any:
    value = block.get(key)
    if value is None:
        raise missing(f"{path}.{key}")
    return value


def _text(block: Mapping[str, Any], key: str, path: str) -> str:
    return any_text(_there(block, key, path), f"{path}.{key}")  # type: ignore[no-any-return]


def _object(block: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any]:
    return an_object(_there(block, key, path), f"{path}.{key}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
