"""When loops begin: as often as the rate says, the same for a seed, and as a trace has it."""

from __future__ import annotations

import json
from bisect import bisect_left
from itertools import islice, pairwise, takewhile
from pathlib import Path
from statistics import mean, stdev

import pytest

from paceline_loadtest.arrivals import Arrivals, parse_arrivals
from paceline_loadtest.errors import LoadTestError


def times(
    text: str, rate: float | None = 50.0, *, until: float = 100.0, seed: int = 3
) -> list[float]:
    offsets = parse_arrivals(text, rate).offsets(seed)
    return list(takewhile(lambda at: at < until, offsets))


def within(found: list[float], start: float, end: float) -> int:
    return bisect_left(found, end) - bisect_left(found, start)


@pytest.mark.parametrize(
    "text", ["poisson", "constant", "gamma:0.25", "gamma:4", "ramp:60,10", "spike:200,5,5"]
)
def test_in_order_and_the_same_for_a_seed(text: str) -> None:
    found = times(text, until=20.0)
    assert found == sorted(found)
    assert found[0] >= 0.0
    assert found == times(text, until=20.0)
    if text != "constant":
        assert found != times(text, until=20.0, seed=4)


def test_constant_ones_are_evenly_spaced() -> None:
    found = islice(parse_arrivals("constant", 4.0).offsets(0), 5)
    assert list(found) == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("text", "variation"), [("poisson", 1.0), ("gamma:0.25", 2.0), ("gamma:4", 0.5)]
)
def test_gaps_have_the_mean_and_the_burstiness_asked_for(text: str, variation: float) -> None:
    found = times(text, until=400.0)
    gaps = [b - a for a, b in pairwise(found)]
    assert mean(gaps) == pytest.approx(1 / 50, rel=0.06)
    # Of a gamma distribution the standard deviation over the mean is 1 / sqrt(shape).
    assert stdev(gaps) / mean(gaps) == pytest.approx(variation, rel=0.06)


def test_a_ramp_goes_evenly_and_stays() -> None:
    found = times("ramp:200,100", 20.0, until=300.0)
    # Between two times the arrivals are the area under the rate: here (20 + 65) / 2 x 25.
    assert within(found, 0, 25) == pytest.approx((20 + 65) / 2 * 25, rel=0.1)
    assert within(found, 75, 100) == pytest.approx((155 + 200) / 2 * 25, rel=0.06)
    assert within(found, 100, 300) == pytest.approx(200 * 200, rel=0.03)


def test_a_ramp_downwards_and_one_that_is_flat() -> None:
    down = times("ramp:5,100", 100.0, until=200.0)
    assert within(down, 0, 100) == pytest.approx(52.5 * 100, rel=0.05)
    assert within(down, 100, 200) == pytest.approx(500, rel=0.15)
    assert times("ramp:50,10") == pytest.approx(times("poisson"))


def test_a_spike_stands_out_and_ends() -> None:
    found = times("spike:400,20,10", 20.0, until=60.0)
    assert within(found, 0, 20) == pytest.approx(400, rel=0.15)
    assert within(found, 20, 30) == pytest.approx(4000, rel=0.06)
    assert within(found, 30, 60) == pytest.approx(600, rel=0.15)


class TestTraces:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        lines = [
            {"at_s": at, "prompt_tokens": 10, "output_tokens": 3} for at in (100.0, 100.5, 103.0)
        ]
        path = tmp_path / "trace.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path

    def test_one_begins_at_zero_and_ends(self, path: Path) -> None:
        assert times(f"trace:{path}", None) == [0.0, 0.5, 3.0]

    def test_one_at_another_speed(self, path: Path) -> None:
        assert times(f"trace:{path},2", None) == [0.0, 0.25, 1.5]

    @pytest.mark.parametrize("speedup", ["0", "-1", "fast", "nan", ""])
    def test_a_speed_that_can_t_be(self, path: Path, speedup: str) -> None:
        with pytest.raises(LoadTestError, match="--arrivals"):
            parse_arrivals(f"trace:{path},{speedup}", None)

    def test_a_file_that_isn_t_there(self) -> None:
        with pytest.raises(LoadTestError, match="nowhere"):
            parse_arrivals("trace:nowhere.jsonl", None)

    def test_a_rate_beside_it(self, path: Path) -> None:
        with pytest.raises(LoadTestError, match="--rate"):
            parse_arrivals(f"trace:{path}", 5.0)


@pytest.mark.parametrize(
    "text",
    [
        *("", "uniform", "poisson:2", "gamma", "gamma:0", "gamma:x", "gamma:1,2", "ramp:5"),
        *("ramp:5,0", "ramp:0,5", "ramp:inf,5", "spike:5,1", "spike:5,-1,2", "spike:5,1,0"),
    ],
)
def test_what_can_t_be_read(text: str) -> None:
    with pytest.raises(LoadTestError, match="--arrivals"):
        parse_arrivals(text, 5.0)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), 1e7])
def test_a_rate_that_can_t_be(rate: float) -> None:
    with pytest.raises(LoadTestError, match="--rate"):
        parse_arrivals("poisson", rate)


def test_a_rate_that_is_missing() -> None:
    with pytest.raises(LoadTestError, match="needs --rate"):
        parse_arrivals("poisson", None)


def test_how_they_are_shown() -> None:
    assert str(parse_arrivals("gamma:0.5", 2.0)) == "gamma:0.5"
    assert str(parse_arrivals("spike:9,1,2", 2.0)) == "spike:9,1,2"
    assert str(Arrivals("trace", times=(0.0, 1.0))) == "trace of 2 arrivals"
