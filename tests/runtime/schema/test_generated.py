"""Five thousand generated schemas: whatever is made for them, an independent validator takes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from paceline.runtime.schema import SchemaError, ValueSource, compile_schema
from tests.runtime.schema.strategies import by_hand, from_meta_schema

KEYS = st.integers(0, 2**64 - 1)
many = settings(
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)


def made(schema: Any, key: int, kind: Any) -> bool:
    """Whether a value came of it; asserts that it is valid, the same again, and JSON."""
    try:
        source = compile_schema(schema)
        text = source.text(key)
    except SchemaError:
        return False
    value = json.loads(text)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    errors = [error.message for error in validator.iter_errors(value)]
    assert not errors, (text, errors)
    assert compile_schema(schema).text(key) == text
    return True


@pytest.mark.timeout(300)
def test_schemas_as_people_write_them() -> None:
    counts: Counter[bool] = Counter()

    @settings(many, max_examples=4_300)
    @given(by_hand(), KEYS)
    def run(schema: Any, key: int) -> None:
        counts[made(schema, key, Draft202012Validator)] += 1

    run()
    assert counts.total() >= 4_300
    assert counts[True] >= 0.98 * counts.total()


# The wilder ones are contradictory more often than not seldom: an enum of nothing that fits, a
# lower bound above the upper one.
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("depth", "examples"), [(0, 600), (1, 100)])
def test_schemas_made_by_hypothesis_jsonschema(depth: int, examples: int) -> None:
    counts: Counter[bool] = Counter()

    @settings(many, max_examples=examples)
    @given(from_meta_schema(depth), KEYS)
    def run(schema: Any, key: int) -> None:
        counts[made(schema, key, Draft7Validator)] += 1

    run()
    assert counts.total() >= examples
    assert counts[True] >= 0.5 * counts.total()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-60, 60) | st.floats(-60, 60) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "kind", "value", "a"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=1_000)
@given(by_hand(), VALUES)
def test_the_own_validator_never_takes_what_another_refuses(schema: Any, value: Any) -> None:
    kind = Draft202012Validator
    if compile_schema(schema).valid(value):
        assert kind(schema, format_checker=kind.FORMAT_CHECKER).is_valid(value)


@settings(max_examples=300)
@given(by_hand(), KEYS)
def test_objects_alone_where_only_they_will_do(schema: Any, key: int) -> None:
    try:
        value = compile_schema(schema, objects=True).value(key)
    except SchemaError:
        return
    assert isinstance(value, dict)


def test_different_keys_make_different_values() -> None:
    source: ValueSource = compile_schema({"type": "object", "properties": {"n": {"type": "string"}},
                                          "required": ["n"]})  # fmt: skip
    assert len({source.text(key) for key in range(30)}) > 10
