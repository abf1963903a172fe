"""The surface of a fit's overhead, and where it is applied."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import pytest

from paceline.core.deployment import EngineDeployment
from paceline.core.overhead import OverheadSurface, coordinates, kernel
from paceline.core.profile import Engine, Overhead, Profile
from paceline.core.sequence import Sequence
from paceline.core.simulate import run_out

MS = 1_000_000


def test_without_points_nothing_changes() -> None:
    assert OverheadSurface([]).factor(5, 100, 100) == 1.0


def test_at_a_point_its_weight_counts_whole_and_far_away_not_at_all() -> None:
    surface = OverheadSurface([(8, 1024, 128, 0.5)])
    assert surface.factor(8, 1024, 128) == pytest.approx(exp(0.5))
    assert surface.factor(1 << 40, 1024, 128) == pytest.approx(1.0, abs=1e-3)


def test_the_correlation_falls_to_1_over_e_over_the_stated_doublings() -> None:
    here = coordinates(8, 1024, 128)
    assert kernel(here, coordinates(8 * 2**4, 1024, 128)) == pytest.approx(exp(-1))
    assert kernel(here, coordinates(8, 1024 * 2**4, 128)) == pytest.approx(exp(-1))
    assert kernel(here, coordinates(8, 1024, 128 * 2**6)) == pytest.approx(exp(-1))


def test_a_deployment_counts_what_is_in_flight() -> None:
    """Alone the overhead is 100 ms; as the second of two, e times that."""
    overhead = Overhead(api_ms_p50=100.0, api_ms_p90=100.0, sites=((2, 10, 5, 1.0),))
    profile = Profile(name="p", title="p", engine=Engine(step_ms=10.0), overhead=overhead)
    deployment = EngineDeployment(profile)
    first, second = Sequence(10, 5), Sequence(10, 5)
    deployment.submit([first], 0)
    deployment.submit([second], 0)
    list(run_out(deployment))
    assert deployment.in_flight == 0
    surface = OverheadSurface(overhead.sites)
    assert first.engine_ns == pytest.approx(100 * MS * surface.factor(1, 10, 5), abs=1)
    assert second.engine_ns == pytest.approx(100 * MS * exp(1.0), abs=1)
    plain = EngineDeployment(replace(profile, overhead=replace(overhead, sites=())))
    third = Sequence(10, 5)
    plain.submit([third], 0)
    list(run_out(plain))
    assert third.engine_ns == 100 * MS
