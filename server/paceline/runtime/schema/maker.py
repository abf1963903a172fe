"""Schemas -> one value that keeps them all: built by construction, checked where that isn't sure.

Everything drawn is keyed, so a key always makes the same value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from paceline.core.rng import hash64, mix64
from paceline.runtime.schema.errors import SchemaError
from paceline.runtime.schema.facts import Facts, alternatives
from paceline.runtime.schema.jsontypes import canonical
from paceline.runtime.schema.refs import Document
from paceline.runtime.schema.scalars import make_number, make_string
from paceline.runtime.schema.validate import Validator

MAX_DEPTH = 40
"""Levels that a value may be deep."""

SHALLOW = 3
"""Levels from which on only what is required is made, so that a recursive schema ends."""

_BUDGET = 4_000
_WAYS = 48
_LISTED = 1_000
_TRIES = 6

# Tried where nothing could be made by the rules: odd schemas are often satisfied by something
# very plain.
_PLAIN_VALUES: tuple[Any, ...] = (
    {}, [], "", 0, None, True, False, "a", 1, -1, 0.5, 2, [0], ["a"], [None], {"a": 0}, {"": 0},
    1.5, -0.5, 100, "0", " ", [[]], [{}], 1e10, -1e10, "aa", "note", "\u00e9",
)  # fmt: skip


class NoValueError(Exception):
    """Nothing was found that keeps the schemas."""


class Spot(NamedTuple):
    """Where in a value something is made: `name` is the property's, `attempt` counts retries."""

    key: int
    depth: int = 0
    name: str = ""
    attempt: int = 0

    def part(self, at: str | int, name: str | None = None) -> Spot:
        """The spot of an item or a member."""
        return Spot(hash64(self.key, at), self.depth + 1, self.name if name is None else name)


class Maker:
    """Makes one value; a new one for each, as it counts its work.

    Raises NoValueError, and SchemaError where the work or the value gets too large.
    """

    def __init__(self, document: Document, validator: Validator) -> None:
        self.document = document
        self.validator = validator
        self._left = _BUDGET

    def value(self, schemas: Sequence[Any], spot: Spot) -> Any:
        """A value that keeps all the schemas."""
        self._left -= 1
        if self._left < 0:
            raise SchemaError("the schema is too complex to make a value for")
        if spot.depth > MAX_DEPTH or any(schema is False for schema in schemas):
            raise NoValueError
        for value in self._given(schemas, spot.key):
            if self.keeps(schemas, value):
                return value
        cheap = spot.depth >= SHALLOW
        ways = alternatives(self.document, schemas, spot.key, cheap=cheap)
        for at, parts in enumerate(islice(ways, _WAYS)):
            made = self._one_way(schemas, parts, spot._replace(key=mix64(spot.key + at)))
            if made:
                return made[0]
        for value in _PLAIN_VALUES:
            if self.keeps(schemas, value):
                return value
        raise NoValueError

    def keeps(self, schemas: Sequence[Any], value: Any) -> bool:
        """Whether a value is valid under all of the schemas."""
        return all(self.validator.valid(schema, value) for schema in schemas)

    def _given(self, schemas: Sequence[Any], key: int) -> Iterator[Any]:
        """What the schemas themselves offer: examples first, then the default."""
        for schema in schemas:
            if isinstance(schema, Mapping):
                examples = schema.get("examples")
                if isinstance(examples, list) and examples:
                    turn = mix64(key + 11) % len(examples)
                    yield from examples[turn:] + examples[:turn]
                # null is a default that says "left out": rarely what a caller wants to see.
                if schema.get("default") is not None:
                    yield schema["default"]

    def _one_way(
        self, schemas: Sequence[Any], parts: list[Mapping[str, Any]], spot: Spot
    ) -> list[Any]:
        """A value in a list, or none."""
        facts = Facts.of(parts, spot.key)
        if facts is None:
            return []
        for attempt in range(_TRIES if facts.unsure else 1):
            try:
                value = self._make(
                    facts, spot._replace(key=mix64(spot.key + attempt), attempt=attempt)
                )
            except NoValueError:
                continue
            if not facts.unsure or self.keeps(schemas, value):
                return [value]
        return []

    def _make(self, facts: Facts, spot: Spot) -> Any:
        listed = _listed(facts.parts)
        if listed is not None:
            if len(listed) > _LISTED:
                turn = mix64(spot.key + 17) % len(listed)
                listed = [*listed[turn:], *listed[:turn]][:_LISTED]
            fitting = [value for value in listed if self.keeps(facts.parts, value)]
            if not fitting:
                raise NoValueError
            worth = [value for value in fitting if value is not None] or fitting
            return worth[mix64(spot.key + 13) % len(worth)]
        for kind in facts.types:
            try:
                return self._of_type(kind, facts, spot)
            except NoValueError:
                continue
        raise NoValueError

    def _of_type(self, kind: str, facts: Facts, spot: Spot) -> Any:
        # Here and not above: both make values of their own through this class.
        from paceline.runtime.schema.containers import make_array, make_object  # noqa: PLC0415

        if kind == "object":
            return make_object(self, facts, spot)
        if kind == "array":
            return make_array(self, facts, spot)
        if kind == "string":
            return _or_none(make_string(facts.strings, spot.key, spot.name))
        if kind in ("integer", "number"):
            return _or_none(make_number(facts.numbers, spot.key, whole=kind == "integer"))
        if kind == "boolean":
            fitting = [v for v in (True, False) if not facts.unsure or self.keeps(facts.parts, v)]
            if not fitting:
                raise NoValueError
            return fitting[mix64(spot.key) % len(fitting)]
        return None


def _or_none(value: Any) -> Any:
    if value is None:
        raise NoValueError
    return value


def _listed(parts: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """The values that enum or const leave, None where neither is there."""
    for part in parts:
        if "const" in part:
            return [part["const"]]
    lists = [part["enum"] for part in parts if "enum" in part]
    if not lists:
        return None
    left: list[Any] = list(lists[0])
    for other in lists[1:]:
        allowed = {canonical(value) for value in other}
        left = [value for value in left if canonical(value) in allowed]
    return left
