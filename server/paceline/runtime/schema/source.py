"""A schema made ready once, then a value for any key."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

from paceline.core.rng import mix64
from paceline.runtime.schema.errors import SchemaError
from paceline.runtime.schema.form import check_form
from paceline.runtime.schema.jsontypes import compact
from paceline.runtime.schema.maker import Maker, NoValueError, Spot
from paceline.runtime.schema.refs import Document
from paceline.runtime.schema.validate import Validator

_ATTEMPTS = 4


class ValueSource:
    """Makes values that are valid under one schema, and objects only with `objects`.

    Made by `compile_schema`.
    """

    def __init__(self, schema: Any, *, objects: bool) -> None:
        self._document = Document(schema)
        self._validator = Validator(self._document)
        self._schemas = [schema, {"type": "object"}] if objects else [schema]

    def value(self, key: int) -> Any:
        """The value that a key picks.

        Raises SchemaError where nothing was found that satisfies the schema.
        """
        self._document.begin()
        try:
            for attempt in range(_ATTEMPTS):
                maker = Maker(self._document, self._validator)
                try:
                    value = maker.value(self._schemas, Spot(mix64(key + attempt)))
                except NoValueError:
                    continue
                if maker.keeps(self._schemas, value):
                    return value
        except RecursionError:
            raise SchemaError("the schema is too deep to make a value for") from None
        raise SchemaError("no value was found that satisfies the schema")

    def text(self, key: int) -> str:
        """The same as compact JSON."""
        return compact(self.value(key))

    def valid(self, value: Any) -> bool:
        """Whether a value is valid, formats included.

        Raises SchemaError where telling takes too long.
        """
        self._document.begin()
        return all(self._validator.valid(schema, value) for schema in self._schemas)


def compile_schema(schema: Any, *, objects: bool = False) -> ValueSource:
    """Check a schema's form and make it ready; None stands for no schema at all.

    Raises SchemaError for one that is malformed.
    """
    schema = {} if schema is None else schema
    check_form(schema)
    return ValueSource(schema, objects=objects)


class SchemaCache:
    """Schemas made ready, the most recent `size` of them, found again by their content."""

    def __init__(self, size: int = 512) -> None:
        self._size = size
        self._known: OrderedDict[bytes, ValueSource | SchemaError] = OrderedDict()

    def get(self, schema: Any, *, objects: bool = False) -> ValueSource:
        """The source of a schema's values. Raises SchemaError for one that is malformed."""
        key = _digest(schema, objects)
        found = self._known.get(key)
        if found is None:
            try:
                found = compile_schema(schema, objects=objects)
            except SchemaError as error:
                found = error
            self._known[key] = found
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        if isinstance(found, SchemaError):
            raise SchemaError(found.args[0]) from None
        return found


def _digest(schema: Any, objects: bool) -> bytes:
    try:
        data = orjson.dumps(schema)
    except TypeError:
        # Integers beyond 64 bits, or mappings that aren't dicts.
        data = json.dumps(schema, default=_plain).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=16, key=b"o" if objects else b"").digest()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"not JSON: {type(value).__name__}")
