from __future__ import annotations

import json
from typing import Any

import pytest

from paceline.core.profile import Engine, Overhead, Profile
from paceline.recording import pace
from paceline.recording.document import Exchange
from tests.recording.rig import MS, exchange

ENGINE = Profile(
    name="p",
    title="p",
    engine=Engine(step_ms=10.0, step_ms_per_prefill_token=0.5),
    overhead=Overhead(round_trip_ms=7.0),
)


def words(text: str) -> int:
    return len(text.split())


def event(**data: Any) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def delta(**fields: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": fields}])


def chat(*parts: bytes) -> Exchange:
    return exchange(*((100.0 * (i + 1), part) for i, part in enumerate(parts)))


def test_as_recorded_and_scaled() -> None:
    taken = exchange((10, b"a"), (25, b"b"), end_ns=30 * MS)
    assert pace.scaled(taken, 1.0) == (10 * MS, [10 * MS, 25 * MS], 30 * MS)
    assert pace.scaled(taken, 2.0) == (5 * MS, [5 * MS, 25 * MS // 2], 15 * MS)
    assert pace.scaled(taken, 0.5) == (20 * MS, [20 * MS, 50 * MS], 60 * MS)


def test_a_drop_before_any_answer_keeps_its_time() -> None:
    taken = exchange(response=None, end="upstream_dropped", end_ns=40 * MS)
    assert pace.scaled(taken, 2.0) == (20 * MS, [], 20 * MS)


def test_a_profiles_pace_counts_each_chunks_tokens() -> None:
    taken = chat(
        delta(role="assistant", content=""),
        delta(content="one"),
        delta(content="two three") + delta(content="four"),
        event(choices=[], usage={"prompt_tokens": 20, "completion_tokens": 4}),
        b"data: [DONE]\n\n",
    )
    head, times, end = pace.as_profile(taken, ENGINE, words)
    # 7 ms of overhead, 20 tokens of prefill and the first step; then a step a token.
    first = 7 + 20 * 0.5 + 10
    assert [at / MS for at in times] == [first, first, first + 30, first + 30, first + 30]
    assert (head, end) == (times[0], times[-1])


def test_hidden_reasoning_comes_before_what_is_shown() -> None:
    usage = {"prompt_tokens": 0, "completion_tokens": 103}
    taken = chat(delta(content="one two three"), event(choices=[], usage=usage))
    _, times, _ = pace.as_profile(taken, ENGINE, words)
    assert times[0] / MS == pytest.approx(17 + 102 * 10)


def test_an_answer_in_one_piece_comes_when_all_its_tokens_are_made() -> None:
    body = json.dumps({"usage": {"input_tokens": 2, "output_tokens": 50}}).encode()
    taken = exchange((1, body[:9]), (2, body[9:]), headers=(("content-type", "application/json"),))
    head, times, end = pace.as_profile(taken, ENGINE, words)
    assert times == [head, head]
    assert head / MS == pytest.approx(7 + 2 * 0.5 + 10 + 49 * 10)
    assert end == head


def test_a_flat_profile_has_its_own_first_token() -> None:
    flat = Profile(name="f", title="f", engine=Engine(step_ms=2.0), kind="flat", flat_ttft_ms=33.0)
    _, times, _ = pace.as_profile(chat(delta(content="one"), delta(content="two")), flat, words)
    assert [at / MS for at in times] == [33, 35]


def test_what_no_model_made_keeps_its_recorded_time() -> None:
    error = exchange(
        (12, b'{"error":{}}'), status=429, headers=(("content-type", "application/json"),)
    )
    assert pace.as_profile(error, ENGINE, words) == pace.scaled(error, 1.0)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (event(choices=[{"delta": {"reasoning_content": "a b", "refusal": "c"}}]), 3),
        (event(choices=[{"delta": {"tool_calls": [{"function": {"arguments": "{ } x"}}]}}]), 3),
        (event(choices=[{"text": "a b c d"}]), 4),
        (event(type="response.output_text.delta", delta="a b"), 2),
        (event(type="content_block_delta", delta={"type": "text_delta", "text": "a"}), 1),
        (event(type="content_block_delta", delta={"partial_json": "a b"}), 2),
        (event(choices=[{"delta": {"content": None}}, None], delta=3), 0),
        (event(choices="x"), 0),
        (b"data: not json\n\n: comment\n\n", 0),
    ],
)
def test_tokens_of_every_dialect(data: bytes, count: int) -> None:
    assert pace.tokens_of(exchange((1, data)), words)[0] == [count]


def test_an_event_counts_where_it_is_complete_however_it_was_cut() -> None:
    data = delta(content="un été très chaud")
    for cut in range(1, len(data)):
        weights, _, _ = pace.tokens_of(exchange((1, data[:cut]), (2, data[cut:])), words)
        assert weights == [0, 4]


@pytest.mark.parametrize(
    "data",
    [
        event(usage={"prompt_tokens": 3, "completion_tokens": 9}),
        event(
            type="response.completed", response={"usage": {"input_tokens": 3, "output_tokens": 9}}
        ),
        event(type="message_start", message={"usage": {"input_tokens": 3, "output_tokens": 1}})
        + event(type="message_delta", usage={"output_tokens": 9}),
    ],
)
def test_usage_of_every_dialect(data: bytes) -> None:
    assert pace.tokens_of(exchange((1, data)), words) == ([0], 3, 9)


def test_the_model_and_the_tier_of_a_request() -> None:
    assert pace.model_of(b'{"model":"m","service_tier":"fast"}') == ("m", "fast")
    assert pace.model_of(b'{"model":3}') == (None, None)
    assert pace.model_of(b"[]") == (None, None)
    assert pace.model_of(b"") == (None, None)
