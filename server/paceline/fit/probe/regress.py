"""Linear least squares with coefficients that can't be negative, and only those that are there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median

from paceline.fit.linear import solve

_EVIDENCE = 12.0
"""By how much a coefficient must lower chi squared to be believed: some 3.5 standard errors."""
_OUTLIER = 4.0
_MAD_TO_DEVIATION = 1.4826


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: sum of coefficient times `x`, give or take `sigma`, is `y`."""

    x: tuple[float, ...]
    y: float
    sigma: float


@dataclass(frozen=True, slots=True)
class Solution:
    """Coefficients, 0 where nothing speaks for them, and their misfit."""

    values: tuple[float, ...]
    chi2: float
    scale: float
    """What the rows' own scatter multiplies their variances by; at least 1."""


def nonnegative(rows: Sequence[Row], always: int = 1) -> Solution:
    """The best coefficients that are at least 0; the first `always` are there in any case.

    All sets of coefficients are tried: there are at most four. A row that is far off from what
    the others say is left out once.
    """
    solution = _best(rows, always)
    off = [abs(_residual(row, solution.values)) for row in rows]
    furthest = _OUTLIER * max(_MAD_TO_DEVIATION * median(off), 1.0)
    kept = [row for row, far in zip(rows, off, strict=True) if far <= furthest]
    if len(rows) > len(kept) > len(rows) // 2 and len(kept) > len(rows[0].x):
        without = _best(kept, always)
        # What was left out counts as far off as it may be: leaving out must not look like a fit.
        charge = (len(rows) - len(kept)) * furthest**2
        return replace(without, chi2=without.chi2 + charge)
    return solution


def _best(rows: Sequence[Row], always: int) -> Solution:
    count = len(rows[0].x)
    optional = range(always, count)
    candidates: list[tuple[int, float, tuple[float, ...]]] = []
    for size in range(len(optional), -1, -1):
        for chosen in combinations(optional, size):
            values = _fit(rows, (*range(always), *chosen))
            if values is not None:
                chi2 = sum(_residual(row, values) ** 2 for row in rows)
                candidates.append((size, chi2, values))
    if not candidates:
        return Solution((0.0,) * count, math.inf, 1.0)
    least = min(chi2 for _, chi2, _ in candidates)
    scale = max(least / max(len(rows) - count, 1), 1.0)
    _, chi2, values = min(candidates, key=lambda c: c[1] + _EVIDENCE * scale * c[0])
    return Solution(values, chi2, scale)


def _residual(row: Row, values: tuple[float, ...]) -> float:
    """In standard deviations."""
    expected = sum(a * x for a, x in zip(values, row.x, strict=True))
    return (row.y - expected) / row.sigma


def _fit(rows: Sequence[Row], chosen: tuple[int, ...]) -> tuple[float, ...] | None:
    """Ordinary weighted least squares on some coefficients; None if it makes one negative."""
    scales = [max(abs(row.x[i]) for row in rows) or 1.0 for i in chosen]
    matrix = [[0.0] * len(chosen) for _ in chosen]
    right = [0.0] * len(chosen)
    for row in rows:
        x = [row.x[i] / scale / row.sigma for i, scale in zip(chosen, scales, strict=True)]
        for i, a in enumerate(x):
            right[i] += a * row.y / row.sigma
            for j, b in enumerate(x):
                matrix[i][j] += a * b
    try:
        found = solve(matrix, right)
    except ValueError:
        return None
    values = [0.0] * len(rows[0].x)
    for i, scale, value in zip(chosen, scales, found, strict=True):
        if value < 0.0:
            return None
        values[i] = value / scale
    return tuple(values)
