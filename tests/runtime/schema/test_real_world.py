"""Schemas of the kinds that people use: a value for nearly all, a clear refusal for the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft4Validator, Draft202012Validator
from jsonschema.validators import validator_for

from paceline.runtime.schema import SchemaError, compile_schema
from paceline.runtime.schema.jsontypes import compact
from paceline.runtime.schema.patterns import translate
from tests.runtime.schema.real_world import ALL, REFUSED

KEYS = range(20)


def independent(schema: Any) -> Any:
    """jsonschema's validator of the draft that the schema names, formats checked.

    It hands patterns to Python's `re`, which doesn't know `\\p{...}`: those are put into its words.
    """
    text = json.dumps(schema)
    if "\\\\p{" in text:
        schema = json.loads(text, object_hook=_in_pythons_words)
    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def _in_pythons_words(item: dict[str, Any]) -> dict[str, Any]:
    if isinstance(item.get("pattern"), str):
        item["pattern"] = translate(item["pattern"])
    return item


def test_there_are_two_hundred() -> None:
    assert len(ALL) + len(REFUSED) >= 200
    assert validator_for(ALL["mcp/draft4"]) is Draft4Validator


def test_nearly_all_are_supported() -> None:
    refused = {}
    for name, schema in {**ALL, **REFUSED}.items():
        try:
            compile_schema(schema).value(0)
        except SchemaError as error:
            refused[name] = str(error)
    assert set(refused) == set(REFUSED)
    assert len(refused) <= 0.05 * (len(ALL) + len(REFUSED))


@pytest.mark.parametrize("name", ALL)
def test_every_value_is_valid_for_an_independent_validator(name: str) -> None:
    schema = ALL[name]
    source, validator = compile_schema(schema), independent(schema)
    for key in KEYS:
        value = json.loads(source.text(key))
        validator.validate(value)
        assert source.valid(value)
        assert source.text(key) == compact(value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("contradiction", "no value was found"),
        ("never", "no value was found"),
        ("remote_ref", "leads outside"),
        ("endless", "no value was found"),
    ],
)
def test_the_rest_is_refused_with_a_reason(name: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        compile_schema(REFUSED[name]).value(0)
