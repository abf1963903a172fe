"""The overhead by load and length that the points show beyond the engine: simple kriging.

At each point the overhead that explains its TTFT is the measured TTFT less the engine's part. The
logarithm of its ratio to the profile's overhead is interpolated as a Gaussian process of mean 0
(simple kriging): with K the kernel of `paceline.core.overhead` between the points, and a nugget
for what is noise, the weights solve (K + nugget I) w = y.
"""

from __future__ import annotations

from paceline.core.overhead import Site, coordinates, kernel
from paceline.fit.linear import solve
from paceline.fit.points import Point

_NUGGET = 0.05
_STRONGEST = 19.0
"""A profile refuses weights of 20 and more."""


def sites_of(points: list[Point], factors: list[float]) -> tuple[Site, ...]:
    """The surface through the points' factors (logarithms); points measured twice are one."""
    grouped: dict[tuple[int, int, int], list[float]] = {}
    for point, factor in zip(points, factors, strict=True):
        grouped.setdefault((point.users, point.isl, point.osl), []).append(factor)
    keys = list(grouped)
    values = [sum(group) / len(group) for group in grouped.values()]
    at = [coordinates(*key) for key in keys]
    nugget = _NUGGET
    while True:
        matrix = [[kernel(a, b) for b in at] for a in at]
        for i, key in enumerate(keys):
            matrix[i][i] += nugget / len(grouped[key])
        weights = solve(matrix, values)
        if all(abs(weight) <= _STRONGEST for weight in weights):
            break
        nugget *= 2.0
    return tuple(
        (float(key[0]), float(key[1]), float(key[2]), float(f"{weight:.5g}"))
        for key, weight in zip(keys, weights, strict=True)
    )
