"""The optimiser's closed loop against the core's, and the features that it gives."""

from __future__ import annotations

import math
import random

import pytest

from paceline.core.profile import Engine, Overhead, Profile
from paceline.fit.estimate import (
    EXPONENT,
    Noise,
    Prior,
    coefficients,
    engine_time,
    residuals,
)
from paceline.fit.load import Load, load_of
from paceline.fit.loop import CHUNK, Bounds, Features, run_loop
from paceline.fit.points import Point
from paceline.fit.predict import predict

X = [math.log(value) for value in (6.0, 0.8, 5e-6, 0.02, 3.0, 40.0)] + [0.6]
COST = coefficients(X)
OVERHEAD_MS = 40.0


def profile(slots: int = 0, kv_tokens: int = 0, chunk: int = CHUNK) -> Profile:
    engine = Engine(
        step_ms=COST.step,
        step_ms_per_seq=COST.per_seq,
        seq_exponent=COST.exponent,
        step_ms_per_kv_token=COST.per_kv_token,
        step_ms_per_prefill_token=COST.per_prefill_token,
        prefill_step_ms=COST.prefill_step,
        max_num_seqs=slots,
        kv_cache_tokens=kv_tokens,
        max_num_batched_tokens=chunk,
    )
    overhead = Overhead(api_ms_p50=OVERHEAD_MS, api_ms_p90=OVERHEAD_MS)
    return Profile(name="p", title="p", engine=engine, overhead=overhead)


def features(point: Point, bounds: Bounds) -> Features:
    return run_loop(load_of(point), COST, bounds, OVERHEAD_MS)


CASES = [
    (Point(1024, 1024, 1, 0, 0), 0, 0, CHUNK),
    (Point(1024, 1024, 16, 0, 0), 0, 0, CHUNK),
    (Point(4096, 128, 64, 0, 0), 0, 0, CHUNK),
    (Point(30_000, 64, 12, 0, 0), 0, 0, 2048),
    (Point(1024, 512, 8, 0, 0), 7, 0, CHUNK),
    (Point(8192, 1024, 128, 0, 0), 0, 800_000, CHUNK),
    (Point(1024, 4096, 64, 0, 0), 0, 120_000, CHUNK),
    (Point(512, 1, 32, 0, 0), 0, 0, CHUNK),
    (Point(256, 128, 600, 0, 0), 0, 0, CHUNK),
]


@pytest.mark.parametrize(("point", "slots", "kv_tokens", "chunk"), CASES, ids=str)
def test_agrees_with_the_core_within_a_thousandth(
    point: Point, slots: int, kv_tokens: int, chunk: int
) -> None:
    bounds = Bounds(slots or point.users, kv_tokens or math.inf, chunk)
    found = features(point, bounds)
    ttft_ms, tpot_ms = predict(profile(slots, kv_tokens, chunk), point)
    assert engine_time(found, X, 1)[0] + OVERHEAD_MS == pytest.approx(ttft_ms, rel=0.001)
    if point.osl > 1:
        assert engine_time(found, X, 0)[0] == pytest.approx(tpot_ms, rel=0.001)


def test_derivatives_are_those_of_the_model() -> None:
    points = [Point(2048, 256, 16, 300.0, 12.0), Point(512, 64, 4, 80.0, 9.0)]
    found = [features(point, Bounds(point.users)) for point in points]
    rows = residuals(found, points, X, Noise())
    for i in range(len(X)):
        step = 1e-6
        ahead = residuals(found, points, [v + step * (i == k) for k, v in enumerate(X)], Noise())
        for (before, slope), (after, _) in zip(rows, ahead, strict=True):
            assert slope[i] == pytest.approx((after - before) / step, rel=1e-3, abs=1e-5)


def test_a_point_without_a_time_has_no_residual_of_it() -> None:
    points = [Point(512, 64, 4, 80.0, 0.0)]
    found = [features(points[0], Bounds(4))]
    assert len(residuals(found, points, X, Noise())) == 1


def test_the_peak_of_kv_is_what_a_limit_would_touch() -> None:
    point = Point(1024, 512, 16, 0, 0)
    free = features(point, Bounds(16))
    roomy = features(point, Bounds(16, free.peak_kv + 16))
    assert engine_time(roomy, X, 1)[0] == pytest.approx(engine_time(free, X, 1)[0])
    tight = features(point, Bounds(16, free.peak_kv * 0.6))
    assert engine_time(tight, X, 1)[0] > engine_time(free, X, 1)[0]


@pytest.mark.parametrize("users", [1, 64, 256, 400, 3000])
def test_weights_sum_to_one_and_the_first_burst_keeps_its_share(users: int) -> None:
    load = load_of(Point(64, 64, users, 0, 0))
    assert sum(load.weights) == pytest.approx(1.0)
    assert sum(load.weights[:users]) == pytest.approx(0.1)
    assert len(load.prompts) <= max(2560, 4 * users)


def test_fewer_rounds_change_the_means_little() -> None:
    point, bounds = Point(1024, 1024, 512, 0, 0), Bounds(512)
    short, full = features(point, bounds), run_loop(_full_load(point), COST, bounds, OVERHEAD_MS)
    for which, tolerance in ((0, 0.005), (1, 0.03)):
        expected = engine_time(full, X, which)[0]
        assert engine_time(short, X, which)[0] == pytest.approx(expected, rel=tolerance)


def _full_load(point: Point) -> Load:

    drawn = random.Random(7)
    count = 10 * point.users
    prompts = [drawn.randint(int(0.8 * point.isl), point.isl) for _ in range(count)]
    outputs = [drawn.randint(int(0.8 * point.osl), point.osl) for _ in range(count)]
    return Load(point.users, prompts, outputs, [1 / count] * count)


def test_parameters_stay_where_a_profile_can_hold_them() -> None:
    prior = Prior.of([Point(1, 1, 1, 1.0, 1e-6)]).widened(5.0)
    assert prior.clamp([1e9] * 7)[EXPONENT] == 2.0
    assert prior.clamp([-1e9] * 7)[EXPONENT] > 0.0
