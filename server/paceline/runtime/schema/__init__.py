"""JSON Schema -> values that are valid under it, the same for the same key.

`compile_schema` checks a schema's form once and gives a source of values. Nothing here sends or
receives anything: a `$ref` reaches only into the schema itself.
"""

from __future__ import annotations

from paceline.runtime.schema.errors import SchemaError
from paceline.runtime.schema.source import SchemaCache, ValueSource, compile_schema

__all__ = ["SchemaCache", "SchemaError", "ValueSource", "compile_schema"]
