"""What a request asks to go wrong, by header or in the body: checked, nothing done yet.

A header says it in a word, `stall_after:3,500`; in the body the arguments have names. A name that
isn't known is refused, since a fault that silently doesn't happen would pass a bad client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from paceline.core.request import Fault
from paceline.wire.errors import invalid
from paceline.wire.fields import Check, an_object, missing, name_text, number, one_of, whole

_MAX_TOKENS = 100_000_000
_DAY_S = 86_400.0


class Preset(NamedTuple):
    """An error that clients know; a `retry_after_s` of None tells them no wait."""

    status: int
    type: str | None
    code: str
    message: str
    retry_after_s: float | None = None


PRESETS = {
    "rate_limit": Preset(429, "requests", "rate_limit_exceeded", "Rate limit reached.", 1.0),
    "insufficient_quota": Preset(
        429,
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "usage_limit_reached": Preset(
        429, "usage_limit_reached", "usage_limit_reached", "The usage limit has been reached."
    ),
    "overloaded": Preset(
        503, None, "server_is_overloaded", "The server is overloaded. Please try again later."
    ),
    "unauthorized": Preset(
        401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."
    ),
}

_TOKENS = whole(0, _MAX_TOKENS)
_FIELDS: dict[str, dict[str, Check]] = {
    "none": {},
    "error": {
        "preset": one_of(*PRESETS),
        "status": whole(400, 599),
        "code": name_text,
        "message": name_text,
        "retry_after_s": number(0.0, _DAY_S),
    },
    "fail_after": {"tokens": _TOKENS, "code": name_text, "message": name_text},
    "drop_after": {"tokens": _TOKENS},
    "stall_after": {"tokens": _TOKENS, "ms": number(0.0, _DAY_S * 1000)},
    "slice": {"max_bytes": whole(1, 65_536), "seed": whole()},
}
NAMES = tuple(_FIELDS)
_REQUIRED = {
    "fail_after": ("tokens",),
    "drop_after": ("tokens",),
    "stall_after": ("tokens", "ms"),
}
_IN_ORDER = {
    "error": ("preset", "retry_after_s"),
    "fail_after": ("tokens", "code"),
    "drop_after": ("tokens",),
    "stall_after": ("tokens", "ms"),
    "slice": ("max_bytes", "seed"),
}
"""What the arguments of a header are, one after another; an error's status goes for a preset."""

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,18}\.[0-9]{0,18}", re.ASCII)


def parse_fault(value: Any, path: str) -> Fault:
    """A fault from the body's object, or from the text of a header. Raises ApiError."""
    if isinstance(value, str):
        return _of_text(value, path)
    given = dict(an_object(value, path))
    name = _named(given.pop("name", None), f"{path}.name")
    fields = _FIELDS[name]
    found: dict[str, Any] = {}
    for key, item in given.items():
        at = f"{path}.{key}"
        if key not in fields:
            known = ", ".join(fields) or "none"
            raise invalid(at, f"Unknown parameter: {at[:100]}; known are {known}.", _UNKNOWN)
        if item is not None:
            found[key] = fields[key](item, at)
    for key in _REQUIRED.get(name, ()):
        if key not in found:
            raise missing(f"{path}.{key}")
    return _made(name, found, path)


_UNKNOWN = "unknown_parameter"


def _of_text(text: str, path: str) -> Fault:
    word, _, rest = text.partition(":")
    name = _named(word.strip().lower(), path)
    fields, order = _FIELDS[name], _IN_ORDER.get(name, ())
    arguments = [part.strip() for part in rest.split(",")] if rest else []
    required = len(_REQUIRED.get(name, ()))
    if not required <= len(arguments) <= len(order):
        wanted = f"{name}:{','.join(order).upper()}" if order else name
        raise invalid(path, f"Invalid value for {path}: expected {wanted}, got {text[:100]!r}.")
    found: dict[str, Any] = {}
    for key, argument in zip(order, arguments, strict=False):
        value = _typed(argument)
        if key == "preset" and isinstance(value, int):
            found["status"] = fields["status"](value, path)
        else:
            found[key] = fields[key](value, path)
    return _made(name, found, path)


def _named(name: Any, path: str) -> str:
    if name is None:
        raise missing(path)
    checked = one_of(*NAMES)(name, path)
    assert isinstance(checked, str), "one of the names"
    return checked


def _typed(argument: str) -> int | float | str:
    if _INTEGER.fullmatch(argument):
        return int(argument)
    return float(argument) if _DECIMAL.fullmatch(argument) else argument


def _made(name: str, found: Mapping[str, Any], path: str) -> Fault:
    given = dict(found)
    preset = PRESETS.get(given.pop("preset", ""))
    if preset is not None:
        given = {**preset._asdict(), **given}
        if preset is PRESETS["usage_limit_reached"] and "retry_after_s" in found:
            # Its wait is in its body alone: nobody is to retry by it.
            given["resets_in_s"] = given["retry_after_s"]
            given["retry_after_s"] = None
    return Fault(name, param=path, **given)
