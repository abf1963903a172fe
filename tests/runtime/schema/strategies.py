"""Schemas to try: made by hypothesis-jsonschema from the meta-schema, and put together by hand.

hypothesis-jsonschema makes values for a schema, so the meta-schema makes it make schemas. It can't
follow a schema that refers to itself: the meta-schema is unrolled a few levels deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st
from hypothesis.internal.conjecture import utils
from hypothesis_jsonschema import _from_schema, from_schema


class _Many(utils.many):
    """Hypothesis's helper with the method that hypothesis-jsonschema 0.23 still calls."""

    _turns: Iterator[None] | None = None

    def more(self) -> bool:
        if self._turns is None:
            self._turns = iter(self.__enter__())
        return next(self._turns, False) is None


vars(_from_schema)["cu"] = SimpleNamespace(many=_Many)

_COUNT = {"type": "integer", "minimum": 0, "maximum": 12}
_NUMBER = {"type": "number", "minimum": -1e6, "maximum": 1e6}
_TYPE = {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]}
_NAME = {"type": "string", "maxLength": 4}


def meta_schema(depth: int) -> dict[str, Any]:
    """Draft 7's meta-schema, `depth` levels of schemas deep, with bounds kept within reason."""
    types = {
        "anyOf": [_TYPE, {"type": "array", "items": _TYPE, "minItems": 1, "uniqueItems": True}]
    }
    scalars: dict[str, Any] = {
        "type": types,
        "multipleOf": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e4},
        "minimum": _NUMBER,
        "maximum": _NUMBER,
        "exclusiveMinimum": _NUMBER,
        "exclusiveMaximum": _NUMBER,
        "minLength": _COUNT,
        "maxLength": _COUNT,
        "minItems": _COUNT,
        "maxItems": _COUNT,
        "minProperties": _COUNT,
        "maxProperties": _COUNT,
        "uniqueItems": {"type": "boolean"},
        "pattern": {"type": "string", "format": "regex"},
        "format": {"enum": ["date-time", "email", "uri", "uuid", "ipv4", "date", "color-name"]},
        "required": {"type": "array", "items": _NAME, "maxItems": 3, "uniqueItems": True},
        "const": True,
        "enum": {"type": "array", "items": True, "minItems": 1, "maxItems": 4},
        "title": {"type": "string"},
        "default": True,
        "examples": {"type": "array", "items": True, "maxItems": 3},
    }
    if not depth:
        return {
            "anyOf": [
                {"type": "boolean"},
                {"type": "object", "properties": scalars, "additionalProperties": False},
            ]
        }
    inner = meta_schema(depth - 1)
    many = {"type": "array", "items": inner, "minItems": 1, "maxItems": 3}
    by_name = {
        "type": "object",
        "additionalProperties": inner,
        "propertyNames": _NAME,
        "maxProperties": 3,
    }
    by_pattern = {**by_name, "propertyNames": {"type": "string", "format": "regex"}}
    nested = {
        "items": {"anyOf": [inner, many]},
        "additionalItems": inner,
        "contains": inner,
        "additionalProperties": inner,
        "properties": by_name,
        "patternProperties": by_pattern,
        "propertyNames": inner,
        "allOf": many,
        "anyOf": many,
        "oneOf": many,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
    }
    return {
        "anyOf": [
            {"type": "boolean"},
            {
                "type": "object",
                "properties": {**scalars, **nested},
                "additionalProperties": False,
                "maxProperties": 7,
            },
        ]
    }


def from_meta_schema(depth: int = 2) -> st.SearchStrategy[Any]:
    """Schemas as hypothesis-jsonschema makes them: wild, and often satisfied by nothing."""
    return from_schema(meta_schema(depth))


# -- by hand: schemas that mean something ---------------------------------------------------------

_names = st.sampled_from(["id", "name", "path", "count", "tags", "node", "kind", "a", "é"])
_texts = st.text("abc -é", max_size=6)
_leaves = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({}),
    st.just(True),
    st.builds(
        lambda low, size, kind: {"type": kind, "minimum": low, "maximum": low + size},
        st.integers(-50, 50),
        st.integers(0, 40),
        st.sampled_from(["integer", "number"]),
    ),
    st.builds(
        lambda low, step: {"type": "number", "exclusiveMinimum": low, "multipleOf": step},
        st.integers(-50, 50),
        st.sampled_from([1, 2, 7, 0.5, 0.1, 0.01, 2.5]),
    ),
    st.builds(
        lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
        st.integers(0, 40),
        st.integers(0, 20),
    ),
    st.builds(
        lambda name: {"type": "string", "format": name},
        st.sampled_from(
            [
                "date-time", "date", "time", "email", "uri", "uuid", "hostname", "ipv4", "ipv6",
                "regex", "duration", "json-pointer", "uri-reference", "no-such-format",
            ]
        ),
    ),
    st.builds(
        lambda pattern: {"type": "string", "pattern": pattern},
        st.sampled_from(
            [
                r"^[A-Z]{2}-\d{3,5}$", r"^(foo|ba[rz])+$", r"\w+@\w+", r"^#[0-9a-f]{6}$",
                r"^\d{4}-\d{2}-\d{2}$", r"^[^/]+/[^/]+$", r"^(?!-)[a-z-]{3,}(?<!-)$",
                r"^(?:\+?1[-. ]?)?\(?\d{3}\)?$", r"colou?r", "", r"^v?\d+\.\d+\.\d+(-\w+)?$",
            ]
        ),
    ),
    st.builds(lambda v: {"enum": v}, st.lists(_texts | st.integers(), min_size=1, max_size=4)),
    st.builds(lambda v: {"const": v}, _texts | st.integers() | st.none() | st.booleans()),
)  # fmt: skip


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.dictionaries(_names, inner, max_size=4)
    return st.one_of(
        st.builds(_object, members, st.booleans()),
        st.builds(
            lambda items, low, more, distinct: {
                "type": "array",
                "items": items,
                "minItems": low,
                "maxItems": low + more,
                "uniqueItems": distinct,
            },
            inner,
            st.integers(0, 2),
            st.integers(0, 3),
            st.just(value=False),
        ),
        st.builds(lambda first: {"type": "array", "prefixItems": first, "items": False},
                  st.lists(inner, max_size=3)),
        st.builds(lambda one: {"anyOf": [one, {"type": "null"}]}, inner),
        st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda some: {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"kind": {"const": f"k{i}"}, "value": one},
                        "required": ["kind"],
                    }
                    for i, one in enumerate(some)
                ]
            },
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.builds(
            lambda one: {"type": "object", "additionalProperties": one, "minProperties": 1}, inner
        ),
    )  # fmt: skip


def _object(members: dict[str, Any], closed: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": members}
    made["required"] = sorted(members)[: len(members) // 2 + closed]
    if closed:
        made["additionalProperties"] = False
    return made


def by_hand() -> st.SearchStrategy[Any]:
    """Schemas in the shapes that people write; nearly all can be satisfied."""
    return st.recursive(_leaves, _containers, max_leaves=8)
