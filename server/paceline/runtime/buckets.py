"""Histogram bounds and the cheapest histogram there is; only numbers live here.

The bounds of vLLM's metrics are those of `vllm/v1/metrics/loggers.py`, so that a dashboard or an
alert made for vLLM reads ours unchanged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

TTFT_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
"""vLLM's bounds for the time to first token."""

TOKEN_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
"""vLLM's bounds for the time of a token: inter-token latency and TPOT."""

REQUEST_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0,
    30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
"""vLLM's bounds for the parts of a request's time."""

FINE_TOKEN_S = (
    0.0001, 0.00025, 0.0005, 0.00075, 0.001, 0.00125, 0.0015, 0.002, 0.0025, 0.003, 0.004,
    0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.1, 0.25, 1.0,
)  # fmt: skip
"""Bounds for token gaps of fast hardware: 1000 tokens a second is 1 ms, 750 is 1.333 ms."""

LAG_S = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003,
    0.005, 0.0075, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
)  # fmt: skip
"""Bounds for how late a write left."""

LEDGER_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Bounds for the wait for a ledger's commit."""

GAP_S = tuple(sorted({*TOKEN_S, *FINE_TOKEN_S}))
"""What gaps are counted in: both token histograms can be read off it exactly."""


def one_two_five(largest: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, ... up to `largest`: vLLM's bounds for token counts of a request."""
    bounds: list[int] = []
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power > largest:
                return tuple(bounds)
            bounds.append(digit * power)
        power *= 10


class Histogram:
    """Counts of values by upper bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value; a bound belongs to the bucket below it, as Prometheus has it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add(self, other: Histogram) -> None:
        """Add another histogram of the same bounds."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    def coarser(self, bounds: Sequence[float]) -> Histogram:
        """The same values in fewer buckets; every bound must be one of ours."""
        known = list(self.bounds)
        result = Histogram(bounds)
        below = 0
        running = list(accumulate(self.counts))
        for i, bound in enumerate(bounds):
            upto = running[known.index(bound)]
            result.counts[i] = upto - below
            below = upto
        result.counts[-1] = running[-1] - below
        result.sum = self.sum
        return result

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self.counts)
