"""Percentiles as a report shows them: p50, p90 and p99, of times and of rates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from paceline.core.percentile import percentile
from paceline_loadtest.statistics import Spread


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Some values of one kind, in their own unit."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def of_spread(cls, spread: Spread | None) -> Quantiles | None:
        """Of what was measured; None where nothing was."""
        return None if spread is None else cls.of(spread.ordered)

    @classmethod
    def of(cls, values: Iterable[float]) -> Quantiles | None:
        """Of values in any order; None where there are none."""
        ordered = sorted(values)
        if not ordered:
            return None
        p50, p90, p99 = (percentile(ordered, p) for p in (50.0, 90.0, 99.0))
        return cls(len(ordered), fsum(ordered) / len(ordered), p50, p90, p99, ordered[-1])


def speed(tpots: Sequence[float]) -> Quantiles | None:
    """Rates, whose p99 is the slow end: what 99 % of the requests reach."""
    ordered = sorted((1.0 / t for t in tpots), reverse=True)
    if not ordered:
        return None
    p50, p90, p99 = (percentile(ordered, p) for p in (50.0, 90.0, 99.0))
    return Quantiles(len(ordered), fsum(ordered) / len(ordered), p50, p90, p99, ordered[0])
