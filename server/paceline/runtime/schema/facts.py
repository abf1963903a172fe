"""Schemas that must all hold -> the plain demands they come to, one way at a time.

`alternatives` walks the choices that anyOf, oneOf and if leave open. Each way is a list of plain
schemas, read for their own keywords alone, from which `Facts` gathers what is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.core.rng import mix64
from paceline.runtime.schema.jsontypes import BASIC_TYPES
from paceline.runtime.schema.refs import Document
from paceline.runtime.schema.scalars import NumberRules, StringRules
from paceline.runtime.schema.validate import REFS, dependencies

# Keywords that what is made is not sure to keep: it has to be checked.
_UNSURE = frozenset(
    {
        "not", "oneOf", "if", "contains", "dependentSchemas", "dependencies", "dependentRequired",
        "unevaluatedProperties", "unevaluatedItems", "propertyNames", "patternProperties",
        "const", "enum", "uniqueItems",
    }
)  # fmt: skip

# What each keyword says of the type, where `type` itself says nothing.
_HINTS: dict[str, str] = {
    **dict.fromkeys(
        (
            "properties", "required", "additionalProperties", "patternProperties", "minProperties",
            "maxProperties", "propertyNames", "dependentRequired", "dependentSchemas",
            "unevaluatedProperties",
        ),
        "object",
    ),
    **dict.fromkeys(
        (
            "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains",
            "unevaluatedItems",
        ),
        "array",
    ),
    **dict.fromkeys(("pattern", "format", "minLength", "maxLength"), "string"),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"
    ),
}  # fmt: skip

_CHEAP = {"null": 0, "boolean": 0, "integer": 1, "number": 1, "string": 1, "array": 2, "object": 3}


@dataclass(slots=True)
class Facts:
    """The plain demands of schemas that must all hold."""

    parts: list[Mapping[str, Any]]
    types: list[str]
    """The types left, the likeliest first; never empty."""
    numbers: NumberRules = field(default_factory=NumberRules)
    strings: StringRules = field(default_factory=StringRules)
    unsure: bool = False

    @classmethod
    def of(cls, parts: list[Mapping[str, Any]], key: int) -> Facts | None:
        """What the parts come to; None where their types have nothing in common."""
        types = _types(parts, key)
        if not types:
            return None
        facts = cls(parts, types)
        for part in parts:
            _add_numbers(facts.numbers, part)
            _add_strings(facts.strings, part)
            facts.unsure = facts.unsure or not _UNSURE.isdisjoint(part)
        return facts

    def low(self, word: str) -> int:
        """The largest of a keyword's values, 0 without any."""
        return int(max((part[word] for part in self.parts if word in part), default=0))

    def high(self, word: str) -> int | None:
        """The least of a keyword's values."""
        found = min((part[word] for part in self.parts if word in part), default=None)
        return None if found is None else int(found)


def _types(parts: Sequence[Mapping[str, Any]], key: int) -> list[str]:
    left: set[str] | None = None
    for part in parts:
        kinds = part.get("type")
        if kinds is None:
            continue
        mine = {kinds} if isinstance(kinds, str) else set(kinds)
        left = mine if left is None else _both(left, mine)
    if left is None:
        found = [_HINTS[word] for part in parts for word in part if word in _HINTS]
        likely = list(dict.fromkeys(found))
        return [*likely, *(t for t in _FREE if t not in likely)]
    if "number" in left:
        left.discard("integer")
    order = [name for name in BASIC_TYPES if name in left and name != "null"]
    turn = mix64(key + 5) % len(order) if order else 0
    return order[turn:] + order[:turn] + (["null"] if "null" in left else [])


# With nothing said, a string is the likeliest to be of use.
_FREE = ("string", "object", "integer", "boolean", "array", "number", "null")


def _both(a: set[str], b: set[str]) -> set[str]:
    shared = a & b
    for one, other in ((a, b), (b, a)):
        if "number" in one and "integer" in other:
            shared.add("integer")
    return shared


def _add_numbers(rules: NumberRules, part: Mapping[str, Any]) -> None:
    low, high = part.get("minimum"), part.get("maximum")
    above, below = part.get("exclusiveMinimum"), part.get("exclusiveMaximum")
    if above is True:
        above = low
    if below is True:
        below = high
    rules.low = _greater(rules.low, low)
    rules.high = _smaller(rules.high, high)
    rules.above = _greater(rules.above, None if above is False else above)
    rules.below = _smaller(rules.below, None if below is False else below)
    if "multipleOf" in part:
        rules.multiples.append(part["multipleOf"])


def _greater(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else max(a, b)


def _smaller(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else min(a, b)


def _add_strings(rules: StringRules, part: Mapping[str, Any]) -> None:
    rules.low = max(rules.low, int(part.get("minLength", 0)))
    high = part.get("maxLength")
    if high is not None:
        rules.high = int(high) if rules.high is None else min(rules.high, int(high))
    if "pattern" in part:
        rules.patterns.append(part["pattern"])
    if isinstance(part.get("format"), str):
        rules.formats.append(part["format"])


@dataclass(slots=True)
class _Choice:
    """Several ways to go on; each is a list of schemas that then must hold."""

    options: list[list[Any]]


def alternatives(
    document: Document, schemas: Sequence[Any], key: int, *, cheap: bool
) -> Iterator[list[Mapping[str, Any]]]:
    """The ways in which schemas can all hold, each as its plain parts.

    Which comes first hangs on `key`, with null last; with `cheap` the least deep come first.
    """
    waiting: list[tuple[list[Any], list[Mapping[str, Any]], frozenset[int], int]]
    waiting = [(list(schemas), [], frozenset(), key)]
    while waiting:
        pending, parts, seen, key = waiting.pop()
        document.spend(1 + len(pending) + len(parts))
        open_choices = [item for item in pending if isinstance(item, _Choice)]
        plain = [item for item in pending if not isinstance(item, _Choice)]
        done = set(seen)
        possible = True
        while plain:
            schema = plain.pop()
            if isinstance(schema, bool):
                if not schema:
                    possible = False
                    break
                continue
            document.spend()
            if id(schema) in done:
                continue
            done.add(id(schema))
            referred = _referred(document, schema)
            plain += referred
            if referred and document.legacy:
                continue
            parts.append(schema)
            plain += schema.get("allOf", ())
            open_choices += _choices(schema)
        if not possible or not _compatible(parts):
            continue
        if not open_choices:
            yield parts
            continue
        first, rest = open_choices[0], open_choices[1:]
        for option in reversed(_ordered(document, first.options, key, cheap=cheap)):
            waiting.append(([*rest, *option], list(parts), frozenset(done), mix64(key)))


def _referred(document: Document, schema: Mapping[str, Any]) -> list[Any]:
    return [
        document.resolve(schema[word], schema) for word in REFS if isinstance(schema.get(word), str)
    ]


def _compatible(parts: Sequence[Mapping[str, Any]]) -> bool:
    return bool(_types(parts, 0))


def _choices(schema: Mapping[str, Any]) -> list[_Choice]:
    found = [
        _Choice([[option] for option in schema[word]])
        for word in ("anyOf", "oneOf")
        if word in schema
    ]
    if "if" in schema and ("then" in schema or "else" in schema):
        condition = schema["if"]
        found.append(
            _Choice(
                [
                    [condition, schema.get("then", True)],
                    [{"not": condition}, schema.get("else", True)],
                ]
            )
        )
    return found


def _ordered(
    document: Document, options: list[list[Any]], key: int, *, cheap: bool
) -> list[list[Any]]:
    if cheap:
        return sorted(options, key=lambda option: max(_cost(document, s) for s in option))
    turn = mix64(key) % len(options)
    turned = options[turn:] + options[:turn]
    return sorted(turned, key=lambda option: any(_is_null(schema) for schema in option))


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def _cost(document: Document, schema: Any, depth: int = 0) -> int:
    if not isinstance(schema, Mapping) or "const" in schema or "enum" in schema:
        return 0
    for word in REFS:
        if isinstance(schema.get(word), str):
            return (
                9
                if depth > 4
                else _cost(document, document.resolve(schema[word], schema), depth + 1)
            )
    kinds = schema.get("type", "object")
    names = [kinds] if isinstance(kinds, str) else kinds
    cost = min((_CHEAP[name] for name in names), default=9)
    return cost if cost < 3 else cost + len(schema.get("required") or ())


def triggered(
    parts: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> tuple[list[str], list[Any]]:
    """The properties and the schemas that the presence of properties asks for."""
    more: list[str] = []
    schemas: list[Any] = []
    for part in parts:
        for name, needs in dependencies(part):
            if name in names:
                if isinstance(needs, list):
                    more += needs
                else:
                    schemas.append(needs)
    return more, schemas
