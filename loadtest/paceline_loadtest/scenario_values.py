"""Single values of a scenario's document, each refused by its key where it can't be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from paceline.runtime.toml_files import FileError
from paceline_loadtest.distributions import Distribution, Fixed, parse_distribution

MOST_TOKENS = 10_000_000
MOST_SECONDS = 86_400.0

_T = TypeVar("_T", bound=str)


class ScenarioError(FileError):
    """A scenario that can't be used: which file, which key, and why."""


@dataclass(frozen=True, slots=True)
class Values:
    """Reads values of the document of `path`; all raise ScenarioError."""

    path: Path | None

    def refused(self, key: str, reason: str) -> ScenarioError:
        """The error of a key."""
        return ScenarioError(self.path, key, reason)

    def known(self, data: Mapping[str, Any], keys: frozenset[str], prefix: str) -> None:
        """Refuse keys that nobody knows."""
        for key in data:
            if key not in keys:
                near = get_close_matches(key, keys, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise self.refused(f"{prefix}{key}", f"unknown key{hint}")

    def number(
        self,
        data: Mapping[str, Any],
        key: str,
        prefix: str,
        default: int,
        *,
        low: float = 0,
        high: float = MOST_TOKENS,
    ) -> Distribution:
        """A whole number, or a distribution of such."""
        if key not in data:
            return Fixed(float(default))
        return parse_distribution(
            data[key], f"{prefix}{key}", self.refused, low=low, high=high, whole=True
        )

    def seconds(self, data: Mapping[str, Any], key: str, prefix: str) -> Distribution:
        """Seconds, or a distribution of such; 0 where nothing is said."""
        if key not in data:
            return Fixed(0.0)
        return parse_distribution(
            data[key], f"{prefix}{key}", self.refused, low=0.0, high=MOST_SECONDS
        )

    def whole(self, data: Mapping[str, Any], key: str, prefix: str, high: int) -> int:
        """A whole number from 0 to `high`; 0 where nothing is said."""
        value = data.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refused(f"{prefix}{key}", f"must be a whole number, not {value!r}")
        if not 0 <= value <= high:
            raise self.refused(f"{prefix}{key}", f"must be from 0 to {high:,}")
        return value

    def text(self, value: Any, key: str) -> str:
        """A text that isn't empty."""
        if not isinstance(value, str) or not value.strip():
            raise self.refused(key, "missing" if value is None else "must be a text")
        return value

    def word(self, value: Any, key: str) -> str:
        """A text of letters, digits, _ and -."""
        name = self.text(value, key)
        if not all(c.isalnum() or c in "_-" for c in name):
            raise self.refused(key, f"must be of letters, digits, _ and -, not {name!r}")
        return name

    def flag(self, value: Any, key: str) -> bool:
        """True or false."""
        if not isinstance(value, bool):
            raise self.refused(key, "must be true or false")
        return value

    def one_of(self, value: Any, allowed: tuple[_T, ...], key: str) -> _T:
        """One of some words."""
        if value not in allowed:
            raise self.refused(key, f"must be one of {', '.join(allowed)}, not {value!r}")
        return allowed[allowed.index(value)]

    def table(self, value: Any, key: str) -> Mapping[str, Any]:
        """A table."""
        if not isinstance(value, Mapping):
            raise self.refused(key, "must be a table")
        return value

    def tables(self, data: Mapping[str, Any], key: str, prefix: str) -> list[Mapping[str, Any]]:
        """A list of tables, empty where there is none."""
        value = data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, Mapping) for v in value):
            raise self.refused(f"{prefix}{key}", f"must be tables: [[{prefix}{key}]]")
        return value

    def once(self, names: list[str], key: str) -> None:
        """Refuse a name that comes twice."""
        for name in names:
            if names.count(name) > 1:
                raise self.refused(f"{key}.{name}", "there are two of this name")
