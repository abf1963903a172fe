"""Small schemas that ask for endless work: refused, and soon, since everybody waits meanwhile."""

from __future__ import annotations

import time
from typing import Any

import pytest

from paceline.runtime.schema import SchemaError, compile_schema


def _chain(link: Any, end: Any, length: int = 12) -> dict[str, Any]:
    """Definitions of which each refers to the next one, as `link` makes them."""
    places = {f"a{i}": link({"$ref": f"#/$defs/a{i + 1}"}) for i in range(length)}
    return {"$ref": "#/$defs/a0", "$defs": {**places, f"a{length}": end}}


@pytest.mark.parametrize(
    "schema",
    [
        _chain(lambda ref: {"anyOf": [ref] * 4}, False),
        _chain(lambda ref: {"oneOf": [ref] * 4}, {"type": "string"}),
        _chain(lambda ref: {"allOf": [ref, {"allOf": [ref, {}]}, ref, ref]}, {"type": "string"}),
        _chain(
            lambda ref: {
                "type": "object",
                "properties": dict.fromkeys("abcd", ref),
                "required": list("abcd"),
            },
            {"type": "string"},
        ),
        {"anyOf": [{"anyOf": [{"not": {}}] * 60}] * 60, "allOf": [{"anyOf": [{}] * 60}] * 60},
    ],
)
def test_little_schemas_with_endless_work_are_refused(schema: dict[str, Any]) -> None:
    begun = time.process_time()
    with pytest.raises(SchemaError):
        compile_schema(schema).value(1)
    assert time.process_time() - begun < 1.0


def test_a_long_enum_is_read_once() -> None:
    source = compile_schema({"type": "string", "enum": [f"v{i}" for i in range(100_000)]})
    begun = time.process_time()
    assert source.valid(source.value(1))
    assert source.value(1) != source.value(2)
    assert time.process_time() - begun < 1.0


def test_work_is_counted_for_each_value_anew() -> None:
    source = compile_schema({"type": "array", "items": {"enum": [1, 2]}, "minItems": 1_000})
    for key in range(60):
        assert len(source.value(key)) >= 1_000
