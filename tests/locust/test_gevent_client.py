"""The client without gevent: its sockets are plain ones, and patching them changes no result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import pytest

from paceline.testing.server import serve
from paceline_loadtest.caller import Ask, Reply
from paceline_loadtest.model import Call, Dialect
from paceline_loadtest.retries import Retries
from paceline_loadtest.scale.gevent_client import GeventClient
from tests.recording.rig import DROP, Asked, Step, chunked, stream_head, upstream, whole

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}


@contextmanager
def client(url: str, **options: Any) -> Iterator[GeventClient]:
    made = GeventClient(url, "a-key", **options)
    try:
        yield made
    finally:
        made.close()


def called(
    client: GeventClient, body: Any = BODY, dialect: Dialect = "chat", *, stream: bool = True
) -> tuple[Call, Reply]:
    call = Call(scheduled_at=perf_counter())
    reply = client.call(Ask(dialect, body, stream=stream), call)
    return call, reply


def delta(text: str) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"delta": {"content": text}}]}).encode()


END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def answers(*each: list[Step]) -> Any:
    given = iter(each)
    return lambda _asked: next(given)


def test_a_stream_is_stamped_and_read() -> None:
    script: list[Step] = [stream_head(), 0.05, chunked(delta("one ")), 0.1]
    with (
        upstream([*script, chunked(delta("two") + END), chunked(b"")]) as up,
        client(up.url) as http,
    ):
        call, reply = called(http)
        again, _ = called(http)
    assert reply.text == "one two"
    assert reply.finish_reason == "stop"
    assert call.ok
    assert again.ok
    assert call.status == 200
    assert call.sent_at is not None
    assert call.first_at is not None
    assert call.last_at is not None
    assert 0.045 < call.first_at - call.sent_at < 1
    assert 0.09 < call.last_at - call.first_at < 1
    assert len(call.chunk_at) == 2
    assert up.connections == 1
    assert up.asked[0].line == "POST /v1/chat/completions HTTP/1.1"
    assert up.asked[0].header("authorization") == "Bearer a-key"
    assert json.loads(up.asked[0].body) == BODY


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ([stream_head(), chunked(delta("one")), DROP], "closed the connection"),
        ([stream_head(), chunked(delta("one")), b"zz\r\n"], "not HTTP"),
        ([stream_head(), chunked(delta("one")), chunked(b"")], "ended before its answer did"),
        ([stream_head(), chunked(delta("one")), 5.0], "nothing came for 0.3 s"),
        (whole(b'{"error":{"message":"no such thing"}}', "404 Not Found"), "404: no such thing"),
        (whole(b"{}"), "not a stream of events"),
        ([DROP], "closed the connection"),
    ],
)
def test_what_goes_wrong_is_said_and_nothing_is_raised(script: list[Step], why: str) -> None:
    with upstream(script) as up, client(up.url, idle_timeout_s=0.3) as http:
        call, _ = called(http)
    assert not call.ok
    assert why in (call.error or "")
    assert call.end_at is not None


def test_nobody_there() -> None:
    with upstream([]) as up:
        url = up.url
    with client(url) as http:
        call, _ = called(http)
    assert "refused" in (call.error or "")


def test_a_refusal_is_waited_out_as_told() -> None:
    busy = whole(b'{"error":{"message":"busy"}}', "429 Too Many Requests", {"retry-after": "0.1"})
    fine: list[Step] = [stream_head(), chunked(delta("ok") + END), chunked(b"")]
    with upstream(answers(busy, busy, fine)) as up, client(up.url) as http:
        call, reply = called(http)
    assert call.ok
    assert reply.text == "ok"
    assert call.retries == 2
    assert 0.2 <= call.waited_s < 2
    with upstream(answers(busy, busy)) as up, client(up.url, retries=Retries(most=1)) as http:
        call, _ = called(http)
    assert call.error == "429: busy"
    assert call.retries == 1


def test_an_idle_connection_that_was_closed_is_replaced() -> None:
    fine: list[Step] = [stream_head(), chunked(delta("ok") + END), chunked(b"")]
    with upstream(answers([*fine, DROP], fine)) as up, client(up.url) as http:
        assert called(http)[0].ok
        call, _ = called(http)
    assert call.ok
    assert up.connections == 2


def test_a_websocket_is_refused() -> None:
    with client("http://127.0.0.1:1/v1") as http:
        call, _ = called(http, dialect="responses-websocket")
    assert "dialect responses" in (call.error or "")


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("chat", {**BODY, "max_tokens": 20}),
        ("responses", {"model": "m", "input": "hi", "stream": True, "max_output_tokens": 20}),
        (
            "messages",
            {"model": "m", "messages": BODY["messages"], "stream": True, "max_tokens": 20},
        ),
    ],
)
def test_every_dialect_of_our_own_server(dialect: Dialect, body: dict[str, Any]) -> None:
    with serve() as server, client(server.base_url) as http:
        asked = {**body, "stream_options": {"include_usage": True}} if dialect == "chat" else body
        call, reply = called(http, asked, dialect)
        whole_body = {**body, "stream": False}
        plain, said = called(http, whole_body, dialect, stream=False)
        assert all(r.headers["paceline-key-id"] for r in server.requests)
    assert call.error is None
    assert plain.error is None
    assert call.output_tokens == plain.output_tokens == 20
    assert reply.text
    assert said.text


def test_a_text_in_every_alphabet_goes_whole() -> None:
    def script(asked: Asked) -> list[Step]:
        text = json.loads(asked.body)["messages"][0]["content"]
        return [stream_head(), chunked(delta(text) + END), chunked(b"")]

    body = {**BODY, "messages": [{"role": "user", "content": "é 漢字 😀"}]}
    with upstream(script) as up, client(up.url) as http:
        assert called(http, body)[1].text == "é 漢字 😀"
