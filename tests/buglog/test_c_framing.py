"""Faults seen in the framing of event streams."""

from __future__ import annotations

import json
import time

import pytest

from tests.live import CHAT, COMPLETIONS, Server, Wire, chat, compl

STREAMS = [
    (CHAT, chat("quick", stream=True, stream_options={"include_usage": True})),
    (CHAT, chat("instant", stream=True, logprobs=True)),
    (CHAT, chat("thinker", stream=True, include_reasoning=True, max_tokens=25)),
    (COMPLETIONS, compl("quick", stream=True)),
    (COMPLETIONS, compl("instant", stream=True, logprobs=2, echo=True)),
]


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_c01_c02_c05_every_event_is_one_line_of_json(
    server: Server, path: str, body: dict[str, object]
) -> None:
    """LF alone (C01), no comments (C02), no `id:` (C03), and no empty data (C05)."""
    data = server.post(path, body).body
    assert b"\r" not in data
    *parts, end = data.split(b"\n\n")
    assert end == b""
    assert parts.pop() == b"data: [DONE]"
    for part in parts:
        assert part.startswith(b"data: ")
        assert b"\n" not in part
        assert isinstance(json.loads(part.removeprefix(b"data: ")), dict)


@pytest.mark.realtime
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_c02_c03_a_silent_stream_is_silent(server: Server, path: str) -> None:
    """A token every second and a half: nothing is sent to fill the time."""
    body = chat("flat-0.7", stream=True, max_tokens=2)
    if path == COMPLETIONS:
        body = compl("flat-0.7", stream=True, max_tokens=2)
    start = time.monotonic()
    answer = server.post(path, body)
    assert time.monotonic() - start > 1.4
    assert b"\n:" not in answer.body
    assert not answer.body.startswith(b":")
    assert b"\nid:" not in answer.body
    assert len(answer.arrivals) == 2
    assert answer.events


@pytest.mark.realtime
def test_c02_the_server_s_own_event_stream_has_no_pings(server: Server) -> None:
    with Wire(server) as wire:
        wire.send("GET", "/paceline/live")
        head = wire.head()
        assert head.header("content-type") == "text/event-stream; charset=utf-8"
        for _ in range(2):
            event = wire.chunk(head)
            assert event.startswith(b"data: {")
            assert event.endswith(b"}\n\n")
        assert b"\r" not in head.body
        assert b"\n:" not in head.body


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/paceline/live"])
def test_c08_head_ends_at_once(server: Server, path: str) -> None:
    with Wire(server) as wire:
        start = time.monotonic()
        wire.send("HEAD", path)
        answer = wire.read(no_body=True)
        assert time.monotonic() - start < 2.0
        assert answer.status == 405
        assert answer.header("allow") == ("GET" if path == "/paceline/live" else "POST")
        # There was no body, so the connection goes on with the next answer.
        wire.send("GET", "/health")
        assert wire.read().status == 200


@pytest.mark.parametrize(("path", "body"), STREAMS)
def test_c10_headers_that_keep_proxies_from_buffering(
    server: Server, path: str, body: dict[str, object]
) -> None:
    with Wire(server) as wire:
        wire.send("POST", path, body)
        answer = wire.read()
    assert answer.header("cache-control") in {"no-cache", "no-store"}
    assert answer.header("x-accel-buffering") == "no"
    assert answer.header("connection") is None
    assert answer.header("content-length") is None
