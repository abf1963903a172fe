"""Each keyword by itself and with its neighbours: made values, and the own validator's word."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator
from jsonschema.validators import validator_for

from paceline.runtime.schema import SchemaCache, SchemaError, compile_schema
from paceline.runtime.schema.jsontypes import canonical

S, I = {"type": "string"}, {"type": "integer"}
D4, D7 = Draft4Validator.META_SCHEMA["id"], Draft7Validator.META_SCHEMA["$id"]

SCHEMAS: dict[str, Any] = {
    "true": True,
    "types": {"type": ["null", "array"]},
    "const": {"const": {"a": [1, None]}},
    "enum of all sorts": {"enum": [None, 1, "x", [2], {"k": True}]},
    "enum within bounds": {"enum": [1, 5, 9], "minimum": 4, "maximum": 8},
    "one and true differ": {"enum": [1, True], "type": "boolean"},
    "bounds": {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1.001},
    "far away": {"type": "integer", "minimum": 10**15, "maximum": 10**15 + 1},
    "large": {"type": "number", "minimum": 1e300},
    "below zero": {"type": "integer", "maximum": -7, "multipleOf": 5},
    "two steps": {"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer", "minimum": 1},
    "small step": {"type": "number", "multipleOf": 0.01, "minimum": 3.14, "maximum": 3.14},
    "step over a range": {"type": "integer", "multipleOf": 1000, "minimum": 1, "maximum": 1999},
    "exact length": {"type": "string", "minLength": 17, "maxLength": 17},
    "long": {"type": "string", "minLength": 3000},
    "empty": {"type": "string", "maxLength": 0},
    "length of a format": {"type": "string", "format": "email", "minLength": 40},
    "format and pattern": {"type": "string", "format": "date", "pattern": "^2026-"},
    "two patterns": {"allOf": [{"pattern": "a"}, {"pattern": "[0-9]"}], "type": "string"},
    "items": {"type": "array", "items": {"type": "integer"}, "minItems": 3},
    "tuple": {"prefixItems": [S, I], "items": False, "minItems": 2, "type": "array"},
    "tuple of draft 7": {"$schema": D7, "items": [S, I], "additionalItems": False, "minItems": 2},
    "tuple and rest": {"type": "array", "prefixItems": [S], "items": I, "minItems": 4},
    "contains": {"type": "array", "items": I, "contains": {"minimum": 90}, "maxItems": 2},
    "contains twice": {"type": "array", "contains": {"const": "x"}, "minContains": 2},
    "contains none": {"type": "array", "contains": S, "minContains": 0, "maxContains": 0},
    "different items": {"type": "array", "items": {"enum": [1, 2, 3, 4]}, "minItems": 4,
                        "uniqueItems": True},
    "two booleans": {"type": "array", "items": {"type": "boolean"}, "minItems": 2,
                     "uniqueItems": True},
    "unevaluated items": {"prefixItems": [I], "unevaluatedItems": S, "minItems": 2},
    "required unnamed": {"type": "object", "required": ["x", "y"]},
    "closed": {"type": "object", "properties": {"a": S}, "additionalProperties": False},
    "at least": {"type": "object", "minProperties": 4, "additionalProperties": I},
    "at most": {"type": "object", "properties": {"a": S, "b": S, "c": S}, "maxProperties": 1},
    "patterned": {"type": "object", "patternProperties": {"^n_": I, "_s$": S}, "minProperties": 2,
                  "additionalProperties": False},
    "names": {"type": "object", "propertyNames": {"pattern": "^[a-z]{2}$"}, "minProperties": 3},
    "names of an enum": {"type": "object", "propertyNames": {"enum": ["q", "r"]},
                         "minProperties": 2},
    "dependent": {"type": "object", "required": ["a"],
                  "dependentRequired": {"a": ["b"], "b": ["c"]}, "properties": {"c": I}},
    "dependent schemas": {"type": "object", "required": ["a"],
                          "dependentSchemas": {"a": {"required": ["z"], "properties": {"z": I}}}},
    "dependencies": {"$schema": D7, "type": "object", "required": ["a"],
                     "dependencies": {"a": ["b"], "b": {"properties": {"b": I}}}},
    "unevaluated": {"allOf": [{"properties": {"a": S}, "required": ["a"]}],
                    "properties": {"b": S}, "unevaluatedProperties": False, "type": "object"},
    "unevaluated over a choice": {"type": "object", "unevaluatedProperties": False, "anyOf": [
        {"properties": {"a": S}, "required": ["a"]}, {"properties": {"b": I}, "required": ["b"]}]},
    "merged": {"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]},
                         {"minimum": 3}, {"maximum": 3}]},
    "nested choices": {"anyOf": [{"anyOf": [False, {"oneOf": [False, {"const": 7}]}]}, False]},
    "just one of": {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 3}]},
    "one of objects": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object",
                       "properties": {"a": I, "b": I}},
    "not": {"type": "integer", "not": {"minimum": 3}},
    "not a type": {"not": {"type": ["object", "string", "array"]}},
    "not empty": {"type": "object", "not": {"maxProperties": 0}},
    "if then": {"type": "object", "properties": {"k": {"enum": ["a", "b"]}}, "required": ["k"],
                "if": {"properties": {"k": {"const": "a"}}}, "then": {"required": ["x"]},
                "else": {"required": ["y"]}},
    "if alone": {"if": {"type": "string"}, "type": "integer"},
    "reference": {"$ref": "#/$defs/a~1b", "$defs": {"a/b": I}},
    "reference beside": {"$ref": "#/$defs/n", "minimum": 90, "$defs": {"n": I}},
    "reference of draft 7 alone": {"$schema": D7, "allOf": [{"$ref": "#/definitions/n",
                                   "maximum": -1}], "minimum": 5, "definitions": {"n": I}},
    "by id": {"$id": "https://x.test/root", "properties": {"a": {"$ref": "item"}},
              "required": ["a"], "type": "object", "$defs": {"i": {"$id": "item", "const": 4}}},
    "dynamic": {"$dynamicRef": "#n", "$defs": {"n": {"$dynamicAnchor": "n", "type": "integer"}}},
    "recursive": {"type": "object", "properties": {"kids": {"type": "array",
                  "items": {"$ref": "#"}}, "v": I}, "required": ["kids", "v"]},
    "recursive by a choice": {"anyOf": [{"type": "array", "items": {"$ref": "#"}, "minItems": 1},
                                        {"type": "integer"}]},
    "mutual": {"$ref": "#/$defs/a", "$defs": {
        "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}, "required": ["b"]},
        "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}},
    "draft 4 bounds": {"$schema": D4, "type": "integer", "minimum": 3, "exclusiveMinimum": True,
                       "maximum": 5, "exclusiveMaximum": True},
    "a wrong default": {"type": "integer", "default": "ten", "examples": [None, 12]},
    "a property called $ref": {"type": "object", "properties": {"$ref": S}, "required": ["$ref"]},
    "an enum that looks like schemas": {"enum": [{"$id": "x", "$ref": "#/nowhere"}]},
}  # fmt: skip

VALUES: list[Any] = [
    None, True, False, 0, 1, 1.0, 3, 4, 4.5, 5, 7, -8, 12, 24, 95, 3.14, 1e15, "", "a", "a1", "x",
    "2026-01-02", "a" * 17, [], [1], ["a"], ["a", 1], [1, "a", "b"], ["x", "x", 1, 2], [95],
    [1, 2, 3, 4], [True, False], [1, 1.0], [True, 1], [[5]], {}, {"a": "s"}, {"a": 1}, {"b": 1},
    {"a": 1, "b": 1, "c": 1}, {"a": "s", "b": "s"}, {"k": "a"}, {"k": "a", "x": 0}, {"n_": 1},
    {"k": "b", "y": 0}, {"n_": "s"}, {"z_s": "s"}, {"q": 0, "r": 0}, {"ab": 1, "cd": 1, "ef": 1},
    {"x": 0, "y": 0}, {"a": 4}, {"b": None}, {"b": {"b": None}}, {"kids": [], "v": 1},
    {"kids": [{"kids": [], "v": "s"}], "v": 1}, {"a": 0, "z": 1}, {"a": 0, "z": "s"}, {"$ref": "s"},
    {"a": [1, None]}, {"k": True}, [2],
]  # fmt: skip


def independent(schema: Any) -> Any:
    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


@pytest.mark.parametrize("name", SCHEMAS)
def test_made_values_are_valid(name: str) -> None:
    source, validator = compile_schema(SCHEMAS[name]), independent(SCHEMAS[name])
    for key in range(40):
        validator.validate(json.loads(source.text(key)))


@pytest.mark.parametrize("name", SCHEMAS)
def test_both_validators_agree(name: str) -> None:
    source, validator = compile_schema(SCHEMAS[name]), independent(SCHEMAS[name])
    disagreed = [v for v in VALUES if source.valid(v) != validator.is_valid(v)]
    assert disagreed == []


@pytest.mark.parametrize(
    ("schema", "reason", "pointer"),
    [
        (5, "a schema is an object or a boolean, not a number", ""),
        ({"type": "text"}, "type is one of", "/type"),
        ({"type": 5}, "type is one of", "/type"),
        ({"properties": [1]}, "properties is an object, not an array", "/properties"),
        ({"properties": {"a/b": 3}}, "not a number", "/properties/a~1b"),
        ({"required": "a"}, "required is an array of strings", "/required"),
        ({"minimum": "3"}, "minimum is a number, not a string", "/minimum"),
        ({"multipleOf": 0}, "multipleOf is above 0", "/multipleOf"),
        ({"minLength": -1}, "minLength is a whole number", "/minLength"),
        ({"maxItems": 1.5}, "maxItems is a whole number", "/maxItems"),
        ({"pattern": "("}, "can't be read", "/pattern"),
        ({"patternProperties": {"[": {}}}, "can't be read", "/patternProperties"),
        ({"enum": {}}, "enum is an array", "/enum"),
        ({"anyOf": []}, "anyOf is an array that isn't empty", "/anyOf"),
        ({"allOf": [{"items": {"not": 1}}]}, "not a number", "/allOf/0/items/not"),
        ({"$ref": 5}, "$ref is a string", "/$ref"),
        ({"dependentRequired": {"a": "b"}}, "arrays of strings", "/dependentRequired"),
    ],
)
def test_malformed_schemas_are_refused_with_a_pointer(
    schema: Any, reason: str, pointer: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema)
    assert reason in str(caught.value)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (False, "no value was found"),
        ({"type": "integer", "minimum": 1, "maximum": 0}, "no value was found"),
        ({"enum": []}, "no value was found"),
        ({"allOf": [S, I]}, "no value was found"),
        ({"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": True}, "no value"),
        ({"type": "array", "minItems": 10**6}, "at most 2000 are made"),
        ({"type": "object", "minProperties": 10**6}, "at most 2000 are made"),
        ({"type": "string", "minLength": 10**9}, "no value was found"),
        ({"$ref": "#/$defs/x"}, "leads nowhere"),
        ({"$ref": "#x"}, "leads nowhere"),
        ({"$ref": "#/enum", "enum": [1]}, "something that is no schema"),
        ({"$ref": "https://example.com/a"}, "leads outside"),
    ],
)
def test_what_cannot_be_made_is_refused_with_a_reason(schema: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        compile_schema(schema).value(1)


def test_examples_and_defaults_are_preferred() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "examples": ["one", "two"]},
                       "b": {"type": "integer", "default": 77},
                       "c": {"anyOf": [S, {"type": "null"}], "default": None}},
        "required": ["a", "b", "c"],
    }  # fmt: skip
    source = compile_schema(schema)
    made = [source.value(key) for key in range(20)]
    assert {value["a"] for value in made} == {"one", "two"}
    assert {value["b"] for value in made} == {77}
    assert all(isinstance(value["c"], str) for value in made)


def test_the_cache_knows_a_schema_by_its_content() -> None:
    cache = SchemaCache(size=2)
    first = cache.get({"type": "object", "properties": {"a": S}})
    assert cache.get({"type": "object", "properties": {"a": S}}) is first
    assert cache.get({"type": "object", "properties": {"a": S}}, objects=True) is not first
    cache.get({"minimum": 10**30})
    assert cache.get({"type": "object", "properties": {"a": S}}) is not first
    for _ in range(2):
        with pytest.raises(SchemaError, match="type is one of"):
            cache.get({"type": "x"})


def test_json_equality() -> None:
    assert canonical(1) == canonical(1.0)
    assert canonical(1) != canonical(True)
    assert canonical("1") != canonical(1)
    assert canonical({"a": [1, {"b": None}]}) == canonical({"a": [1.0, {"b": None}]})
    assert canonical([1, 2]) != canonical([2, 1])
