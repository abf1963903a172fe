"""Dataclasses as plain JSON values and back, by their type hints, nothing lost.

What holds its default is left out. A `Loop` stands once in a table, since every target runs the
same ones, and is a number everywhere else. Keys to servers are never written.
"""

from __future__ import annotations

import math
import types
from array import array
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from paceline_loadtest.model import Loop, Target

_PRIVATE = {(Target, "api_key")}


class CodecError(ValueError):
    """A value that doesn't fit; the message opens with where it stands."""


_T = TypeVar("_T")


class _Array(Generic[_T]):
    """Stands for `array.array` in type hints, which can't be read before Python 3.12 with it."""


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, localns={"array": _Array})


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


class Encoder:
    """Values to JSON; `loops` is the table that the numbers of loops point into."""

    def __init__(self) -> None:
        self.loops: list[Any] = []
        self._numbers: dict[Loop, int] = {}
        self._known: dict[int, int] = {}

    def value(self, value: Any) -> Any:
        """The value as what `json` writes."""
        if isinstance(value, Loop):
            return self._loop(value)
        if is_dataclass(value) and not isinstance(value, type):
            return self._object(value)
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        if isinstance(value, array):
            return value.tolist()
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        return value

    def _object(self, value: Any) -> dict[str, Any]:
        kind = type(value)
        found: dict[str, Any] = {}
        for field in fields(kind):
            held = getattr(value, field.name)
            if (kind, field.name) in _PRIVATE or held == _default(field):
                continue
            found[field.name] = self.value(held)
        return found

    def _loop(self, loop: Loop) -> int:
        # By identity first: a loop's hash goes through all of its turns.
        number = self._known.get(id(loop))
        if number is None:
            number = self._numbers.get(loop)
            if number is None:
                written = self._object(loop)
                number = self._numbers[loop] = len(self.loops)
                self.loops.append(written)
            self._known[id(loop)] = number
        return number


class Decoder:
    """JSON to values. Raises CodecError, naming the place, for what doesn't fit."""

    def __init__(self, loops: list[Any]) -> None:
        self.loops: list[Loop] = []
        # A loop's sub-agents were written before it.
        for i, written in enumerate(loops):
            self.loops.append(self._object(Loop, written, f"loops[{i}]"))

    def value(self, kind: Any, value: Any, where: str) -> Any:
        """The value as one of that type."""
        if kind is Loop:
            return self._loop(value, where)
        origin = get_origin(kind)
        if origin in {Union, types.UnionType}:
            if value is None and type(None) in get_args(kind):
                return None
            return self.value(next(k for k in get_args(kind) if k is not type(None)), value, where)
        if origin is Literal:
            if value not in get_args(kind):
                raise CodecError(f"{where}: {value!r} is none of {', '.join(get_args(kind))}")
            return value
        if isinstance(kind, type) and is_dataclass(kind):
            return self._object(kind, value, where)
        if origin in {list, tuple}:
            item = get_args(kind)[0]
            items = self._checked(list, value, where)
            found = (self.value(item, held, f"{where}[{i}]") for i, held in enumerate(items))
            return origin(found)
        if origin is _Array:
            times = self._checked(list, value, where)
            return array("d", (self._number(t, f"{where}[{i}]") for i, t in enumerate(times)))
        if origin is dict:
            item = get_args(kind)[1]
            held = self._checked(dict, value, where)
            return {key: self.value(item, held[key], f"{where}.{key}") for key in held}
        if kind is float:
            return self._number(value, where)
        return self._checked(kind, value, where)

    def _object(self, kind: Any, value: Any, where: str) -> Any:
        held = self._checked(dict, value, where)
        hints, known = _hints(kind), {field.name: field for field in fields(kind)}
        for name in held:
            if name not in known or (kind, name) in _PRIVATE:
                raise CodecError(f"{where}.{name}: no such field")
        for name, field in known.items():
            if name not in held and _default(field) is MISSING:
                raise CodecError(f"{where}.{name}: missing")
        found = {n: self.value(hints[n], v, f"{where}.{n}") for n, v in held.items()}
        if kind is Target:
            found["api_key"] = ""
        return kind(**found)

    def _loop(self, number: Any, where: str) -> Loop:
        place: int = self._checked(int, number, where)
        if not 0 <= place < len(self.loops):
            raise CodecError(f"{where}: there is no loop {place}")
        return self.loops[place]

    @staticmethod
    def _checked(kind: type, value: Any, where: str) -> Any:
        # In Python, True is a number.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise CodecError(f"{where}: {value!r} is not of type {kind.__name__}")
        return value

    @staticmethod
    def _number(value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CodecError(f"{where}: {value!r} is not a number")
        if not math.isfinite(value):
            raise CodecError(f"{where}: {value!r} is not a finite number")
        return float(value)
