"""A number of a scenario: fixed, or a distribution that is drawn by key.

The same key gives the same number, whatever else is drawn and in whatever order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

from paceline.core.rng import normal, unit

_Z90 = NormalDist().inv_cdf(0.9)
_FORMS = (
    "a number, { low = , high = }, { median = , p90 = }, { median = , sigma = } or "
    "{ choice = [ ], weights = [ ] }"
)

Refuse = Callable[[str, str], Exception]
"""Makes the error of a key and what is wrong there."""


class Distribution(Protocol):
    """Something that numbers are drawn from."""

    def draw(self, key: int) -> float:
        """The number for a 64-bit key."""
        ...

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number that can be drawn."""
        ...

    @property
    def mean(self) -> float:
        """The mean, before the ends of a log-normal cut it."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same number."""

    value: float

    def draw(self, key: int) -> float:
        """The number."""
        del key
        return self.value

    @property
    def ends(self) -> tuple[float, float]:
        """Itself."""
        return self.value, self.value

    @property
    def mean(self) -> float:
        """Itself."""
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """From `low` to `high`; of whole numbers both ends are as likely as the others."""

    low: float
    high: float
    whole: bool = False

    def draw(self, key: int) -> float:
        """The number for a key."""
        if self.whole:
            return self.low + math.floor(unit(key) * (self.high - self.low + 1))
        return self.low + unit(key) * (self.high - self.low)

    @property
    def ends(self) -> tuple[float, float]:
        """Both."""
        return self.low, self.high

    @property
    def mean(self) -> float:
        """The middle."""
        return (self.low + self.high) / 2


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A log-normal by its median and the standard deviation of its logarithm, held in its ends."""

    median: float
    sigma: float
    least: float = 0.0
    most: float = math.inf

    def draw(self, key: int) -> float:
        """The number for a key."""
        drawn = self.median * math.exp(self.sigma * normal(key))
        return min(max(drawn, self.least), self.most)

    @property
    def ends(self) -> tuple[float, float]:
        """Where it is held."""
        return self.least, self.most

    @property
    def mean(self) -> float:
        """exp(sigma² / 2) times the median."""
        return self.median * math.exp(self.sigma**2 / 2)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some numbers, each as often as its weight says."""

    values: tuple[float, ...]
    weights: tuple[float, ...]

    def draw(self, key: int) -> float:
        """The number for a key."""
        place = unit(key) * math.fsum(self.weights)
        for value, weight in zip(self.values, self.weights, strict=True):
            place -= weight
            if place < 0:
                return value
        # Rounding may leave a last bit of the whole.
        return next(v for v, w in zip(self.values[::-1], self.weights[::-1], strict=True) if w)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest of them."""
        return min(self.values), max(self.values)

    @property
    def mean(self) -> float:
        """Their weighted mean."""
        products = (v * w for v, w in zip(self.values, self.weights, strict=True))
        return math.fsum(products) / math.fsum(self.weights)


def draw_whole(distribution: Distribution, key: int) -> int:
    """A draw as a whole number."""
    return round(distribution.draw(key))


def parse_distribution(
    value: Any, key: str, refuse: Refuse, *, low: float, high: float, whole: bool = False
) -> Distribution:
    """A number or a table of a distribution; every draw is from `low` to `high`.

    A log-normal may have a `max` (and a `min`) of its own within them. Raises what `refuse` makes
    of a key and a reason.
    """
    numbers = _Numbers(key, refuse, low, high, whole)
    if not isinstance(value, Mapping):
        return Fixed(numbers.number(value, ""))
    keys = set(value)
    if keys == {"low", "high"}:
        a, b = numbers.number(value["low"], ".low"), numbers.number(value["high"], ".high")
        if a > b:
            raise refuse(f"{key}.high", f"must not be below low, {a:g}")
        return Uniform(a, b, whole)
    if "choice" in keys and keys <= {"choice", "weights"}:
        return _choice(value, numbers)
    if "median" in keys and keys <= {"median", "p90", "sigma", "min", "max"}:
        return _lognormal(value, numbers)
    raise refuse(key, f"must be {_FORMS}")


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Checks the numbers of one distribution."""

    key: str
    refuse: Refuse
    low: float
    high: float
    whole: bool

    def number(self, value: Any, of: str) -> float:
        number = self.real(value, of, _FORMS if not of else "a number")
        if self.whole and not number.is_integer():
            raise self.refuse(self.key + of, f"must be a whole number, not {value!r}")
        return self.within(number, of)

    def within(self, number: float, of: str) -> float:
        if not self.low <= number <= self.high:
            raise self.refuse(self.key + of, f"must be from {self.low:g} to {self.high:g}")
        return number

    def real(self, value: Any, of: str, wanted: str = "a number") -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(self.key + of, f"must be {wanted}, not {value!r}")
        if not math.isfinite(value):
            raise self.refuse(self.key + of, "must be finite")
        return float(value)


def _choice(value: Mapping[str, Any], numbers: _Numbers) -> Choice:
    given = value["choice"]
    if not isinstance(given, list) or not given:
        raise numbers.refuse(f"{numbers.key}.choice", "must be a list of numbers")
    values = tuple(numbers.number(v, f".choice[{i}]") for i, v in enumerate(given))
    weights = value.get("weights", [1] * len(values))
    if not isinstance(weights, list) or len(weights) != len(values):
        raise numbers.refuse(f"{numbers.key}.weights", "must be a list of one number a choice")
    found = tuple(numbers.real(w, f".weights[{i}]") for i, w in enumerate(weights))
    if min(found) < 0 or not math.fsum(found) > 0:
        raise numbers.refuse(f"{numbers.key}.weights", "must not be below 0, nor all 0")
    return Choice(values, found)


def _lognormal(value: Mapping[str, Any], numbers: _Numbers) -> LogNormal:
    key, refuse = numbers.key, numbers.refuse
    if ("p90" in value) == ("sigma" in value):
        raise refuse(key, "a median needs either p90 or sigma beside it")
    median = numbers.within(numbers.real(value["median"], ".median"), ".median")
    if median <= 0:
        raise refuse(f"{key}.median", "must be above 0")
    if "sigma" in value:
        sigma = numbers.real(value["sigma"], ".sigma")
        if not 0 <= sigma <= 5:
            raise refuse(f"{key}.sigma", "must be from 0 to 5")
    else:
        p90 = numbers.within(numbers.real(value["p90"], ".p90"), ".p90")
        if p90 < median:
            raise refuse(f"{key}.p90", f"must not be below the median, {median:g}")
        sigma = math.log(p90 / median) / _Z90
    least, most = numbers.low, numbers.high
    if "min" in value:
        least = numbers.number(value["min"], ".min")
    if "max" in value:
        most = numbers.number(value["max"], ".max")
    if not least <= median <= most:
        raise refuse(f"{key}.median", f"must lie within min and max, {least:g} to {most:g}")
    return LogNormal(median, sigma, least, most)
