"""Percentiles, interpolated linearly between ranks, as NumPy does by default."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The percentile, 0 to 100, of values in ascending order; there must be one."""
    place = (len(ordered) - 1) * percent / 100.0
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
