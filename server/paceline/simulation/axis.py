"""Axes of a picture: round numbers on them, and from values to pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

LETTER = 6.6
"""Width of a letter of the pictures' text of 12 pixels, as far as that can be known."""


@dataclass(slots=True)
class Axis:
    """From values to pixels."""

    low: float
    high: float
    log: bool
    start: float
    end: float
    ticks: list[float] = field(default_factory=list)

    def at(self, value: float) -> float:
        """The pixel of a value; on a logarithmic axis nothing lies below its lowest."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            value = math.log(max(value, self.low))
        else:
            low, high = self.low, self.high
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def axis_of(values: Sequence[float], log: bool, start: float, end: float) -> Axis:
    """An axis from pixel `start` to `end` that holds the values; from 0 unless logarithmic."""
    shown = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
    low, high = min(shown), max(shown)
    if log:
        ticks = _log_ticks(low, high)
        return Axis(min(low, ticks[0]), max(high, ticks[-1]), True, start, end, ticks)
    ticks = ticks_to(high)
    return Axis(0.0, max(ticks[-1], high), False, start, end, ticks)


def ticks_to(high: float) -> list[float]:
    """Some five round numbers from 0 to at least `high`."""
    high = high if high > 0 else 1.0
    raw = high / 5
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= raw * (1 - 1e-9))
    return [step * i for i in range(math.ceil(high / step - 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten that enclose the values, with 2s and 5s where they are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    if last - first > 3:
        return [10.0**e for e in range(first, last + 1)]
    fine = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
    begin = max((t for t in fine if t <= low * (1 + 1e-9)), default=fine[0])
    end = min((t for t in fine if t >= high * (1 - 1e-9)), default=fine[-1])
    found = [t for t in fine if begin <= t <= end]
    return found if len(found) > 1 else [begin, begin * 10]


def number(value: float) -> str:
    """A tick's number, as short as it can be."""
    if value and abs(value) < 0.01:
        return f"{value:.1g}"
    text = f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"
    return text.rstrip("0").rstrip(".")


def labelled(axis: Axis, room: float) -> list[float]:
    """The ticks whose numbers have room beside each other: `room` pixels between two of them."""
    kept: list[float] = []
    end = 0.0
    for tick in axis.ticks:
        half = len(number(tick)) * LETTER / 2
        if not kept or axis.at(tick) - half >= end + room:
            kept.append(tick)
            end = axis.at(tick) + half
    return kept
