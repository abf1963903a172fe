"""What is measured of one request, and the distribution of many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum

from paceline.core.percentile import percentile
from paceline_loadtest.model import Call


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
    def of(cls, values: Iterable[float]) -> Quantiles | None:
        """Of values in any order; None where there are none."""
        ordered = sorted(values)
        if not ordered:
            return None
        p50, p90, p99 = (percentile(ordered, p) for p in (50.0, 90.0, 99.0))
        return cls(len(ordered), fsum(ordered) / len(ordered), p50, p90, p99, ordered[-1])


def ttft(call: Call) -> float | None:
    """From when it should have been made to its first content (s)."""
    return None if not call.ok or call.first_at is None else call.first_at - call.scheduled_at


def tpot(call: Call) -> float | None:
    """(last - first) / (n - 1) in seconds; None for one token, or an answer in one piece."""
    if not call.ok or call.first_at is None or call.last_at is None:
        return None
    if call.output_tokens is None or call.output_tokens < 2 or call.last_at <= call.first_at:
        return None
    return (call.last_at - call.first_at) / (call.output_tokens - 1)


def e2e(call: Call) -> float | None:
    """From when it should have been made to its last content (s)."""
    return None if not call.ok or call.last_at is None else call.last_at - call.scheduled_at


def gaps(call: Call) -> Sequence[float]:
    """Between chunks as they were received (s): chunks, which aren't tokens."""
    if not call.ok:
        return ()
    times = call.chunk_at
    return [after - before for before, after in pairwise(times)]


def speed(tpots: Sequence[float]) -> Quantiles | None:
    """Rates, whose p99 is the slow end: what 99 % of the requests reach."""
    ordered = sorted((1.0 / t for t in tpots), reverse=True)
    if not ordered:
        return None
    p50, p90, p99 = (percentile(ordered, p) for p in (50.0, 90.0, 99.0))
    return Quantiles(len(ordered), fsum(ordered) / len(ordered), p50, p90, p99, ordered[0])
