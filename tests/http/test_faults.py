"""Faults over HTTP, in every dialect."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx2
import openai
import pytest

from paceline.app import App
from paceline.http.faults import ERROR, FAULTS
from paceline.runtime.settings import Settings
from paceline.testing import serve
from paceline.wire.faults import NAMES
from tests.http.broken import DIALECTS, MESSAGES, RESPONSES, body, fault
from tests.live import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    PATIENCE_S,
    Server,
    Wire,
    contents,
    wait_until,
)


def test_every_name_has_its_fault() -> None:
    assert {*FAULTS, ERROR} == set(NAMES)


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("stream", [True, False])
def test_none_changes_nothing(server: Server, path: str, stream: bool) -> None:
    answer = server.post(path, body(path, stream=stream, **fault("none")))
    assert answer.status == 200
    assert answer.complete
    assert server.record(answer.header("x-request-id") or "")["state"] == "finished"


# -- an error in place of an answer ----------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES])
@pytest.mark.parametrize("status", [400, 429, 500, 599])
def test_an_error_of_any_status(server: Server, path: str, status: int) -> None:
    wanted = {"name": "error", "status": status, "code": "odd", "message": "Odd."}
    answer = server.post(path, body(path, stream=True, **fault(wanted)))
    assert answer.status == status
    assert (answer.error["code"], answer.error["message"]) == ("odd", "Odd.")
    assert answer.header("retry-after") is None


@pytest.mark.parametrize("path", DIALECTS)
def test_a_rate_limit_rounds_its_wait_up(server: Server, path: str) -> None:
    answer = server.post(path, body(path), {"X-Paceline-Fault": "error:rate_limit,1.2"})
    assert answer.status == 429
    assert answer.header("retry-after") == "2"
    assert answer.header("retry-after-ms") == "1200"
    error = answer.object["error"]
    assert error["message"].endswith("Please try again in 1.2s.")
    assert error["type"] == ("rate_limit_error" if path == MESSAGES else "requests")


def test_overloaded_as_each_api_says_it(server: Server) -> None:
    for path in (CHAT, RESPONSES):
        answer = server.post(path, body(path, **fault("error:overloaded")))
        assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
    answer = server.post(MESSAGES, body(MESSAGES, **fault("error:overloaded")))
    assert (answer.status, answer.object["error"]["type"]) == (529, "overloaded_error")


def test_a_used_up_plan_as_codex_reads_it(server: Server) -> None:
    before = int(time.time())
    wanted = "error:usage_limit_reached,90"
    answer = server.post(RESPONSES, body(RESPONSES, **fault(wanted)))
    error = answer.object["error"]
    assert (answer.status, error["type"]) == (429, "usage_limit_reached")
    assert isinstance(error["plan_type"], str)
    assert error["resets_in_seconds"] == 90
    assert before + 90 <= error["resets_at"] <= time.time() + 90
    assert answer.header("retry-after") is None


def test_the_openai_client_knows_them(server: Server) -> None:
    for name, kind in {
        "unauthorized": openai.AuthenticationError,
        "rate_limit": openai.RateLimitError,
        "overloaded": openai.InternalServerError,
    }.items():
        with pytest.raises(kind):
            server.openai().responses.create(
                model="quick", input="x", extra_headers={"X-Paceline-Fault": f"error:{name}"}
            )


def test_what_else_is_wrong_is_said_first(server: Server) -> None:
    answer = server.post(CHAT, body(CHAT, "nope", **fault("error:500")))
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    for path in DIALECTS:
        answer = server.post(path, body(path, **fault({"name": "fail_after"})))
        assert answer.status == 400
        assert "paceline.fault.tokens" in answer.object["error"]["message"]


def test_embeddings_know_only_errors(server: Server) -> None:
    asked = {"model": "quick", "input": "x"}
    assert server.post(EMBEDDINGS, {**asked, **fault("error:418")}).status == 418
    answer = server.post(EMBEDDINGS, {**asked, **fault("drop_after:1")})
    assert answer.status == 400
    assert answer.error["param"] == "paceline.fault"
    assert server.post(EMBEDDINGS, {**asked, **fault("none")}).status == 200


@pytest.mark.parametrize(
    ("asked", "fields"),
    [("slice", {"stream": False}), ("fail_after:1", {"background": True})],
)
def test_what_can_t_happen_is_refused(server: Server, asked: str, fields: dict[str, Any]) -> None:
    answer = server.post(RESPONSES, body(RESPONSES, **fields, **fault(asked)))
    assert answer.status == 400
    assert (answer.error["param"], answer.error["code"]) == (
        "paceline.fault",
        "unsupported_parameter",
    )


# -- in the middle -------------------------------------------------------------------------------


def deltas(path: str, data: bytes) -> int:
    """How many events with text there are."""
    mark = {
        CHAT: b'"content":"',
        COMPLETIONS: b'"text":"',
        RESPONSES: b"event: response.output_text.delta",
        MESSAGES: b"event: content_block_delta",
    }[path]
    events = [event for event in data.split(b"\n\n") if mark in event]
    return sum(not (b'"content":""' in event or b'"text":""' in event) for event in events)


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("model", ["quick", "instant", "flat-1000"])
@pytest.mark.parametrize("after", [1, 4, 10])
def test_a_dropped_stream_just_ends(server: Server, path: str, model: str, after: int) -> None:
    answer = server.post(path, body(path, model, stream=True, **fault(f"drop_after:{after}")))
    assert answer.status == 200
    assert not answer.complete
    assert deltas(path, answer.body) == after
    for end in (
        b"[DONE]",
        b'finish_reason":"',
        b"message_stop",
        b"response.completed",
        b'error":{',
    ):
        assert end not in answer.body
    record = server.record(answer.header("x-request-id") or "")
    assert record["state"] == "failed"
    server.wait_idle("quick")


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("model", ["instant", "flat-1000"])
@pytest.mark.parametrize("after", [0, 1, 10])
def test_a_failed_stream_says_so(server: Server, path: str, model: str, after: int) -> None:
    answer = server.post(path, body(path, model, stream=True, **fault(f"fail_after:{after}")))
    assert answer.status == 200
    assert answer.complete
    assert deltas(path, answer.body) == after
    assert b"[DONE]" not in answer.body
    assert b"error" in answer.body.split(b"\n\n")[-2]
    assert server.record(answer.header("x-request-id") or "")["state"] == "failed"


@pytest.mark.parametrize("path", DIALECTS)
def test_an_answer_that_is_shorter_stays_whole(server: Server, path: str) -> None:
    answer = server.post(path, body(path, stream=True, **fault("fail_after:11")))
    assert answer.complete
    assert deltas(path, answer.body) == 10
    assert server.record(answer.header("x-request-id") or "")["state"] == "finished"


def test_all_choices_count_and_all_end(server: Server) -> None:
    answer = server.post(CHAT, body(CHAT, stream=True, n=3, **fault("fail_after:7")))
    assert deltas(CHAT, answer.body) == 7
    assert b'"error"' in answer.body.split(b"\n\n")[-2]
    server.wait_idle("quick")


def test_a_code_that_responses_know(server: Server) -> None:
    asked = {"name": "fail_after", "tokens": 2, "code": "rate_limit_exceeded", "message": "Slow."}
    answer = server.post(RESPONSES, body(RESPONSES, stream=True, **fault(asked)))
    last = json.loads(answer.body.split(b"\n\n")[-2].partition(b"data: ")[2])
    assert last["response"]["error"] == {"code": "rate_limit_exceeded", "message": "Slow."}


@pytest.mark.parametrize("path", DIALECTS)
def test_whole_answers_break_too(server: Server, path: str) -> None:
    answer = server.post(path, body(path, **fault("fail_after:10")))
    assert answer.status == 500
    assert server.record(answer.header("x-request-id") or "")["state"] == "failed"
    assert server.post(path, body(path, **fault("fail_after:11"))).status == 200
    with pytest.raises((EOFError, ConnectionResetError)):
        server.post(path, body(path, **fault("drop_after:10")))


@pytest.mark.parametrize("path", DIALECTS)
def test_a_page_s_connection_ends_too(server: Server, path: str) -> None:
    headers = {"Origin": "https://a.example"}
    answer = server.post(path, body(path, stream=True, **fault("drop_after:2")), headers)
    assert not answer.complete
    assert deltas(path, answer.body) == 2
    with pytest.raises((EOFError, ConnectionResetError)):
        server.post(path, body(path, **fault("drop_after:2")), headers)


@pytest.mark.parametrize("stream", [True, False])
def test_a_test_s_server_drops_its_connections_too(stream: bool) -> None:
    with serve("instant") as own:
        asked = body(CHAT, "instant", stream=stream, **fault("drop_after:2"))
        with httpx2.Client(trust_env=False) as client, pytest.raises(httpx2.RemoteProtocolError):
            client.post(own.url + CHAT, json=asked)


@pytest.mark.anyio
async def test_where_the_connection_is_out_of_reach_the_answer_is_left_unfinished() -> None:
    """Under a server of another make: the application returns in the middle."""
    app = App(Settings())
    app.engine.start()
    said: list[dict[str, Any]] = []
    asked = json.dumps(body(CHAT, stream=True, **fault("drop_after:2"))).encode()
    asked = asked.replace(b'"quick"', b'"instant"')
    messages = [{"type": "http.request", "body": asked, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        said.append(message)

    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": []}
    try:
        await asyncio.wait_for(app(scope, receive, send), PATIENCE_S)
    finally:
        app.engine.stop()
    assert said[0]["status"] == 200
    assert deltas(CHAT, b"".join(message["body"] for message in said[1:])) == 2
    assert all(message["more_body"] for message in said[1:])


# -- a pause -------------------------------------------------------------------------------------


@pytest.mark.realtime
@pytest.mark.parametrize("path", DIALECTS)
def test_a_stall_holds_and_then_all_comes(server: Server, path: str) -> None:
    answer = server.post(path, body(path, "flat-200", stream=True, **fault("stall_after:3,400")))
    assert answer.complete
    assert deltas(path, answer.body) == 10
    gaps = [b[0] - a[0] for a, b in zip(answer.arrivals, answer.arrivals[1:], strict=False)]
    longest = max(gaps)
    assert 0.35 < longest < 1.5
    at = gaps.index(longest) + 1
    assert deltas(path, b"".join(data for _, data in answer.arrivals[:at])) == 3
    # The rest was due meanwhile: nothing is late for it but what the pause made so.
    assert answer.arrivals[-1][0] - answer.arrivals[at][0] < 0.2
    assert server.record(answer.header("x-request-id") or "")["state"] == "finished"


@pytest.mark.realtime
def test_a_stall_of_a_whole_answer(server: Server) -> None:
    start = time.monotonic()
    answer = server.post(CHAT, body(CHAT, "instant", **fault("stall_after:0,300")))
    assert answer.status == 200
    assert 0.3 <= time.monotonic() - start < 2.0


@pytest.mark.realtime
def test_a_client_that_leaves_in_a_stall_leaves_nothing_behind(server: Server) -> None:
    with Wire(server) as wire:
        wire.send("POST", CHAT, body(CHAT, stream=True, **fault("stall_after:2,3600000")))
        wire.head()
        wait_until(lambda: server.metrics().running("quick") > 0, "it runs")
    server.wait_idle("quick")


@pytest.mark.realtime
def test_a_server_that_stops_breaks_a_stall_off() -> None:
    with Server("--grace-s", "0.2") as own, Wire(own) as wire:
        asked = body(CHAT, "slow", stream=True, **fault("stall_after:2,3600000"))
        wire.send("POST", CHAT, asked)
        answer = wire.head()
        while deltas(CHAT, answer.body) < 2:
            assert wire.chunk(answer)
        start = time.monotonic()
        own.process.terminate()
        while wire.chunk(answer):
            pass
        assert b"server_shutting_down" in answer.body
        own.process.wait(PATIENCE_S)
        assert time.monotonic() - start < 5.0


@pytest.mark.realtime
def test_cut_pieces_leave_in_time(server: Server) -> None:
    asked = body(CHAT, "flat-100", stream=True, **fault("slice:5"))
    answer = server.post(CHAT, asked)
    assert len(contents(answer.events)) > 10
    record = server.record(answer.header("x-request-id") or "")
    assert record["split_ms"]["decode"] == pytest.approx(90.0, abs=1e-3)
    assert answer.arrivals[-1][0] - answer.arrivals[0][0] == pytest.approx(0.09, abs=0.1)
