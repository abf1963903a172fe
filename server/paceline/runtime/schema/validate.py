"""Whether a value is valid under a schema: the check behind everything that is made.

It knows the keywords of draft 4 to draft 2020-12. Formats count, as far as `formats` knows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paceline.runtime.schema import formats
from paceline.runtime.schema.errors import SchemaError
from paceline.runtime.schema.jsontypes import canonical, is_type, unique
from paceline.runtime.schema.patterns import compile_pattern
from paceline.runtime.schema.refs import Document
from paceline.runtime.schema.scalars import is_multiple

_STEPS = 200_000
REFS = ("$ref", "$dynamicRef", "$recursiveRef")


class Validator:
    """Checks values under the schemas of one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._under_way: set[tuple[int, int]] = set()
        self._steps = 0

    def valid(self, schema: Any, value: Any) -> bool:
        """Whether the value is valid. Raises SchemaError where telling takes too long."""
        self._steps = 0
        self._under_way.clear()
        return self._valid(schema, value)

    def _valid(self, schema: Any, value: Any) -> bool:
        if isinstance(schema, bool):
            return schema
        # A reference that comes back to itself for the same value says nothing new.
        mark = (id(schema), id(value))
        if mark in self._under_way:
            return True
        self._document.spend()
        self._steps += 1
        if self._steps > _STEPS or len(self._under_way) > 600:
            raise SchemaError("the schema is too complex to check a value against")
        self._under_way.add(mark)
        try:
            return self._holds(schema, value)
        finally:
            self._under_way.discard(mark)

    def _holds(self, schema: Mapping[str, Any], value: Any) -> bool:
        for word in REFS:
            ref = schema.get(word)
            if isinstance(ref, str):
                if not self._valid(self._document.resolve(ref, schema), value):
                    return False
                if self._document.legacy:
                    return True
        if not (self._general(schema, value) and self._combined(schema, value)):
            return False
        if isinstance(value, bool) or value is None:
            return True
        if isinstance(value, int | float):
            return number_holds(schema, value)
        if isinstance(value, str):
            return string_holds(schema, value)
        if isinstance(value, list):
            return self._array(schema, value)
        return self._object(schema, value)

    def _general(self, schema: Mapping[str, Any], value: Any) -> bool:
        kinds = schema.get("type")
        if kinds is not None:
            names = [kinds] if isinstance(kinds, str) else kinds
            if not any(is_type(value, name) for name in names):
                return False
        if "const" in schema and canonical(schema["const"]) != canonical(value):
            return False
        return "enum" not in schema or canonical(value) in self._document.allowed(schema["enum"])

    def _combined(self, schema: Mapping[str, Any], value: Any) -> bool:
        if not all(self._valid(item, value) for item in schema.get("allOf", ())):
            return False
        options = schema.get("anyOf")
        if options is not None and not any(self._valid(item, value) for item in options):
            return False
        options = schema.get("oneOf")
        if options is not None and sum(self._valid(item, value) for item in options) != 1:
            return False
        if "not" in schema and self._valid(schema["not"], value):
            return False
        if "if" in schema:
            branch = "then" if self._valid(schema["if"], value) else "else"
            return branch not in schema or self._valid(schema[branch], value)
        return True

    # -- arrays ----------------------------------------------------------------------------------

    def _array(self, schema: Mapping[str, Any], value: list[Any]) -> bool:
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        if schema.get("uniqueItems") is True and not unique(value):
            return False
        prefix, rest = tuple_of(schema)
        if not all(self._valid(item, value[i]) for i, item in enumerate(prefix[: len(value)])):
            return False
        if rest is not None and not all(self._valid(rest, item) for item in value[len(prefix) :]):
            return False
        if "contains" in schema:
            found = sum(self._valid(schema["contains"], item) for item in value)
            least = 1 if self._document.legacy else schema.get("minContains", 1)
            if found < least:
                return False
            if not self._document.legacy and found > schema.get("maxContains", found):
                return False
        if "unevaluatedItems" in schema and not self._document.legacy:
            left = schema["unevaluatedItems"]
            seen = self._items_seen(schema, value)
            return all(i in seen or self._valid(left, item) for i, item in enumerate(value))
        return True

    def _items_seen(self, schema: Any, value: list[Any]) -> set[int]:
        seen: set[int] = set()
        for part in self._in_place(schema, value):
            prefix, rest = tuple_of(part)
            if rest is not None:
                return set(range(len(value)))
            seen |= set(range(min(len(prefix), len(value))))
            if "contains" in part:
                seen |= {i for i, item in enumerate(value) if self._valid(part["contains"], item)}
            if part is not schema and "unevaluatedItems" in part:
                return set(range(len(value)))
        return seen

    # -- objects ---------------------------------------------------------------------------------

    def _object(self, schema: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        if not (
            schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value))
        ):
            return False
        required = schema.get("required")
        if isinstance(required, list) and not all(name in value for name in required):
            return False
        if "propertyNames" in schema:
            names = schema["propertyNames"]
            if not all(self._valid(names, name) for name in value):
                return False
        for name, item in value.items():
            if not all(self._valid(part, item) for part in member_schemas(schema, name)):
                return False
        if not self._dependent(schema, value):
            return False
        if "unevaluatedProperties" in schema and not self._document.legacy:
            left = schema["unevaluatedProperties"]
            seen = self._names_seen(schema, value)
            return all(n in seen or self._valid(left, item) for n, item in value.items())
        return True

    def _dependent(self, schema: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        for name, needs in dependencies(schema):
            if name in value:
                if isinstance(needs, list):
                    if not all(other in value for other in needs):
                        return False
                elif not self._valid(needs, value):
                    return False
        return True

    def _names_seen(self, schema: Any, value: Mapping[str, Any]) -> set[str]:
        seen: set[str] = set()
        for part in self._in_place(schema, value):
            if "additionalProperties" in part or (
                part is not schema and "unevaluatedProperties" in part
            ):
                return set(value)
            seen |= {name for name in value if any(True for _ in member_schemas(part, name))}
        return seen

    def _in_place(self, schema: Any, value: Any) -> Iterator[Mapping[str, Any]]:
        """The schema and those that apply to the same value and that it is valid under."""
        waiting, done = [schema], set()
        while waiting:
            part = waiting.pop()
            if isinstance(part, bool) or id(part) in done:
                continue
            done.add(id(part))
            yield part
            inner = list(part.get("allOf", ()))
            inner += [
                self._document.resolve(part[word], part)
                for word in REFS
                if isinstance(part.get(word), str)
            ]
            for word in ("anyOf", "oneOf"):
                inner += [item for item in part.get(word, ()) if self._valid(item, value)]
            if "if" in part:
                held = self._valid(part["if"], value)
                inner += [part["if"]] if held else []
                inner.append(part.get("then" if held else "else", True))
            if isinstance(value, Mapping):
                inner += [
                    needs
                    for name, needs in dependencies(part)
                    if name in value and not isinstance(needs, list)
                ]
            waiting += inner


def number_holds(schema: Mapping[str, Any], value: float) -> bool:
    """Whether a number keeps a schema's own bounds."""
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    # Draft 4: booleans, that make the plain bounds exclusive.
    if above is True:
        above = low
    if below is True:
        below = high
    step = schema.get("multipleOf")
    return (
        (low is None or value >= low)
        and (high is None or value <= high)
        and (above is None or above is False or value > above)
        and (below is None or below is False or value < below)
        and (step is None or is_multiple(value, step))
    )


def string_holds(schema: Mapping[str, Any], value: str) -> bool:
    """Whether a string keeps a schema's own rules."""
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return False
    pattern = schema.get("pattern")
    if pattern is not None and not compile_pattern(pattern).search(value):
        return False
    form = schema.get("format")
    return not isinstance(form, str) or formats.holds(form, value)


def tuple_of(schema: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """The schemas of the first items, and that of the others (None where they are free)."""
    items = schema.get("items")
    prefix = schema.get("prefixItems")
    if isinstance(items, list):
        return items, schema.get("additionalItems")
    return (prefix if isinstance(prefix, list) else []), items


def member_schemas(schema: Mapping[str, Any], name: str) -> Iterator[Any]:
    """The schemas that one schema lays on a property, by its name."""
    known = False
    properties = schema.get("properties")
    if properties is not None and name in properties:
        known = True
        yield properties[name]
    for pattern, item in schema.get("patternProperties", {}).items():
        if compile_pattern(pattern).search(name):
            known = True
            yield item
    if not known and "additionalProperties" in schema:
        yield schema["additionalProperties"]


def dependencies(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a property's presence asks for: a list of names, or a schema of the whole."""
    for word in ("dependentRequired", "dependentSchemas", "dependencies"):
        needs = schema.get(word)
        if isinstance(needs, Mapping):
            yield from needs.items()
