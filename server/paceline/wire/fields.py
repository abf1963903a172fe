"""Typed reading of a JSON object: a table of checks, one a field.

A check takes a value that isn't null and the field's full path (`stream_options.include_usage`),
and returns what the request holds, or raises ApiError naming that path. Null means unset for every
optional field. Booleans are not numbers here, and numbers are finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any

from paceline.wire.errors import ApiError, quoted

Check = Callable[[Any, str], Any]
TextCheck = Callable[[Any, str], str]

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def read(body: Mapping[Any, Any], table: Mapping[str, Check], prefix: str = "") -> dict[str, Any]:
    """The checked values of the fields that are known and set; the others are left alone."""
    found: dict[str, Any] = {}
    for key, value in body.items():
        if value is not None:
            check = table.get(key)
            if check is not None:
                found[key] = check(value, prefix + key)
    return found


def unknown_fields(body: Mapping[Any, Any], known: Collection[str]) -> tuple[str, ...]:
    """The names of the fields that nobody understands, in the body's order."""
    return tuple([str(key) for key in body if key not in known])


def unknown_header(names: Collection[str], limit: int = 1024) -> str:
    """Names as one header value: safe characters only, at most `limit` of them in all."""
    text = ", ".join(
        "".join(c if c.isascii() and (c.isalnum() or c in "_-.[]") else "?" for c in name[:128])
        # Each takes two characters at least, so more than these don't fit.
        for name in islice(names, limit)
    )
    return text if len(text) <= limit else text[: limit - 3] + "..."


def body_object(body: Any) -> Mapping[str, Any]:
    """The body itself, which has to be an object."""
    if not isinstance(body, Mapping):
        raise ApiError(
            400,
            f"The request body must be a JSON object, not {kind(body)}.",
            code="invalid_type",
        )
    return body


def kind(value: Any) -> str:
    """What JSON calls a value's type, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a decimal number"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, Mapping) else "an array"


def wrong_type(path: str, wanted: str, value: Any) -> ApiError:
    """400: a value of another type than the field's."""
    return ApiError(
        400,
        f"Invalid type for {path}: expected {wanted}, got {kind(value)}.",
        param=path,
        code="invalid_type",
    )


def wrong_value(path: str, wanted: str, value: Any, code: str = "invalid_value") -> ApiError:
    """400: the right type, but a value that can't be."""
    shown = quoted(value) if isinstance(value, str) else str(value)[:60]
    return ApiError(
        400, f"Invalid value for {path}: expected {wanted}, got {shown}.", param=path, code=code
    )


def missing(path: str) -> ApiError:
    """400: a field that has to be there."""
    return ApiError(
        400, f"Missing required parameter: {path}.", param=path, code="missing_required_parameter"
    )


def anything(value: Any, path: str) -> Any:
    """No check: the field changes nothing here, whatever it holds."""
    return value


def flag(value: Any, path: str) -> bool:
    """true or false."""
    if value is True or value is False:
        return value
    raise wrong_type(path, "a boolean", value)


def whole(low: int = INT64_MIN, high: int = INT64_MAX) -> Check:
    """An integer from low to high."""

    def check(value: Any, path: str) -> int:
        if type(value) is not int:
            raise wrong_type(path, "an integer", value)
        if value < low:
            raise wrong_value(path, f"at least {low}", value, "integer_below_min_value")
        if value > high:
            raise wrong_value(path, f"at most {high}", value, "integer_above_max_value")
        return value

    return check


def number(low: float, high: float, *, above: bool = False) -> Check:
    """A finite number from low to high; `above` excludes low itself."""

    def check(value: Any, path: str) -> float:
        if type(value) is not float and type(value) is not int:
            raise wrong_type(path, "a number", value)
        if type(value) is float and not math.isfinite(value):
            raise wrong_value(path, "a finite number", value)
        if value < low or (above and value == low):
            bound = f"above {low:g}" if above else f"at least {low:g}"
            raise wrong_value(path, bound, value, "decimal_below_min_value")
        if value > high:
            raise wrong_value(path, f"at most {high:g}", value, "decimal_above_max_value")
        return float(value)

    return check


def text(low: int = 0, high: int | None = None) -> TextCheck:
    """A string of low to high characters."""

    def check(value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise wrong_type(path, "a string", value)
        if len(value) < low:
            raise wrong_value(path, "a string that isn't empty", value, "empty_string")
        if high is not None and len(value) > high:
            raise wrong_value(
                path, f"at most {high} characters", len(value), "string_above_max_length"
            )
        return value

    return check


any_text = text()
name_text = text(1)


def one_of(*allowed: str) -> Check:
    """One of a few words."""
    words = frozenset(allowed)

    def check(value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise wrong_type(path, "a string", value)
        if value not in words:
            raise wrong_value(path, "one of " + ", ".join(allowed), value)
        return value

    return check


def table(fields: Mapping[str, Check], *required: str) -> Check:
    """An object with these fields, others ignored."""

    def check(value: Any, path: str) -> dict[str, Any]:
        found = read(an_object(value, path), fields, path + ".")
        for name in required:
            if name not in found:
                raise missing(f"{path}.{name}")
        return found

    return check


def an_object(value: Any, path: str) -> Mapping[str, Any]:
    """Any object."""
    if not isinstance(value, Mapping):
        raise wrong_type(path, "an object", value)
    return value


def required(item: Mapping[str, Any], key: str, path: str) -> Any:
    """The value of a key that the object at `path` has to have."""
    value = item.get(key)
    if value is None:
        raise missing(f"{path}.{key}")
    return value


def required_text(item: Mapping[str, Any], key: str, path: str) -> str:
    """The same, a string."""
    return any_text(required(item, key, path), f"{path}.{key}")


def required_object(item: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any]:
    """The same, an object."""
    return an_object(required(item, key, path), f"{path}.{key}")


def an_array(value: Any, path: str) -> list[Any]:
    """Any array."""
    if not isinstance(value, list):
        raise wrong_type(path, "an array", value)
    return value


def array_of(check_item: Check) -> Check:
    """An array, each element checked under its own path."""

    def check(value: Any, path: str) -> list[Any]:
        return [check_item(item, f"{path}[{i}]") for i, item in enumerate(an_array(value, path))]

    return check
