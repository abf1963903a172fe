"""Whether a schema is one at all: each keyword's value has the form that the keyword takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from paceline.runtime.schema.errors import SchemaError
from paceline.runtime.schema.jsontypes import TYPES
from paceline.runtime.schema.patterns import compile_pattern

MAX_DEPTH = 200
"""Levels a schema may be deep; deeper ones are refused, not recursed into."""


def check_form(schema: Any) -> None:
    """Raise SchemaError, with a pointer, where a keyword has a value that it can't have.

    Unknown keywords are let be, as the standard asks.
    """
    waiting: list[tuple[Any, str, int]] = [(schema, "", 0)]
    while waiting:
        node, pointer, depth = waiting.pop()
        if isinstance(node, bool):
            continue
        if not isinstance(node, Mapping):
            raise SchemaError(f"a schema is an object or a boolean, not {_kind(node)}", pointer)
        if depth > MAX_DEPTH:
            raise SchemaError(f"the schema is more than {MAX_DEPTH} levels deep", pointer)
        for word, value in node.items():
            check = _CHECKS.get(word)
            where = f"{pointer}/{_escape(str(word))}"
            if check is not None:
                problem = check(value)
                if problem:
                    raise SchemaError(problem.format(word=word, kind=_kind(value)), where)
            waiting += [(item, at, depth + 1) for item, at in _schemas(word, value, where)]


def _schemas(word: str, value: Any, where: str) -> Iterator[tuple[Any, str]]:
    """The schemas that a keyword holds, with their pointers."""
    if word in _ONE or (word in _ONE_OR_MANY and not isinstance(value, list)):
        yield value, where
    elif word in _MANY or word in _ONE_OR_MANY:
        for i, item in enumerate(value):
            yield item, f"{where}/{i}"
    elif word in _BY_NAME:
        for name, item in value.items():
            if word != "dependencies" or not isinstance(item, list):
                yield item, f"{where}/{_escape(str(name))}"


_ONE = frozenset(
    {
        "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties",
        "additionalItems", "unevaluatedProperties", "unevaluatedItems",
    }
)  # fmt: skip
_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_ONE_OR_MANY = frozenset({"items"})
_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)

_Problem = str | None


def _types(value: Any) -> _Problem:
    for name in value if isinstance(value, list) else [value]:
        if not isinstance(name, str) or name not in TYPES:
            return f"{{word}} is one of {', '.join(TYPES)} or an array of them, not {name!r:.60}"
    return None


def _number(value: Any) -> _Problem:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "{word} is a number, not {kind}"
    return None


def _limit(value: Any) -> _Problem:
    """exclusiveMinimum and exclusiveMaximum: numbers, or booleans in draft 4."""
    return None if isinstance(value, bool) else _number(value)


def _positive(value: Any) -> _Problem:
    return _number(value) or (None if value > 0 else "{word} is above 0")


def _count(value: Any) -> _Problem:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or value < 0:
        return "{word} is a whole number from 0 up"
    return None


def _of(kind: type | tuple[type, ...], wanted: str) -> Callable[[Any], _Problem]:
    return lambda value: None if isinstance(value, kind) else f"{{word}} is {wanted}, not {{kind}}"


def _names(value: Any) -> _Problem:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return "{word} is an array of strings"
    return None


def _name_lists(value: Any) -> _Problem:
    if not isinstance(value, Mapping) or any(_names(item) for item in value.values()):
        return "{word} is an object of arrays of strings"
    return None


def _pattern(value: Any) -> _Problem:
    if not isinstance(value, str):
        return "{word} is a string, not {kind}"
    try:
        compile_pattern(value)
    except SchemaError as error:
        return str(error).replace("{", "{{").replace("}", "}}")
    return None


def _patterns(value: Any) -> _Problem:
    if not isinstance(value, Mapping):
        return "{word} is an object, not {kind}"
    return next((found for name in value if (found := _pattern(name))), None)


def _filled(value: Any) -> _Problem:
    return None if isinstance(value, list) and value else "{word} is an array that isn't empty"


_object = _of(Mapping, "an object")
_array = _of(list, "an array")
_string = _of(str, "a string")

_CHECKS: dict[str, Callable[[Any], _Problem]] = {
    "type": _types,
    "enum": _array,
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _limit,
    "exclusiveMaximum": _limit,
    "multipleOf": _positive,
    **dict.fromkeys(
        (
            "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
            "minContains", "maxContains",
        ),
        _count,
    ),
    "pattern": _pattern,
    "patternProperties": _patterns,
    "required": lambda value: None if isinstance(value, bool) else _names(value),
    "properties": _object,
    "$defs": _object,
    "definitions": _object,
    "dependentSchemas": _object,
    "dependencies": _object,
    "dependentRequired": _name_lists,
    "allOf": _filled,
    "anyOf": _filled,
    "oneOf": _filled,
    "prefixItems": _array,
    "$ref": _string,
    "$dynamicRef": _string,
    "$recursiveRef": _string,
}  # fmt: skip


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"
