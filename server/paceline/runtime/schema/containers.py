"""Arrays and objects, each part made in its turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paceline.core.rng import hash64, mix64
from paceline.runtime.schema.errors import SchemaError
from paceline.runtime.schema.facts import Facts, triggered
from paceline.runtime.schema.from_pattern import string_from
from paceline.runtime.schema.maker import SHALLOW, Maker, NoValueError, Spot
from paceline.runtime.schema.validate import member_schemas, tuple_of

MAX_PARTS = 2_000
"""Items or properties that a made value may be asked to have."""


def make_array(maker: Maker, facts: Facts, spot: Spot) -> list[Any]:
    """An array that keeps the facts; later attempts put what `contains` wants elsewhere."""
    depth, attempt = spot.depth, spot.attempt
    low, high = facts.low("minItems"), facts.high("maxItems")
    _check_size(low)
    wanted = _contained(maker, facts)
    prefix = max((len(tuple_of(part)[0]) for part in facts.parts), default=0)
    if high is not None and high < low:
        raise NoValueError
    length = max(low, prefix if depth < SHALLOW or attempt % 2 else 0)
    if depth < SHALLOW and not prefix and not attempt:
        length = max(length, 1 + mix64(spot.key + 17) % 2)
    extra: dict[int, list[Any]] = {}
    together = attempt % 3 == 2
    at = 0 if together else prefix
    for schema, count in wanted:
        for i in range(count):
            extra.setdefault(i if together else at, []).append(schema)
            at += 1
    length = max(length, max(extra, default=-1) + 1)
    if high is not None and length > high:
        length = high
    distinct = any(part.get("uniqueItems") is True for part in facts.parts)
    made: list[Any] = []
    for i in range(length):
        schemas = [*_item_schemas(facts, i), *extra.get(i, ())]
        if distinct and made:
            schemas.append({"not": {"enum": list(made)}})
        try:
            made.append(maker.value(schemas, spot.part(i)))
        except NoValueError:
            if i >= low and i not in extra:
                break
            raise
    return made


def _contained(maker: Maker, facts: Facts) -> list[tuple[Any, int]]:
    found = []
    for part in facts.parts:
        if "contains" in part:
            count = 1 if maker.document.legacy else int(part.get("minContains", 1))
            _check_size(count)
            found.append((part["contains"], count))
    return found


def _item_schemas(facts: Facts, at: int) -> list[Any]:
    found: list[Any] = []
    free = True
    for part in facts.parts:
        prefix, rest = tuple_of(part)
        if at < len(prefix):
            found.append(prefix[at])
            free = False
        elif rest is not None:
            found.append(rest)
            free = False
    if free:
        found += [part["unevaluatedItems"] for part in facts.parts if "unevaluatedItems" in part]
    return found


def make_object(maker: Maker, facts: Facts, spot: Spot) -> dict[str, Any]:
    """An object that keeps the facts: what is required, and near the root some of the rest."""
    parts = facts.parts
    low, high = facts.low("minProperties"), facts.high("maxProperties")
    _check_size(low)
    names = _required(parts)
    _, schemas = triggered(parts, names)
    known = {id(part) for part in parts}
    added = [s for s in schemas if isinstance(s, bool) or id(s) not in known]
    if added and not all(schema is True for schema in added):
        # What the required properties bring with them holds for the whole object.
        whole = maker.value([*parts, *added], spot._replace(depth=spot.depth + 1))
        if not isinstance(whole, dict):
            raise NoValueError
        return whole
    if high is not None and len(names) > high:
        raise NoValueError
    made: dict[str, Any] = {}
    for name in names:
        made[name] = _member(maker, parts, name, spot)
    for name in _optional(parts, made):
        full = high is not None and len(made) >= high
        needed = len(made) < low
        liked = spot.depth < SHALLOW and not hash64(spot.key, name, spot.attempt) % 3
        if full or not (needed or liked) or triggered(parts, [name]) != ([], []):
            continue
        _try_member(maker, made, parts, name, spot)
    if len(made) < low:
        for name in _invented(maker, parts, spot, low):
            if name not in made:
                _try_member(maker, made, parts, name, spot)
            if len(made) >= low:
                break
        else:
            raise NoValueError
    order = {name: at for at, name in enumerate(_declared(parts))}
    return dict(sorted(made.items(), key=lambda item: order.get(item[0], len(order))))


def _check_size(count: int) -> None:
    if count > MAX_PARTS:
        raise SchemaError(f"the schema asks for {count} parts, and at most {MAX_PARTS} are made")


def _required(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The properties that must be there, those included that others bring with them."""
    names: dict[str, None] = {}
    for part in parts:
        required = part.get("required")
        if isinstance(required, list):
            names.update(dict.fromkeys(required))
    while True:
        more, _ = triggered(parts, list(names))
        if all(name in names for name in more):
            return list(names)
        names.update(dict.fromkeys(more))


def _declared(parts: Sequence[Mapping[str, Any]]) -> dict[str, None]:
    return {name: None for part in parts for name in part.get("properties", ())}


def _optional(parts: Sequence[Mapping[str, Any]], made: Mapping[str, Any]) -> Iterator[str]:
    yield from (name for name in _declared(parts) if name not in made)


def _try_member(
    maker: Maker, made: dict[str, Any], parts: Sequence[Mapping[str, Any]], name: str, spot: Spot
) -> None:
    try:
        made[name] = _member(maker, parts, name, spot)
    except NoValueError:
        return


def _member(maker: Maker, parts: Sequence[Mapping[str, Any]], name: str, spot: Spot) -> Any:
    schemas: list[Any] = []
    free = True
    for part in parts:
        if "propertyNames" in part and not maker.keeps([part["propertyNames"]], name):
            raise NoValueError
        mine = list(member_schemas(part, name))
        schemas += mine
        free = free and not mine
    if free:
        schemas += [
            part["unevaluatedProperties"] for part in parts if "unevaluatedProperties" in part
        ]
    return maker.value(schemas, spot.part(name, name))


def _invented(
    maker: Maker, parts: Sequence[Mapping[str, Any]], spot: Spot, count: int
) -> Iterator[str]:
    """Names for properties that no schema names."""
    rules = [part["propertyNames"] for part in parts if "propertyNames" in part]
    for i in range(2 * count + 8):
        for part in parts:
            for pattern in part.get("patternProperties", ()):
                name = string_from(pattern, hash64(spot.key, pattern, i))
                if name is not None:
                    yield name
        if rules:
            taken: list[Any] = [{"type": "string"}, *rules]
            try:
                name = maker.value(taken, spot.part(-1 - i, ""))
            except NoValueError:
                return
            yield name
            yield f"{name}{i}"
    for i in range(count + 1):
        yield f"extra_{i + 1}"
        yield f"{i}"
