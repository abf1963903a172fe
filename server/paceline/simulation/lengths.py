"""How long prompts and answers are: a number, or a distribution that is drawn by key.

Request i has the same length whatever the load, so that two runs differ in their load alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.core.rng import lognormal, unit

_MOST = 100_000_000


class WorkloadError(ValueError):
    """Something about the load that was asked for can't be used."""


@dataclass(frozen=True, slots=True)
class Length:
    """Tokens: `fixed` a, `uniform` from a to b (both too), or `lognormal` with p50 a, p90 b."""

    kind: Literal["fixed", "uniform", "lognormal"]
    a: float
    b: float

    def draw(self, key: int) -> int:
        """The length for a key, at least 1."""
        if self.kind == "fixed":
            return int(self.a)
        if self.kind == "uniform":
            return int(self.a + unit(key) * (self.b - self.a + 1))
        return min(max(round(lognormal(key, self.a, self.b)), 1), _MOST)

    def __str__(self) -> str:
        if self.kind == "fixed":
            return f"{self.a:g}"
        return f"{self.kind}:{self.a:g},{self.b:g}"


def parse_length(text: str, what: str) -> Length:
    """Read `1024`, `uniform:800,1024` or `lognormal:1000,4000` (p50, p90).

    Raises WorkloadError; `what` names the option in it.
    """
    kind, colon, rest = text.strip().rpartition(":")
    parts = rest.split(",")
    try:
        values = [float(part) for part in parts]
    except ValueError:
        values = []
    if not colon and len(values) == 1:
        kind, values = "fixed", values * 2
    if len(values) != 2 or kind not in {"fixed", "uniform", "lognormal"}:
        raise WorkloadError(
            f"{what} must be a number, uniform:LOW,HIGH or lognormal:P50,P90, not {text!r}"
        )
    low, high = values
    if not 1 <= low <= high <= _MOST:
        raise WorkloadError(
            f"{what} must be from 1 to {_MOST:,}, the lower one first, not {text!r}"
        )
    if kind != "lognormal" and not (low.is_integer() and high.is_integer()):
        raise WorkloadError(f"{what} must be whole tokens, not {text!r}")
    if kind == "fixed":
        return Length("fixed", low, high)
    return Length("uniform" if kind == "uniform" else "lognormal", low, high)
