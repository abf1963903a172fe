from __future__ import annotations

import json

import pytest

from paceline.race.lane import Lane
from paceline.race.result import place, race_json, ranking, same_text, seconds, standing, verdict
from tests.race.scripted import feed, finished

GPU = finished("gpu-40", ttft=0.4, gap=0.025)  # 2.9 s
WAFER = finished("wafer-750", ttft=0.3, gap=0.002)  # 0.5 s
SPARK = finished("spark-1000", ttft=0.15, gap=0.001)  # 0.25 s


def running(tokens: int) -> Lane:
    lane = Lane("gpu-40", 100)
    feed(lane, ttft=0.4, gap=0.025, tokens=tokens)
    return lane


def failed() -> Lane:
    lane = Lane("nope", 100)
    lane.fail(1.0, "404: no such model")
    return lane


def test_who_won_by_how_much() -> None:
    assert ranking([GPU, WAFER, SPARK]) == [SPARK, WAFER, GPU]
    assert verdict([GPU, WAFER, SPARK]) == (
        "spark-1000 finished in 0.25 s, 2.00x faster than wafer-750 and 11.6x faster than gpu-40."
    )
    assert verdict([SPARK]) == "spark-1000 finished in 0.25 s."


def test_equals_are_called_equal() -> None:
    twin = finished("twin", ttft=0.15, gap=0.001)
    assert verdict([SPARK, twin]) == "spark-1000 finished in 0.25 s, as fast as twin."


def test_who_did_not_finish_is_named() -> None:
    assert verdict([WAFER, failed()]) == "wafer-750 finished in 0.50 s; not finished: nope."
    assert verdict([failed()]) == "No lane finished."


def test_how_it_stands_while_some_still_run() -> None:
    assert standing([running(10)]) == ""
    assert standing([running(36), WAFER, SPARK]) == (
        "spark-1000 finished in 0.25 s, 2.00x faster than wafer-750; gpu-40 is at 36%."
    )
    assert standing([GPU, SPARK]) == verdict([GPU, SPARK])


def test_the_same_text() -> None:
    other = Lane("m", 3)
    feed(other, ttft=0.1, gap=0.1, tokens=3, word=" other")
    assert same_text([GPU, WAFER])
    assert same_text([GPU, other])  # one that has not finished says nothing yet
    other.receive(101.0, [])
    other._finish_reason = "stop"
    other.end(101.0)
    assert not same_text([GPU, other])


def test_as_json() -> None:
    told = race_json([GPU, failed(), SPARK], {"prompt": "x"})
    assert json.loads(json.dumps(told)) == told
    assert told["prompt"] == "x"
    assert told["winner"] == "spark-1000"
    assert [lane["rank"] for lane in told["lanes"]] == [2, None, 1]
    assert told["lanes"][2]["tokens_per_second"] == pytest.approx(1000.0)
    assert told["lanes"][2]["elapsed_s"] == pytest.approx(0.25)
    assert told["lanes"][1]["error"] == "404: no such model"
    assert told["lanes"][1]["ttft_s"] is None


def test_numbers_in_words() -> None:
    assert [seconds(x) for x in (0.2, 9.99, 9.996, 12.34, 1234.5)] == [
        "0.20 s",
        "9.99 s",
        "10.0 s",
        "12.3 s",
        "1,234 s",
    ]
    assert [place(x) for x in (1, 2, 3, 4, 11, 12, 13, 21)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st",
    ]  # fmt: skip
