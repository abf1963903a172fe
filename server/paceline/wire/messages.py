"""The messages of a chat: each becomes a role, one text, and the tokens no text shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.core.request import Message
from paceline.wire import media
from paceline.wire.errors import invalid, quoted
from paceline.wire.fields import (
    an_array,
    an_object,
    any_text,
    missing,
    name_text,
    one_of,
    required,
    required_object,
    required_text,
    text,
    wrong_type,
    wrong_value,
)

ROLES = ("developer", "system", "user", "assistant", "tool", "function")
_ROLES = frozenset(ROLES)

_KNOWN = frozenset(
    {
        "role",
        "content",
        "name",
        "tool_calls",
        "tool_call_id",
        "function_call",
        "refusal",
        "audio",
        "annotations",
        "reasoning_content",
    }
)
_CONTENT = "a string or an array of content parts"
_name = text(0, 64)  # OpenAI's limit
_detail = one_of("auto", "low", "high", "original")
_audio_format = one_of("wav", "mp3")


def parse_messages(value: Any, path: str) -> tuple[Message, ...]:
    """A non-empty list of messages in any order of roles."""
    if not isinstance(value, list):
        raise wrong_type(path, "an array of messages", value)
    if not value:
        raise invalid(
            path, f"Invalid value for {path}: expected at least one message.", "empty_array"
        )
    found = []
    for i, item in enumerate(value):
        # The common message, two keys and a plain text, needs nothing below this.
        if type(item) is dict and len(item) == 2:
            role, content = item.get("role"), item.get("content")
            if type(content) is str and type(role) is str and role in _PLAIN_ROLES:
                found.append(Message(role, content))
                continue
        found.append(_message(item, f"{path}[{i}]"))
    return tuple(found)


_PLAIN_ROLES = _ROLES - {"tool", "function"}


def unknown_in_messages(messages: list[Any]) -> tuple[str, ...]:
    """The fields of messages that nobody understands, each named once."""
    names: dict[str, None] = {}
    for item in messages:
        if len(item) > 2:
            names.update((f"messages[].{key}", None) for key in item if key not in _KNOWN)
    return tuple(names)


def _message(value: Any, path: str) -> Message:
    item = an_object(value, path)
    role = required(item, "role", path)
    if not isinstance(role, str):
        raise wrong_type(f"{path}.role", "a string", role)
    if role not in _ROLES:
        raise wrong_value(f"{path}.role", "one of " + ", ".join(ROLES), role)
    texts: list[str] = []
    fixed = _content(item, role, path, texts)
    if role == "assistant":
        _history(item, path, texts)
    elif role == "tool":
        required_text(item, "tool_call_id", path)
    elif role == "function":
        required_text(item, "name", path)
    name = item.get("name")
    shown = "" if name is None else _name(name, f"{path}.name")
    return Message(role, "\n".join(texts), fixed, shown)


def _content(item: Mapping[str, Any], role: str, path: str, texts: list[str]) -> int:
    """Collects the texts of a content; returns the tokens of what isn't text."""
    content = item.get("content")
    path = f"{path}.content"
    if isinstance(content, str):
        texts.append(content)
        return 0
    if content is None:
        if role == "function" or (role == "assistant" and _may_lack_content(item)):
            return 0
        if "content" in item:
            raise wrong_type(path, _CONTENT, None)
        raise missing(path)
    if not isinstance(content, list):
        raise wrong_type(path, _CONTENT, content)
    if not content:
        raise invalid(path, f"Invalid value for {path}: expected at least one part.", "empty_array")
    fixed = 0
    for i, part in enumerate(content):
        fixed += _part(an_object(part, f"{path}[{i}]"), f"{path}[{i}]", texts)
    return fixed


def _may_lack_content(item: Mapping[str, Any]) -> bool:
    return any(
        item.get(key) is not None for key in ("tool_calls", "function_call", "refusal", "audio")
    )


def _part(part: Mapping[str, Any], path: str, texts: list[str]) -> int:
    """One content part: its text goes to `texts`, its other tokens are returned."""
    kind = required(part, "type", path)
    if kind == "text":
        texts.append(required_text(part, "text", path))
        return 0
    if kind == "refusal":
        texts.append(required_text(part, "refusal", path))
        return 0
    if kind == "image_url":
        return _image(required_object(part, "image_url", path), f"{path}.image_url")
    if kind == "input_audio":
        return _audio(required_object(part, "input_audio", path), f"{path}.input_audio")
    if kind == "file":
        return _file(required_object(part, "file", path), f"{path}.file")
    if not isinstance(kind, str):
        raise wrong_type(f"{path}.type", "a string", kind)
    raise wrong_value(f"{path}.type", "one of text, image_url, input_audio, file, refusal", kind)


def _image(image: Mapping[str, Any], path: str) -> int:
    url = required_text(image, "url", path)
    if not url[:8].lower().startswith(("http://", "https://", "data:")):
        raise invalid(
            f"{path}.url",
            f"Invalid value for {path}.url: expected an http, https or data URL, "
            f"got {quoted(url, 60)}.",
            "invalid_image_url",
        )
    detail = image.get("detail")
    if detail is not None:
        detail = _detail(detail, f"{path}.detail")
    return media.image_tokens(url, detail)


def _audio(audio: Mapping[str, Any], path: str) -> int:
    data = required_text(audio, "data", path)
    given = required(audio, "format", path)
    return media.audio_tokens(data, _audio_format(given, f"{path}.format"))


def _file(file: Mapping[str, Any], path: str) -> int:
    given = [key for key in ("file_data", "file_id", "filename") if file.get(key) is not None]
    for key in given:
        any_text(file[key], f"{path}.{key}")
    if "file_data" not in given and "file_id" not in given:
        raise missing(f"{path}.file_id")
    return media.FILE_TOKENS


def _history(item: Mapping[str, Any], path: str, texts: list[str]) -> None:
    """What an assistant's message of the past holds beside its content."""
    refusal = item.get("refusal")
    if refusal is not None:
        texts.append(any_text(refusal, f"{path}.refusal"))
    calls = item.get("tool_calls")
    if calls is not None:
        for i, call in enumerate(an_array(calls, f"{path}.tool_calls")):
            where = f"{path}.tool_calls[{i}]"
            _tool_call(an_object(call, where), where, texts)
    call = item.get("function_call")
    if call is not None:
        where = f"{path}.function_call"
        _named(an_object(call, where), "arguments", where, texts)


def _tool_call(call: Mapping[str, Any], path: str, texts: list[str]) -> None:
    name_text(required_text(call, "id", path), f"{path}.id")
    kind = call.get("type", "function")
    if kind == "function":
        _named(required_object(call, "function", path), "arguments", f"{path}.function", texts)
    elif kind == "custom":
        _named(required_object(call, "custom", path), "input", f"{path}.custom", texts)
    elif isinstance(kind, str):
        raise wrong_value(f"{path}.type", "one of function, custom", kind)
    else:
        raise wrong_type(f"{path}.type", "a string", kind)


def _named(call: Mapping[str, Any], payload: str, path: str, texts: list[str]) -> None:
    """A call's name and its arguments: both are part of the prompt."""
    texts.append(required_text(call, "name", path))
    texts.append(required_text(call, payload, path))
