from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.percentile import percentile


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1.0), (50, 2.5), (90, 3.7), (100, 4.0), (33.333333333333336, 2.0)]
)
def test_percentiles_are_interpolated(percent: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == pytest.approx(value)


def test_of_one_value_each_is_that_value() -> None:
    assert [percentile([7.0], percent) for percent in (0, 50, 100)] == [7.0, 7.0, 7.0]


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=20))
def test_they_are_the_standard_library_s(values: list[float]) -> None:
    ordered = sorted(values)
    deciles = statistics.quantiles(ordered, n=10, method="inclusive")
    assert [percentile(ordered, p) for p in range(10, 100, 10)] == pytest.approx(deciles, abs=1e-5)
