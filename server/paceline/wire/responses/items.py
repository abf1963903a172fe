"""The items of the Responses API: what each adds to the prompt, and how it is given back.

Every kind of item that OpenAI's API takes is taken. Those that this server knows how to read
count as what they say; the others count as the text that is in them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import orjson

from paceline.core.request import Message
from paceline.wire import media
from paceline.wire.fields import (
    an_array,
    an_object,
    any_text,
    missing,
    name_text,
    one_of,
    required,
    required_text,
    wrong_type,
    wrong_value,
)

ROLES = ("user", "assistant", "system", "developer")
_REFERENCE = "item_reference"
TRIGGER = "compaction_trigger"
COMPACTED = "[compacted]"

PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "cto",
    "reasoning": "rs",
    "compaction": "cmp",
    "computer_call": "cu",
    "computer_call_output": "cuo",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "local_shell_call": "lsh",
    "local_shell_call_output": "lsho",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "additional_tools": "at",
    "configuration_update": "cfg",
    "program": "prog",
    "program_output": "po",
}
"""Every kind of item that can be kept, and how the ids of its kind begin."""

_SILENT = frozenset({"id", "type", "status", "call_id", "role", "namespace", "caller", "phase"})
_OWN = "pcl1_"


@dataclass(slots=True)
class Item:
    """One item: its JSON object, and what it says to the model (None: nothing)."""

    data: Mapping[str, Any]
    message: Message | None
    refs: int = 0
    """How many contexts in memory hold it; kept by the store."""

    @property
    def kind(self) -> str:
        """Its type; a message may leave it out."""
        return str(self.data.get("type") or "message")

    @property
    def key(self) -> str | None:
        """Its id, if it has one."""
        found = self.data.get("id")
        return found if isinstance(found, str) and found else None

    @property
    def nbytes(self) -> int:
        """What it takes in memory, roughly."""
        return 600 + (2 * len(self.message.text) if self.message is not None else 0)


def parse_input(value: Any, path: str) -> list[Item]:
    """The items of an input: a string is one message of the user's. Raises ApiError."""
    if isinstance(value, str):
        return [Item({"type": "message", "role": "user", "content": value}, Message("user", value))]
    if not isinstance(value, list):
        raise wrong_type(path, "a string or an array of items", value)
    return [parse_item(item, f"{path}[{i}]") for i, item in enumerate(value)]


def parse_item(value: Any, path: str) -> Item:
    """One item. A reference has no message yet: whoever knows the item puts it in its place."""
    item = an_object(value, path)
    kind = item.get("type")
    if kind is None:
        if item.get("role") is not None:
            kind = "message"
        elif item.get("id") is not None:
            kind = _REFERENCE
        else:
            raise missing(f"{path}.type")
    if not isinstance(kind, str):
        raise wrong_type(f"{path}.type", "a string", kind)
    if kind == "message":
        return Item(item, _message(item, path))
    if kind == _REFERENCE:
        name_text(required(item, "id", path), f"{path}.id")
        return Item({"type": _REFERENCE, "id": item["id"]}, None)
    if kind == TRIGGER:
        return Item(item, None)
    if kind not in PREFIXES:
        raise wrong_value(f"{path}.type", "a known type of item", kind)
    if kind == "reasoning":
        return Item(item, _reasoning(item, path))
    if kind == "compaction":
        sealed = required_text(item, "encrypted_content", path)
        # The text is for scripts to match: what came before is in nobody's messages any more.
        return Item(item, Message("developer", COMPACTED, sealed_tokens(sealed)))
    if kind in _CALLS:
        for key in ("call_id", "name", _CALLS[kind]):
            required_text(item, key, path)
        return Item(item, Message("assistant", f"{item['name']}\n{item[_CALLS[kind]]}"))
    texts: list[str] = []
    if kind in _OUTPUTS:
        output = required(item, "output", path)
        fixed = _content(output, f"{path}.output", texts)
        return Item(item, Message("tool", "\n".join(texts), fixed))
    fixed = sum(_gather(v, texts) for key, v in item.items() if key not in _SILENT)
    role = "tool" if kind.endswith("_output") else "assistant"
    return Item(item, Message(role, "\n".join(texts), fixed))


_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})


def is_reference(item: Item) -> bool:
    """Whether it only names another item."""
    return item.kind == _REFERENCE


def _message(item: Mapping[str, Any], path: str) -> Message:
    role = _role(required(item, "role", path), f"{path}.role")
    content = required(item, "content", path)
    if isinstance(content, str):
        return Message(role, content)
    texts: list[str] = []
    fixed = _content(content, f"{path}.content", texts)
    return Message(role, texts[0] if len(texts) == 1 else "\n".join(texts), fixed)


_role = one_of(*ROLES)
_PART_TEXTS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "reasoning_text": "text",
    "refusal": "refusal",
    "encrypted_content": "encrypted_content",
}
_detail = one_of("auto", "low", "high", "original")


def _content(content: Any, path: str, texts: list[str]) -> int:
    """Collect a content's texts; returns the tokens of what isn't text."""
    if isinstance(content, str):
        texts.append(content)
        return 0
    if not isinstance(content, list):
        raise wrong_type(path, "a string or an array of content parts", content)
    fixed = 0
    for i, value in enumerate(content):
        where = f"{path}[{i}]"
        part = an_object(value, where)
        kind = required(part, "type", where)
        if not isinstance(kind, str):
            raise wrong_type(f"{where}.type", "a string", kind)
        key = _PART_TEXTS.get(kind)
        if key is not None:
            texts.append(required_text(part, key, where))
        elif kind in ("input_image", "computer_screenshot"):
            fixed += _image(part, where)
        elif kind == "input_file":
            fixed += _file(part, where)
        elif kind == "input_audio":
            fixed += _gather(part.get("input_audio"), [])
        else:
            known = ", ".join([*_PART_TEXTS, "input_image", "input_file", "input_audio"])
            raise wrong_value(f"{where}.type", "one of " + known, kind)
    return fixed


def _image(part: Mapping[str, Any], path: str) -> int:
    detail = part.get("detail")
    if detail is not None:
        detail = _detail(detail, f"{path}.detail")
    url = part.get("image_url")
    if url is None:
        if part.get("file_id") is None:
            raise missing(f"{path}.image_url")
        return media.image_tokens("", detail)
    url = any_text(url, f"{path}.image_url")
    if not url[:8].lower().startswith(("http://", "https://", "data:")):
        raise wrong_value(
            f"{path}.image_url", "an http, https or data URL", url[:60], "invalid_image_url"
        )
    return media.image_tokens(url, detail)


def _file(part: Mapping[str, Any], path: str) -> int:
    given = [k for k in ("file_data", "file_id", "file_url") if part.get(k) is not None]
    if not given:
        raise missing(f"{path}.file_id")
    for key in given:
        any_text(part[key], f"{path}.{key}")
    return media.FILE_TOKENS


def _reasoning(item: Mapping[str, Any], path: str) -> Message | None:
    """Thinking of the past counts as what it took, where that is known."""
    sealed = item.get("encrypted_content")
    if sealed is not None:
        fixed = sealed_tokens(any_text(sealed, f"{path}.encrypted_content"))
        return Message("assistant", "", fixed)
    texts: list[str] = []
    for key in ("summary", "content"):
        parts = item.get(key)
        if parts is not None:
            _content(an_array(parts, f"{path}.{key}"), f"{path}.{key}", texts)
    return Message("assistant", "\n".join(texts)) if any(texts) else None


def _gather(value: Any, texts: list[str]) -> int:
    """All texts inside a value; an embedded image counts by its size and not by its letters."""
    if isinstance(value, str):
        if value[:5] == "data:":
            return media.image_tokens(value, None)
        texts.append(value)
        return 0
    if isinstance(value, Mapping):
        return sum(_gather(v, texts) for key, v in value.items() if key != "type")
    if isinstance(value, list):
        return sum(_gather(v, texts) for v in value)
    if value is not None:
        texts.append(str(value))
    return 0


def seal(kind: str, tokens: int) -> str:
    """An `encrypted_content`: opaque to the client, and its token count when it comes back."""
    data = orjson.dumps({"k": kind, "t": tokens})
    return _OWN + base64.urlsafe_b64encode(data).decode().rstrip("=")


def sealed_tokens(sealed: str) -> int:
    """The tokens that an `encrypted_content` stands for.

    One of another server's is taken for base64 of text, at four characters a token.
    """
    if sealed.startswith(_OWN):
        text = sealed[len(_OWN) :]
        try:
            tokens = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))["t"]
            if type(tokens) is int and 0 <= tokens < 1 << 31:
                return tokens
        except (binascii.Error, ValueError, KeyError, TypeError):
            pass
    return ceil(len(sealed) * 3 / 16)


def listed(item: Item, item_id: str) -> dict[str, Any]:
    """The item as lists of items show it: with an id, a status, and content in parts."""
    data: dict[str, Any] = {**item.data, "type": item.kind}
    if not data.get("id"):
        data["id"] = item_id
    if item.kind == "message":
        data["status"] = data.get("status") or "completed"
        content = data["content"]
        if isinstance(content, str):
            content = [{"type": "input_text", "text": content}]
        data["content"] = [_listed_part(part, data["role"]) for part in content]
    elif item.kind in _CALLS or item.kind in _OUTPUTS:
        data["status"] = data.get("status") or "completed"
    elif item.kind == "reasoning":
        data["summary"] = data.get("summary") or []
    return data


def _listed_part(part: Mapping[str, Any], role: str) -> dict[str, Any]:
    shown = dict(part)
    if shown["type"] in ("input_text", "output_text", "text"):
        if role == "assistant":
            annotations = shown.get("annotations") or []
            return {**shown, "type": "output_text", "annotations": annotations}
        shown["type"] = "input_text"
    elif shown["type"] == "input_image":
        shown["detail"] = shown.get("detail") or "auto"
    return shown
