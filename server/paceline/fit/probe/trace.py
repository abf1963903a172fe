"""Reading an engine's steps off the times at which tokens came in.

A line through the times by token number gives the step far better than any gap: jitter that
moves tokens one by one averages out as n^1.5. A stall moves all tokens after it for good, so it
is taken out as a level of its own. Tokens that only came in late, because the client or the
server was held up, say nothing of the engine and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from paceline.fit.linear import solve

_MOST_STALLS = 3
_CLEAR = 6.0
"""Standard errors by which a shift must stand out."""
_LONG_GAP = 1.4
"""A gap this many times the median one may be a stall."""
_LEAST_STALL = 0.3
"""Of a step."""

_TRIMS = 2
_OUTLIER = 5.0
"""Times the median distance from the line; jitter that is uniform stays within twice."""

_Row = tuple[tuple[float, ...], float]


@dataclass(frozen=True, slots=True)
class Line:
    """A line through token times."""

    step_ms: float
    scatter_ms: float
    """The standard deviation of tokens around it."""
    shifts_ms: tuple[float, ...]
    """What tokens from each of the given places on are late."""
    tokens: int

    @property
    def error_ms(self) -> float:
        """The standard error of `step_ms`."""
        return self.scatter_ms * math.sqrt(12.0 / max(self.tokens, 2) ** 3)


def line_with_stalls(times: Sequence[float], per_event: float = 1.0) -> Line:
    """The line through at least three times (s), with the stalls that stand out as shifts."""
    gaps = [b - a for a, b in pairwise(times)]
    usual = median(gaps)
    longest = sorted(range(len(gaps)), key=lambda i: -gaps[i])[:_MOST_STALLS]
    places = [i + 1 for i in longest if gaps[i] > _LONG_GAP * usual and 2 < i < len(gaps) - 3]
    stalls: list[int] = []
    best = line_with_shifts(times, stalls, per_event)
    for place in places:
        trial = line_with_shifts(times, [*stalls, place], per_event)
        error = trial.scatter_ms * 2.0 / math.sqrt(min(place, len(times) - place))
        shift = trial.shifts_ms[-1]
        if shift > _CLEAR * error and shift > _LEAST_STALL * usual * 1000.0:
            stalls.append(place)
            best = trial
    return best


def line_with_shifts(times: Sequence[float], places: Sequence[int], per_event: float = 1.0) -> Line:
    """The line with a free shift from each of `places` on; by least squares, trimmed twice."""
    count = len(times)
    middle = (count - 1) / 2
    rows: list[_Row] = []
    for j, at in enumerate(times):
        levels = (1.0 if j >= place else 0.0 for place in places)
        rows.append(((1.0, (j - middle) / count, *levels), (at - times[0]) * 1000.0))
    kept = rows
    for _ in range(_TRIMS):
        found = _least_squares(kept)
        off = [abs(_residual(row, found)) for row in rows]
        furthest = _OUTLIER * median(off)
        trimmed = [row for row, far in zip(rows, off, strict=True) if far <= furthest]
        if len(trimmed) < 0.7 * count or _lost_a_level(trimmed, len(places)):
            break
        kept = trimmed
    found = _least_squares(kept)
    squares = sum(_residual(row, found) ** 2 for row in kept)
    scatter = math.sqrt(squares / max(len(kept) - len(found), 1))
    return Line(found[1] / count / per_event, scatter, tuple(found[2:]), count)


def _lost_a_level(rows: Sequence[_Row], levels: int) -> bool:
    """Whether too few rows are left of one of the levels between the shifts."""
    sizes = [0] * (levels + 1)
    for x, _ in rows:
        sizes[int(sum(x[2:]))] += 1
    return min(sizes) < 2


def _least_squares(rows: Sequence[_Row]) -> list[float]:
    size = len(rows[0][0])
    matrix = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    for x, y in rows:
        for a in range(size):
            if x[a]:
                right[a] += x[a] * y
                for b in range(size):
                    matrix[a][b] += x[a] * x[b]
    for a in range(size):
        matrix[a][a] *= 1.0 + 1e-12
    return solve(matrix, right)


def _residual(row: _Row, found: Sequence[float]) -> float:
    return row[1] - sum(a * b for a, b in zip(found, row[0], strict=True))
