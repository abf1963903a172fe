"""Just enough linear algebra: symmetric positive definite systems of a few dozen unknowns."""

from __future__ import annotations

import math


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a symmetric positive definite system by Cholesky's factorization.

    Only the lower triangle of `matrix` is read. Raises ValueError where it isn't definite.
    """
    size = len(right)
    lower: list[list[float]] = []
    for i in range(size):
        row: list[float] = []
        for j in range(i):
            other = lower[j]
            rest = matrix[i][j] - sum(x * y for x, y in zip(row, other, strict=False))
            row.append(rest / other[j])
        pivot = matrix[i][i] - sum(x * x for x in row)
        if not pivot > 0.0:
            raise ValueError("the matrix is not positive definite")
        row.append(math.sqrt(pivot))
        lower.append(row)
    middle: list[float] = []
    for i, row in enumerate(lower):
        done = sum(x * y for x, y in zip(row, middle, strict=False))
        middle.append((right[i] - done) / row[i])
    solution = [0.0] * size
    for i in reversed(range(size)):
        done = sum(lower[k][i] * solution[k] for k in range(i + 1, size))
        solution[i] = (middle[i] - done) / lower[i][i]
    return solution
