"""Lengths: what can be asked for, and that what is drawn is what was asked for."""

from __future__ import annotations

from statistics import mean, median, quantiles

import pytest

from paceline.simulation.lengths import Length, WorkloadError, parse_length


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("1024", Length("fixed", 1024, 1024)),
        (" 7 ", Length("fixed", 7, 7)),
        ("uniform:800,1024", Length("uniform", 800, 1024)),
        ("lognormal:1000,4000.5", Length("lognormal", 1000, 4000.5)),
    ],
)
def test_what_can_be_asked_for(text: str, length: Length) -> None:
    assert parse_length(text, "--input") == length
    assert parse_length(str(length), "--input") == length


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "0", "-3", "1.5", "nan", "inf", "1e9", "1,2", ":5", "5:", "normal:1,2"),
        *("uniform:5", "uniform:9,5", "uniform:1.5,9", "uniform:1,2,3"),
        *("lognormal:4000,1000", "lognormal:nan,1"),
    ],
)
def test_what_can_not(text: str) -> None:
    with pytest.raises(WorkloadError, match="--input must be"):
        parse_length(text, "--input")


def test_uniform_takes_in_both_ends_evenly() -> None:
    length = parse_length("uniform:3,6", "x")
    drawn = [length.draw(key) for key in range(4000)]
    assert set(drawn) == {3, 4, 5, 6}
    assert all(900 < drawn.count(value) < 1100 for value in (3, 4, 5, 6))


def test_lognormal_has_its_percentiles() -> None:
    length = parse_length("lognormal:1000,4000", "x")
    drawn = [length.draw(key) for key in range(20_000)]
    assert median(drawn) == pytest.approx(1000, rel=0.03)
    assert quantiles(drawn, n=10)[-1] == pytest.approx(4000, rel=0.03)
    assert min(drawn) >= 1
    assert mean(drawn) > 1500  # long answers are few and weigh much


def test_a_key_gives_one_length() -> None:
    length = parse_length("lognormal:1000,4000", "x")
    assert [length.draw(k) for k in range(9)] == [length.draw(k) for k in range(9)]
