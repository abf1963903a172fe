"""Faults seen with clients of the Responses API."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

from tests.live import Server, Wire, chat
from tests.wire.responses.grammar import TERMINAL, sse_events, walk

PATH = "/v1/responses"


def resp(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "input": "hi", "stream": True, **fields}


@pytest.mark.realtime
def test_c06_created_and_in_progress_leave_at_once(server: Server) -> None:
    """However long the first token takes, a client that counts events sees some; no comments."""
    began = time.monotonic()
    body = resp("flat-100", max_output_tokens=3)
    answer = server.post(PATH, body, {"X-Paceline-TTFT-Ms": "800"})
    at, data = answer.arrivals[0]
    assert at - began < 0.3
    kinds = [event["type"] for event in sse_events(data)]
    assert kinds == ["response.created", "response.in_progress"]
    assert answer.arrivals[1][0] - at > 0.5
    assert not any(line.startswith(b":") for line in answer.body.split(b"\n"))


@pytest.mark.realtime
def test_g01_g08_a_stream_that_breaks_says_so() -> None:
    with Server("--grace-s", "0.1") as server, Wire(server) as wire:
        wire.send("POST", PATH, resp("slow"))
        answer = wire.head()
        while b"output_text.delta" not in answer.body:
            assert wire.chunk(answer)
        server.process.send_signal(signal.SIGTERM)
        while wire.chunk(answer):
            pass
        assert answer.complete
        events = sse_events(answer.body)
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["status"] == "failed"
        assert events[-1]["response"]["error"]["code"] == "server_error"
        assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.realtime
def test_g01_so_does_a_chat_stream() -> None:
    with Server("--grace-s", "0.1") as server, Wire(server) as wire:
        wire.send("POST", "/v1/chat/completions", chat("slow", stream=True))
        answer = wire.head()
        assert wire.chunk(answer)
        server.process.send_signal(signal.SIGTERM)
        while wire.chunk(answer):
            pass
        assert answer.complete
        last = answer.body.split(b"\n\n")[-2]
        assert "error" in json.loads(last.removeprefix(b"data: "))
        assert b"[DONE]" not in answer.body


@pytest.mark.parametrize(
    "fields",
    [{}, {"max_output_tokens": 2}, {"max_output_tokens": 1, "reasoning": {"effort": "high"}}],
)
@pytest.mark.parametrize("model", ["quick", "thinker", "instant"])
def test_g08_every_stream_has_exactly_one_terminal_event(
    server: Server, model: str, fields: dict[str, Any]
) -> None:
    events = sse_events(server.post(PATH, resp(model, **fields)).body)
    assert [event["type"] for event in events if event["type"] in TERMINAL] == [events[-1]["type"]]
    walk(events)


@pytest.mark.parametrize("stream", [True, False])
def test_g10_every_counter_is_a_whole_number(server: Server, stream: bool) -> None:
    answer = server.post(PATH, resp("quick") | {"stream": stream})
    response = sse_events(answer.body)[-1]["response"] if stream else answer.object
    usage = response["usage"]
    assert usage["input_tokens"] == 8
    assert usage["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}
    assert type(usage["output_tokens"]) is int
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_g12_an_upgrade_gets_426_at_once_where_there_is_no_websocket() -> None:
    with Server("--no-websocket") as server:
        began = time.monotonic()
        answer = server.ask("GET", PATH, headers={"Upgrade": "websocket", "Connection": "Upgrade"})
        assert time.monotonic() - began < 1
        assert answer.status == 426
        assert answer.header("upgrade") == "websocket"
        assert answer.error["code"] == "upgrade_required"


def test_e13_stream_options_without_a_stream_are_refused_clearly(server: Server) -> None:
    body = {"model": "quick", "input": "hi", "stream_options": {"include_obfuscation": False}}
    answer = server.post(PATH, body)
    assert answer.status == 400
    assert answer.error["param"] == "stream_options"


@pytest.mark.realtime
def test_a21_the_first_token_of_any_kind_is_the_first_token(server: Server) -> None:
    """Hidden reasoning stops the clock of TTFT too, and a capped answer has one all the same."""
    before = server.metrics()
    server.post(PATH, resp("thinker", max_output_tokens=3))
    name = "vllm:time_to_first_token_seconds_count"
    assert server.metrics().since(before, name, model_name="thinker") == 1
