"""A URL's parameters, strictly: what isn't known, isn't of its kind or comes twice is refused.

A list may be given as OpenAI's clients do (`models[]=a&models[]=b`), or as `models=a&models=b`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from starlette.requests import Request

from paceline.wire.errors import ApiError, invalid, quoted

_MOST_VALUES = 500
_MOST_LENGTH = 512

T = TypeVar("T", bound=str)


class QueryParams:
    """The parameters of one request. Every method raises ApiError with the parameter's name."""

    def __init__(self, request: Request, *, single: Sequence[str], lists: Sequence[str]) -> None:
        """Refuses parameters that are in neither."""
        self._given: dict[str, list[str]] = {}
        for key, value in request.query_params.multi_items():
            name = key[:-2] if key.endswith("[]") and key[:-2] in lists else key
            if name not in single and name not in lists:
                known = ", ".join(sorted([*single, *lists]))
                raise ApiError(
                    400,
                    f"Unknown parameter {quoted(key)}; there are {known}.",
                    param=key[:_MOST_LENGTH],
                    code="unknown_parameter",
                )
            if len(value) > _MOST_LENGTH:
                raise invalid(name, f"{name} must be at most {_MOST_LENGTH} characters long.")
            values = self._given.setdefault(name, [])
            values.append(value)
            if name in single and len(values) > 1:
                raise invalid(name, f"{name} must be given only once.")
            if len(values) > _MOST_VALUES:
                raise invalid(name, f"{name} must have at most {_MOST_VALUES} values.")

    def text(self, name: str) -> str | None:
        """A parameter as it is; None where it isn't given."""
        values = self._given.get(name)
        return values[0] if values else None

    def integer(self, name: str, low: int, high: int) -> int | None:
        """A whole number from `low` to `high`."""
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", value) or not low <= int(value) <= high:
            raise invalid(
                name, f"{name} must be a whole number from {low} to {high}, not {quoted(value)}."
            )
        return int(value)

    def moment_us(self, name: str) -> int | None:
        """A moment in Unix seconds, with up to six digits behind the point, as microseconds."""
        value = self.text(name)
        if value is None:
            return None
        found = re.fullmatch(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?", value)
        if found is None:
            raise invalid(
                name,
                f"{name} must be in Unix seconds, such as 1790000000.5, not {quoted(value)}.",
            )
        return int(found[1]) * 1_000_000 + int((found[2] or "").ljust(6, "0"))

    def boolean(self, name: str) -> bool | None:
        """`true` or `false`."""
        value = self.text(name)
        if value not in (None, "true", "false"):
            raise invalid(name, f"{name} must be true or false, not {quoted(value)}.")
        return None if value is None else value == "true"

    def choice(self, name: str, among: Sequence[T]) -> T | None:
        """One of a few words."""
        value = self.text(name)
        return None if value is None else _one_of(name, value, among)

    def words(self, name: str) -> tuple[str, ...] | None:
        """A list of anything."""
        values = self._given.get(name)
        return None if values is None else tuple(values)

    def choices(self, name: str, among: Sequence[T]) -> tuple[T, ...] | None:
        """A list of a few words, each once; commas part them too."""
        values = self._given.get(name)
        if values is None:
            return None
        words = [word for value in values for word in value.split(",")]
        return tuple(dict.fromkeys(_one_of(name, word, among) for word in words))


def _one_of(name: str, value: str, among: Sequence[T]) -> T:
    for each in among:
        if each == value:
            return each
    raise invalid(name, f"{name} must be one of {', '.join(among)}, not {quoted(value)}.")
