"""A fit of one deployment: its coefficients, and two discrete things found by likelihood.

The schedule depends on how long requests spend outside the engine. So at the end the loops are
played with the overhead that each point's own TTFT asks for, and the coefficients fitted again.

KV room. Where a measured TTFT is far above the model's and the wait is a good part of a request's
life, requests may have waited for KV memory. Little's law gives the first guess of the room: of
`users` users who each wait W and run for L, users * L / (L + W) run. A geometric search goes on
from there.

Spare users. Some benchmarks leave one user without a slot, so that TTFT falls as users are added;
nothing of the engine explains that.

Either is believed when it lowers the loss by more than `_PENALTY`, a Bayes factor of e^5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from paceline.fit.estimate import (
    OVERHEAD,
    SIGMA_TPOT,
    SIGMA_TTFT,
    Noise,
    Prior,
    Vector,
    coefficients,
    engine_time,
    minimise,
    residuals,
)
from paceline.fit.load import load_of
from paceline.fit.loop import CHUNK, Bounds, Features, run_loop
from paceline.fit.points import Point

_PENALTY = 5.0
_SETTLED = 0.02
_WORK = 400_000
"""Simulated requests that a search for KV room may cost; then the best found so far counts."""
_FIRST_STRIDE, _LAST_STRIDE = 0.16, 0.015
_SETTLINGS = 2
_EXACT = 0.4
"""Points this much closer to the model than hardware's come from a simulator."""
_WIDER = 5.0
_SMALLEST_NOISE = 0.02


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a deployment beside its points; 0 where nothing is."""

    kv_cache_tokens: int = 0
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    context_tokens: int = 0


_LEAST_FACTOR = 0.3
"""Nobody's overhead is nothing."""
_MOST_FACTOR = math.exp(4.0)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A deployment's parameters, and what was found beside them."""

    x: Vector
    loss: float
    spare_users: int = 0
    kv_tokens: float = math.inf
    gaps_ms: tuple[float, ...] = ()
    """The overhead at each of the points; empty where it isn't known yet."""

    @property
    def overhead_ms(self) -> float:
        """The API layer's overhead far from every measured point (ms)."""
        return math.exp(self.x[OVERHEAD])


def factor_of(rest_ms: float, fitted: Fitted) -> float:
    """ln of the factor that makes a fit's overhead `rest_ms`, within what a surface may hold."""
    factor = rest_ms / fitted.overhead_ms
    return math.log(min(max(factor, _LEAST_FACTOR), _MOST_FACTOR))


class Search:
    """Fits one deployment's points."""

    def __init__(self, points: list[Point], known: Known | None = None) -> None:
        self._points = points
        self._known = known or Known()
        self._prior = Prior.of(points)
        self._noise = Noise()
        self._loads = [load_of(point) for point in points]
        self.work = 0
        """Requests simulated so far."""

    def run(self) -> Fitted:
        """The best fit of the coefficients and of the discrete things."""
        room = float(self._known.kv_cache_tokens or math.inf)
        best = self._fit(Fitted(self._prior.centre, math.inf, 0, room), rounds=3)
        spared = self._fit(replace(best, spare_users=1), rounds=2)
        if spared.loss + _PENALTY < best.loss:
            best = self._fit(spared, rounds=2)
            best = replace(best, loss=best.loss + _PENALTY)
        if not self._known.kv_cache_tokens:
            best = self._search_room(best)
        for _ in range(_SETTLINGS):
            gaps = [best.overhead_ms * math.exp(factor) for factor in self.factors(best)]
            best = self._fit(replace(best, gaps_ms=tuple(gaps)), rounds=2)
        return self._sharpen(best)

    def factors(self, fitted: Fitted) -> list[float]:
        """ln of the factor on the overhead that explains each point's TTFT; 0 where it has none."""
        return [
            factor_of(point.ttft_ms - engine_time(self.features(i, fitted), fitted.x, 1)[0], fitted)
            if point.ttft_ms
            else 0.0
            for i, point in enumerate(self._points)
        ]

    def features(self, index: int, fitted: Fitted) -> Features:
        """Play a training point's loop."""
        point = self._points[index]
        slots = max(point.users - fitted.spare_users, 1)
        slots = min(slots, self._known.max_num_seqs or slots)
        chunk = self._known.max_num_batched_tokens or CHUNK
        self.work += len(self._loads[index].prompts)
        return run_loop(
            self._loads[index],
            coefficients(fitted.x),
            Bounds(slots, fitted.kv_tokens, chunk),
            fitted.gaps_ms[index] if fitted.gaps_ms else fitted.overhead_ms,
        )

    def _fit(self, start: Fitted, rounds: int, unlimited: list[Features] | None = None) -> Fitted:
        """Play the loops and fit the coefficients, by turns, until neither moves the other.

        Of `unlimited`, features without a limit of KV, those that stay below it are taken as they
        are.
        """
        fitted = start
        for _ in range(rounds):
            features = [
                ready[i]
                if (ready := unlimited) and ready[i].peak_kv <= start.kv_tokens
                else self.features(i, fitted)
                for i in range(len(self._points))
            ]
            x, loss = minimise(features, self._points, fitted.x, self._prior, self._noise)
            moved = max(abs(a - b) for a, b in zip(x, fitted.x, strict=True))
            fitted = replace(fitted, x=x, loss=loss)
            if moved < _SETTLED:
                break
        return fitted

    def _search_room(self, best: Fitted) -> Fitted:
        features = [self.features(i, best) for i in range(len(self._points))]
        worst = self._longest_wait(best, features)
        if worst is None:
            return best
        full = worst.users * _mean_length(worst) * (worst.isl + worst.osl / 2)
        least = 1.05 * max(p.isl + p.osl for p in self._points)
        life = _mean_length(worst) * worst.osl * worst.tpot_ms
        tried: dict[float, Fitted] = {}
        end_of_work = self.work + _WORK

        def loss_at(share: float) -> float:
            if share not in tried:
                start = replace(best, kv_tokens=max(share * full, least))
                tried[share] = self._fit(start, rounds=1, unlimited=features)
            return tried[share].loss

        share = life / (life + worst.ttft_ms)
        loss_at(share)
        stride = _FIRST_STRIDE
        while stride > _LAST_STRIDE and self.work < end_of_work:
            nearer = min((share * (1 - stride), share * (1 + stride), share), key=loss_at)
            if nearer == share:
                stride /= 2
            share = nearer
        found = self._fit(tried[share], rounds=2, unlimited=features)
        if found.loss + _PENALTY < best.loss:
            return replace(found, loss=found.loss + _PENALTY)
        return best

    def _longest_wait(self, best: Fitted, features: list[Features]) -> Point | None:
        """The point whose wait is most above the model's, if that may be a wait for memory."""
        found, most = None, 1.5
        for point, f in zip(self._points, features, strict=True):
            if not point.ttft_ms or not point.tpot_ms:
                continue
            expected = engine_time(f, best.x, 1)[0] + best.overhead_ms
            life = _mean_length(point) * point.osl * point.tpot_ms
            ratio = point.ttft_ms / expected
            if ratio > most and point.ttft_ms - expected > 0.05 * life:
                found, most = point, ratio
        return found

    def _sharpen(self, best: Fitted) -> Fitted:
        """Trust points that lie as close to the model as only a simulator's do, over the prior.

        Real deployments are scattered around the model by some percent, so that half a dozen
        of their points say less than what all have in common; a simulator's are not.
        """
        family = self._prior
        for _ in range(4):
            features = [self.features(i, best) for i in range(len(self._points))]
            rows = residuals(features, self._points, best.x, Noise())
            if len(rows) < 3 * len(best.x):
                return best
            size = math.sqrt(sum(r * r for r, _ in rows) / (len(rows) - len(best.x)))
            if size > _EXACT:
                return best
            scale = max(size, _SMALLEST_NOISE)
            self._noise = Noise(SIGMA_TPOT * scale, SIGMA_TTFT * scale)
            self._prior = family.widened(_WIDER)
            best = self._fit(best, rounds=3)
        return best


def _mean_length(point: Point) -> float:
    """The mean of the lengths that a benchmark draws, as a share of the longest."""
    return (1.0 + point.shortest) / 2
