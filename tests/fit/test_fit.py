"""Fits of made-up deployments: what went in comes out, and nothing crashes one."""

from __future__ import annotations

import tomllib

import pytest

from paceline.core.profile import Engine, Overhead, Profile
from paceline.core.profile_document import parse_profile
from paceline.fit.deployment import Errors, fit_points, held_out
from paceline.fit.points import Point
from paceline.fit.predict import predict
from paceline.fit.search import Known
from paceline.fit.surface import sites_of


def measured(profile: Profile, *, users: tuple[int, ...] = (1, 2, 4, 16, 64)) -> list[Point]:
    """What a benchmark of a profile would print."""
    points = []
    for isl in (512, 2048, 8192):
        for osl in (128, 512):
            for count in users:
                ttft_ms, tpot_ms = predict(profile, Point(isl, osl, count, 0, 0))
                points.append(Point(isl, osl, count, ttft_ms, tpot_ms))
    return points


def made(engine: Engine) -> Profile:
    overhead = Overhead(api_ms_p50=80.0, api_ms_p90=80.0)
    return Profile(name="made", title="made", engine=engine, overhead=overhead)


LINEAR = Engine(
    step_ms=12.0,
    step_ms_per_seq=0.3,
    step_ms_per_kv_token=6e-6,
    step_ms_per_prefill_token=0.03,
)
CONCAVE = Engine(
    step_ms=5.0,
    step_ms_per_seq=1.0,
    seq_exponent=0.5,
    step_ms_per_kv_token=3e-6,
    step_ms_per_prefill_token=0.02,
    prefill_step_ms=8.0,
)


@pytest.mark.parametrize("engine", [LINEAR, CONCAVE], ids=["linear", "concave"])
def test_a_simulated_deployment_is_recovered(engine: Engine) -> None:
    fit = fit_points(measured(made(engine)))
    found = fit.profile.engine
    assert found.step_ms == pytest.approx(engine.step_ms, rel=0.02)
    assert found.step_ms_per_seq == pytest.approx(engine.step_ms_per_seq, rel=0.03)
    assert found.seq_exponent == pytest.approx(engine.seq_exponent, abs=0.01)
    assert found.step_ms_per_kv_token == pytest.approx(engine.step_ms_per_kv_token, rel=0.1)
    assert found.step_ms_per_prefill_token == pytest.approx(
        engine.step_ms_per_prefill_token, rel=0.03
    )
    assert found.prefill_step_ms == pytest.approx(engine.prefill_step_ms, abs=1.0)
    assert fit.profile.overhead.api_ms_p50 == pytest.approx(80.0, rel=0.03)
    assert found.kv_cache_tokens == 0
    assert fit.fitted.spare_users == 0


def test_kv_room_is_found_where_requests_waited_for_it() -> None:
    engine = Engine(
        step_ms=12.0,
        step_ms_per_seq=0.3,
        step_ms_per_kv_token=6e-6,
        step_ms_per_prefill_token=0.03,
        kv_cache_tokens=200_000,
    )
    points = measured(made(engine), users=(4, 16, 64))
    assert fit_points(points).profile.engine.kv_cache_tokens == pytest.approx(200_000, rel=0.05)


def test_points_held_out_of_a_simulated_deployment_are_met() -> None:
    errors = held_out(measured(made(LINEAR))).to_json()
    assert errors["tpot_median"] is not None
    assert errors["ttft_median"] is not None
    assert errors["tpot_median"] < 0.02
    assert errors["ttft_median"] < 0.03


def test_what_is_known_is_not_searched_for() -> None:
    known = Known(
        kv_cache_tokens=100_000,
        max_num_seqs=32,
        max_num_batched_tokens=4096,
        context_tokens=65_536,
    )
    fit = fit_points(measured(made(LINEAR), users=(2, 16))[:6], known)
    engine = fit.profile.engine
    assert engine.kv_cache_tokens == 100_000
    assert engine.max_num_seqs == 32
    assert engine.max_num_batched_tokens == 4096
    assert fit.profile.limits.context_tokens == 65_536
    assert "command line" in fit.profile.sources["engine.max_num_seqs"].text


NASTY = {
    "one point": [Point(100, 100, 1, 50.0, 10.0)],
    "no TPOT at all": [Point(1000, 1, n, 50.0 * n, 0.0) for n in (8, 16, 32)],
    "no TTFT at all": [Point(1000, 100, n, 0.0, 5.0 + n) for n in (8, 16, 32)],
    "duplicates that differ": [
        Point(131_072, 128, 2, ttft, 6.0) for ttft in (18_000.0, 1.0, 18_000.0, 36_000.0)
    ],
    "near duplicates": [Point(32, 200, 1000 + n, 3.0 + 90.0 * (n % 2), 0.4) for n in range(6)],
    "absurd": [Point(1024, 1024, 256, 8e7, 8e7), Point(1, 2, 1, 1e-6, 1e-6)],
    "thousands of users": [Point(1024, 64, 3000, 90_000.0, 12.0)],
}


@pytest.mark.parametrize("points", NASTY.values(), ids=NASTY.keys())
def test_whatever_the_points_a_profile_comes_out(points: list[Point]) -> None:
    fit = fit_points(points)
    assert parse_profile(tomllib.loads(fit.document.to_toml())) == fit.profile
    errors = Errors()
    errors.add(fit, points)
    assert len(errors.tpot) == sum(1 for point in points if point.tpot_ms)
    assert len(errors.ttft) == sum(1 for point in points if point.ttft_ms)


def test_a_fit_is_the_same_every_time() -> None:
    points = measured(made(CONCAVE), users=(4, 32))
    assert fit_points(points).document.to_toml() == fit_points(points).document.to_toml()


def test_the_surface_passes_near_its_points_and_merges_equal_ones() -> None:
    points = [Point(1024, 128, 8, 1.0, 1.0)] * 2
    sites = sites_of(points, [0.4, 0.6])
    assert len(sites) == 1
    assert sites[0][3] == pytest.approx(0.5 / 1.025, rel=1e-3)


def test_weights_stay_within_what_a_profile_takes() -> None:
    points = [Point(1024, 128, 1000 + n, 1.0, 1.0) for n in range(8)]
    weights = [site[3] for site in sites_of(points, [4.0 * (-1) ** n for n in range(8)])]
    assert max(map(abs, weights)) < 20.0
