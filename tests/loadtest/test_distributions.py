from __future__ import annotations

import math
import re
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.percentile import percentile
from paceline.core.rng import hash64
from paceline_loadtest.distributions import (
    Choice,
    Distribution,
    Fixed,
    LogNormal,
    Uniform,
    draw_whole,
    parse_distribution,
)


class RefusedError(Exception):
    pass


def refuse(key: str, reason: str) -> RefusedError:
    return RefusedError(f"{key}: {reason}")


def parsed(value: Any, *, low: float = 0, high: float = 1000, whole: bool = False) -> Distribution:
    return parse_distribution(value, "stages.x.n", refuse, low=low, high=high, whole=whole)


def drawn(distribution: Distribution, count: int = 4000) -> list[float]:
    return sorted(distribution.draw(hash64("a test", i)) for i in range(count))


def test_a_number_stands_for_itself() -> None:
    assert parsed(7) == Fixed(7.0)
    assert drawn(parsed(7), 3) == [7.0, 7.0, 7.0]
    assert parsed(0.25).mean == 0.25


def test_whole_uniform_numbers_have_both_ends_as_often_as_the_others() -> None:
    found = drawn(parsed({"low": 2, "high": 4}, whole=True), 6000)
    assert set(found) == {2.0, 3.0, 4.0}
    assert all(abs(found.count(value) / 6000 - 1 / 3) < 0.03 for value in (2.0, 3.0, 4.0))


def test_uniform_numbers_fill_their_range() -> None:
    found = drawn(parsed({"low": 2, "high": 4}))
    assert 2.0 <= found[0] < 2.01
    assert 3.99 < found[-1] <= 4.0
    assert fmean(found) == pytest.approx(3.0, abs=0.03)


def test_a_lognormal_has_the_median_and_the_p90_that_it_is_given() -> None:
    found = drawn(parsed({"median": 100, "p90": 300}, high=1e9), 20_000)
    assert percentile(found, 50) == pytest.approx(100, rel=0.03)
    assert percentile(found, 90) == pytest.approx(300, rel=0.04)


def test_a_lognormal_has_the_mean_of_its_sigma() -> None:
    distribution = parsed({"median": 100, "sigma": 0.5}, high=1e9)
    assert distribution.mean == pytest.approx(100 * math.exp(0.125))
    assert fmean(drawn(distribution, 20_000)) == pytest.approx(distribution.mean, rel=0.02)


def test_p90_at_the_median_leaves_no_spread() -> None:
    assert parsed({"median": 100, "p90": 100}).draw(3) == 100.0


def test_a_lognormal_is_held_within_its_own_ends_and_the_keys() -> None:
    found = drawn(parsed({"median": 100, "sigma": 3, "min": 50, "max": 200}))
    assert (found[0], found[-1]) == (50.0, 200.0)
    assert max(drawn(parsed({"median": 100, "sigma": 3}))) == 1000.0


def test_a_choice_is_made_as_often_as_its_weight_says() -> None:
    distribution = parsed({"choice": [1, 5, 9], "weights": [6, 3, 1]})
    found = drawn(distribution, 10_000)
    assert [found.count(v) / 10_000 for v in (1, 5, 9)] == pytest.approx([0.6, 0.3, 0.1], abs=0.02)
    assert distribution.mean == pytest.approx(3.0)
    assert set(drawn(parsed({"choice": [1, 5], "weights": [0, 1]}))) == {5.0}


def test_a_choice_without_weights_is_even() -> None:
    assert parsed({"choice": [1, 3]}) == Choice((1.0, 3.0), (1.0, 1.0))


DISTRIBUTIONS = st.one_of(
    st.builds(Fixed, st.floats(0, 100)),
    st.builds(lambda a, b: Uniform(min(a, b), max(a, b)), st.floats(0, 9), st.floats(0, 9)),
    st.builds(LogNormal, st.floats(1, 50), st.floats(0, 5), st.just(0.5), st.just(60.0)),
    st.lists(st.tuples(st.floats(0, 9), st.floats(0.1, 9)), min_size=1).map(
        lambda pairs: Choice(tuple(v for v, _ in pairs), tuple(w for _, w in pairs))
    ),
)


@given(DISTRIBUTIONS, st.integers(0, (1 << 64) - 1))
def test_a_draw_lies_within_the_ends_and_is_the_same_for_the_same_key(
    distribution: Distribution, key: int
) -> None:
    low, high = distribution.ends
    value = distribution.draw(key)
    assert low <= value <= high
    assert distribution.draw(key) == value
    assert math.isfinite(distribution.mean)


def test_a_whole_draw_is_rounded() -> None:
    assert draw_whole(Fixed(2.6), 1) == 3
    assert isinstance(draw_whole(LogNormal(10, 1), 1), int)


@pytest.mark.parametrize(
    ("value", "key", "reason"),
    [
        ("7", "", "must be a number"),
        (True, "", "must be a number"),
        (None, "", "must be a number"),
        (math.nan, "", "finite"),
        (math.inf, "", "finite"),
        (-1, "", "from 0 to 1000"),
        (1001, "", "from 0 to 1000"),
        ({}, "", "must be a number"),
        ({"low": 1}, "", "must be a number"),
        ({"low": 1, "high": 2, "median": 1}, "", "must be a number"),
        ({"low": 3, "high": 2}, ".high", "not be below low"),
        ({"low": "3", "high": 4}, ".low", "must be a number"),
        ({"median": 3}, "", "p90 or sigma"),
        ({"median": 3, "p90": 4, "sigma": 1}, "", "p90 or sigma"),
        ({"median": 0, "p90": 4}, ".median", "above 0"),
        ({"median": 5, "p90": 4}, ".p90", "below the median"),
        ({"median": 5, "sigma": -1}, ".sigma", "from 0 to 5"),
        ({"median": 5, "sigma": 6}, ".sigma", "from 0 to 5"),
        ({"median": 5, "sigma": 1, "min": 6}, ".median", "within min and max"),
        ({"median": 5, "sigma": 1, "max": 4}, ".median", "within min and max"),
        ({"median": 5, "sigma": 1, "max": 2000}, ".max", "from 0 to 1000"),
        ({"choice": []}, ".choice", "list of numbers"),
        ({"choice": 3}, ".choice", "list of numbers"),
        ({"choice": [1, "2"]}, ".choice[1]", "must be a number"),
        ({"choice": [1, 2], "weights": [1]}, ".weights", "one number a choice"),
        ({"choice": [1, 2], "weights": [0, 0]}, ".weights", "nor all 0"),
        ({"choice": [1, 2], "weights": [2, -1]}, ".weights", "not be below 0"),
    ],
)
def test_what_is_no_distribution_is_refused_by_its_key(value: Any, key: str, reason: str) -> None:
    with pytest.raises(RefusedError, match=re.escape(reason)) as caught:
        parsed(value)
    assert str(caught.value).startswith(f"stages.x.n{key}: ")


@pytest.mark.parametrize(
    ("value", "key"),
    [(1.5, ""), ({"low": 1.5, "high": 3}, ".low"), ({"choice": [1, 2.5]}, ".choice[1]")],
)
def test_whole_numbers_are_whole(value: Any, key: str) -> None:
    with pytest.raises(RefusedError, match="whole number") as caught:
        parsed(value, whole=True)
    assert str(caught.value).startswith(f"stages.x.n{key}: ")
