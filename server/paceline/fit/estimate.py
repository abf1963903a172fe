"""The seven coefficients of a profile, as the most likely ones given the points and the family.

Maximum a posteriori: the parameters (logarithms, the exponent excepted) minimise

    sum over residuals of (sqrt(1 + r^2) - 1)  +  1/2 sum over parameters ((x - centre) / spread)^2

with r = ln(model / measured) / sigma. The first sum is the pseudo-Huber loss (Charbonnier et al.
1997): squares for small residuals, so that noise averages out, and straight lines for large ones,
so that one broken point can't bend the rest. The second is a normal prior from measured GPU
deployments; it decides what the points leave open. The minimum is found by Levenberg and
Marquardt's method (Marquardt 1963, "An Algorithm for Least-Squares Estimation of Nonlinear
Parameters") with exact derivatives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from paceline.fit.linear import solve
from paceline.fit.loop import Coefficients, Features
from paceline.fit.points import Point

STEP, PER_SEQ, PER_KV, PER_PREFILL, PREFILL_STEP, OVERHEAD, EXPONENT = range(7)
"""Where each parameter stands in a vector. All but the exponent are natural logarithms of ms."""

_SCALED = (STEP, PER_SEQ, PER_KV, PER_PREFILL, PREFILL_STEP)
CENTRES = (-0.37, -2.7, -14.4, -5.85, 0.0, 3.7, 0.55)
"""Means over 18 measured deployments; those of the engine relative to ln(smallest TPOT)."""
SPREADS = (0.4, 1.4, 1.4, 0.4, 1.5, 0.8, 0.15)

SIGMA_TPOT = 0.03
SIGMA_TTFT = 0.12
"""How far real deployments' points lie from the model (standard deviation of the logarithm)."""

_FURTHEST = 8.0
"""Spreads from its centre that a parameter may go; only meaningless points get there."""

_GUESSED_TPOT_MS = 10.0
_ITERATIONS = 60

Vector = list[float]
Residual = tuple[float, Vector]
"""r, and its derivative by each parameter."""


class Noise(NamedTuple):
    """The standard deviations of the logarithms of TPOT and TTFT around the model."""

    tpot: float = SIGMA_TPOT
    ttft: float = SIGMA_TTFT


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before any point is seen."""

    centre: Vector
    spread: tuple[float, ...] = SPREADS

    @classmethod
    def of(cls, points: list[Point]) -> Prior:
        """The family's, scaled by the smallest measured TPOT."""
        fastest = min((p.tpot_ms for p in points if p.tpot_ms), default=_GUESSED_TPOT_MS)
        scale = math.log(fastest)
        return cls([c + (scale if i in _SCALED else 0.0) for i, c in enumerate(CENTRES)])

    def widened(self, factor: float) -> Prior:
        """The same belief, held less firmly."""
        return Prior(self.centre, tuple(factor * spread for spread in self.spread))

    def clamp(self, x: Vector) -> Vector:
        """`x` with every parameter within reach, and the exponent in the range of a profile."""
        near = [
            min(max(value, centre - _FURTHEST * spread), centre + _FURTHEST * spread)
            for value, centre, spread in zip(x, self.centre, self.spread, strict=True)
        ]
        near[EXPONENT] = min(max(near[EXPONENT], 0.01), 2.0)
        return near


def coefficients(x: Vector) -> Coefficients:
    """The coefficients (ms) of a parameter vector."""
    step, per_seq, per_kv_token, per_prefill_token, prefill_step = (math.exp(x[i]) for i in _SCALED)
    return Coefficients(step, per_seq, per_kv_token, per_prefill_token, prefill_step, x[EXPONENT])


def engine_time(features: Features, x: Vector, which: int) -> tuple[float, Vector]:
    """The engine's part of TPOT (0) or TTFT (1) in ms, and its derivatives by the parameters."""
    cost = coefficients(x)
    steps = batch = by_exponent = 0.0
    for running, weights in features.batch.items():
        weight = weights[which]
        steps += weight
        part = weight * running**cost.exponent
        batch += part
        by_exponent += part * math.log(running)
    parts = [
        cost.step * steps,
        cost.per_seq * batch,
        cost.per_kv_token * features.kv[which],
        cost.per_prefill_token * features.prefill[which],
        cost.prefill_step * features.prefill_steps[which],
    ]
    return sum(parts), [*parts, 0.0, cost.per_seq * by_exponent]


def residuals(
    features: list[Features], points: list[Point], x: Vector, noise: Noise
) -> list[Residual]:
    """Two for every point, one where only one time was measured."""
    found: list[Residual] = []
    overhead = math.exp(x[OVERHEAD])
    for f, point in zip(features, points, strict=True):
        if point.tpot_ms:
            ms, slope = engine_time(f, x, 0)
            found.append(_residual(ms, slope, point.tpot_ms, noise.tpot))
        if point.ttft_ms:
            ms, slope = engine_time(f, x, 1)
            slope[OVERHEAD] = overhead
            found.append(_residual(ms + overhead, slope, point.ttft_ms, noise.ttft))
    return found


def _residual(ms: float, slope: Vector, measured: float, sigma: float) -> Residual:
    return math.log(ms / measured) / sigma, [value / ms / sigma for value in slope]


def loss(found: list[Residual], x: Vector, prior: Prior) -> float:
    """What is minimised."""
    misfit = sum(math.sqrt(1.0 + r * r) - 1.0 for r, _ in found)
    away = zip(x, prior.centre, prior.spread, strict=True)
    return misfit + 0.5 * sum(((value - c) / s) ** 2 for value, c, s in away)


def minimise(
    features: list[Features], points: list[Point], x: Vector, prior: Prior, noise: Noise
) -> tuple[Vector, float]:
    """The parameters of the least loss from `x` on, and that loss."""
    damping = 1e-2
    found = residuals(features, points, x, noise)
    least = loss(found, x, prior)
    for _ in range(_ITERATIONS):
        matrix, right = _normal_equations(found, x, prior)
        while True:
            damped = [row[:] for row in matrix]
            for i, row in enumerate(damped):
                row[i] *= 1.0 + damping
            step = solve(damped, right)
            new = prior.clamp([a + b for a, b in zip(x, step, strict=True)])
            new_found = residuals(features, points, new, noise)
            new_loss = loss(new_found, new, prior)
            if new_loss < least:
                break
            damping *= 4.0
            if damping > 1e8:
                return x, least
        enough = least - new_loss < 1e-5 * (1.0 + least)
        x, found, least, damping = new, new_found, new_loss, max(damping / 5.0, 1e-9)
        if enough:
            break
    return x, least


def _normal_equations(
    found: list[Residual], x: Vector, prior: Prior
) -> tuple[list[Vector], Vector]:
    """The Gauss-Newton matrix (lower triangle) and the direction down, weighted by the loss."""
    size = len(x)
    matrix = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    for r, slope in found:
        weight = 1.0 / math.sqrt(1.0 + r * r)
        for i, by_i in enumerate(slope):
            if not by_i:
                continue
            right[i] -= weight * r * by_i
            row = matrix[i]
            for j in range(i + 1):
                row[j] += weight * by_i * slope[j]
    for i, spread in enumerate(prior.spread):
        matrix[i][i] += 1.0 / spread**2
        right[i] -= (x[i] - prior.centre[i]) / spread**2
    return matrix, right
