"""JSON's own idea of types and equality, which is not Python's: true is no number, 1.0 is 1."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

BASIC_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
"""Every type, `integer` beside the `number` that holds it; the richest first."""


def is_type(value: Any, name: str) -> bool:
    """Whether a value is of a JSON Schema type; a whole float counts as an integer."""
    if name == "null":
        return value is None
    if name == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if name == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if name == "number":
        return isinstance(value, int | float)
    if name == "string":
        return isinstance(value, str)
    if name == "array":
        return isinstance(value, list)
    return isinstance(value, Mapping)


def canonical(value: Any) -> Any:
    """A hashable stand-in: equal for two values exactly where JSON Schema calls them equal."""
    if isinstance(value, bool):
        return ("b", value)
    if isinstance(value, int | float):
        return ("n", value)
    if isinstance(value, list):
        return ("a", tuple(canonical(item) for item in value))
    if isinstance(value, Mapping):
        return ("o", frozenset((key, canonical(item)) for key, item in value.items()))
    return ("s", value)


def unique(values: Iterable[Any]) -> bool:
    """Whether no two of the values are equal."""
    seen = set()
    for value in values:
        key = canonical(value)
        if key in seen:
            return False
        seen.add(key)
    return True


def compact(value: Any) -> str:
    """JSON text without needless spaces, as OpenAI's models write arguments."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
