from __future__ import annotations

import pytest

from paceline.client.sse import DONE, Event
from paceline.race.lane import Lane
from tests.race.scripted import chunk, feed, finished, usage_event


def test_a_finished_lane() -> None:
    lane = finished("gpu-40", ttft=0.5, gap=0.025, tokens=101)
    assert lane.state == "finished"
    assert lane.over
    assert lane.text == " word" * 101
    assert lane.tokens == 101
    assert lane.progress == 1.0
    assert lane.ttft_s == pytest.approx(0.5)
    assert lane.elapsed_s(now=999.0) == pytest.approx(3.0)
    assert lane.rate() == pytest.approx(40.0)
    assert lane.live_rate(now=999.0) == pytest.approx(40.0)


def test_the_role_is_no_token() -> None:
    lane = Lane("m", 4)
    lane.begin(1.0)
    lane.receive(1.1, [Event('{"choices":[{"delta":{"role":"assistant","content":""}}]}')])
    assert (lane.state, lane.tokens, lane.first) == ("waiting", 0, None)


def test_the_servers_count_beats_that_of_chunks() -> None:
    lane = Lane("m", 100)
    lane.begin(0.0)
    lane.receive(1.0, [chunk("four tokens in one", usage=4)])
    lane.receive(2.0, [chunk("four more of them", usage=8)])
    assert lane.tokens == 8
    assert lane.progress == pytest.approx(0.08)
    assert lane.live_rate(now=2.0) == pytest.approx(4.0)
    lane.receive(3.0, [chunk(finish="stop"), usage_event(9), Event(DONE)])
    assert lane.tokens == 9


def test_hidden_tokens_are_not_counted_as_streamed() -> None:
    lane = Lane("m", 100)
    lane.begin(0.0)
    lane.receive(1.0, [chunk("a")])
    lane.receive(2.0, [chunk("b", finish="stop"), usage_event(66, reasoning=64), Event(DONE)])
    assert lane.tokens == 2
    assert lane.rate() == pytest.approx(1.0)


def test_the_live_rate_is_that_of_the_last_second() -> None:
    lane = Lane("m", 1000)
    feed(lane, ttft=0.0, gap=0.1, tokens=31)  # ten a second, for three seconds
    for i in range(1, 201):
        lane.receive(103.0 + i * 0.01, [chunk("x")])
    assert lane.live_rate(now=105.0) == pytest.approx(100.0)
    assert lane.rate() == pytest.approx(230 / 5.0)


def test_silence_brings_the_live_rate_down() -> None:
    lane = Lane("m", 1000)
    feed(lane, ttft=0.0, gap=0.1, tokens=11)
    assert lane.live_rate(now=101.05) == pytest.approx(10.0)
    assert lane.live_rate(now=105.0) == pytest.approx(2.0)


def test_tokens_that_came_in_one_read_are_rated_over_the_whole_time() -> None:
    lane = Lane("instant", 3)
    lane.begin(0.0)
    lane.receive(0.5, [chunk("a"), chunk("b"), chunk("c", finish="length"), Event(DONE)])
    assert lane.rate() == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([Event('{"error":{"message":"Overloaded."}}')], "Overloaded."),
        ([Event('{"error":"bad"}')], "bad"),
        ([Event("<html>")], "a chunk is not a JSON object: <html>"),
        ([Event("[]")], "a chunk is not a JSON object: []"),
        ([Event(DONE)], "the answer had no token"),
    ],
)
def test_what_fails_a_lane(events: list[Event], error: str) -> None:
    lane = Lane("m", 10)
    lane.begin(0.0)
    lane.receive(1.0, events)
    assert (lane.state, lane.error) == ("failed", error)
    lane.end(2.0)
    assert lane.elapsed_s(now=9.0) == pytest.approx(1.0)


def test_a_stream_without_an_end_fails_and_one_with_a_finish_reason_does_not() -> None:
    broken, whole = Lane("m", 10), Lane("m", 10)
    feed(broken, ttft=0.1, gap=0.1, tokens=3)
    broken.end(101.0)
    assert (broken.state, broken.error) == ("failed", "the stream broke off after 3 tokens")
    feed(whole, ttft=0.1, gap=0.1, tokens=3)
    whole.receive(100.3, [chunk(finish="stop")])
    whole.end(101.0)
    assert whole.state == "finished"


def test_a_stopped_lane_keeps_what_it_has() -> None:
    lane = Lane("m", 10)
    feed(lane, ttft=0.1, gap=0.1, tokens=3)
    lane.stop(102.0)
    lane.fail(103.0, "closed")
    assert (lane.state, lane.error, lane.tokens) == ("stopped", "", 3)
    assert lane.elapsed_s(now=200.0) == pytest.approx(2.0)
    assert lane.rate() == pytest.approx(10.0)
