from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Request, Response
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from paceline.core.profile import Engine, Profile
from paceline.recording import pace
from paceline.recording.document import Chunk, End, Exchange
from paceline.recording.document import Request as Asked
from paceline.recording.turns import turns_of
from paceline.testing.server import serve as serve_paceline
from tests.recording.rig import KEY, MS, exchange, recording

Script = Callable[[ServerConnection], None]


@contextlib.contextmanager
def socket_upstream(script: Script, refuse: int = 0) -> Iterator[tuple[str, list[Request]]]:
    """A WebSocket server that does what a script says with each connection."""
    asked: list[Request] = []

    def look(connection: ServerConnection, request: Request) -> Response | None:
        asked.append(request)
        return connection.respond(refuse, '{"error":{"message":"no"}}') if refuse else None

    with serve(script, "127.0.0.1", 0, process_request=look, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}/v1", asked
        finally:
            server.shutdown()
            thread.join()


def echo(connection: ServerConnection) -> None:
    for message in connection:
        connection.send(message)


def test_frames_pass_both_ways_and_are_kept_in_order(tmp_path: Path) -> None:
    with socket_upstream(echo) as (url, asked), recording(url, tmp_path) as rec:
        headers = {"Authorization": f"Bearer {KEY}", "OpenAI-Beta": "responses_websockets=x"}
        address = f"ws://127.0.0.1:{rec.port}/v1/responses?a=1"
        with connect(address, additional_headers=headers, proxy=None) as client:
            for message in ("één", b"\x00\xff", json.dumps({"api_key": KEY})):
                client.send(message)
                assert client.recv(timeout=10) == message
        (kept,) = rec.kept()
        assert KEY not in rec.text()
    (request,) = asked
    assert request.path == "/v1/responses?a=1"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["openai-beta"] == "responses_websockets=x"
    assert (kept.request.method, kept.request.path) == ("WEBSOCKET", "/responses")
    assert [(c.sender, c.binary) for c in kept.chunks] == [
        ("client", False), ("server", False), ("client", True), ("server", True),
        ("client", False), ("server", False),
    ]  # fmt: skip
    assert [c.data for c in kept.chunks[:4]] == ["één".encode()] * 2 + [b"\x00\xff"] * 2
    times = [c.at_ns for c in kept.chunks]
    assert times == sorted(times)
    assert kept.end == "complete"
    assert kept.close == (1000, "")


@pytest.mark.parametrize(
    ("script", "code", "reason", "end"),
    [
        (lambda c: c.close(1008, "too much"), 1008, "too much", "complete"),
        (lambda c: c.socket.close(), 1011, "", "upstream_dropped"),
    ],
)
def test_upstreams_end_is_passed_on(
    tmp_path: Path, script: Script, code: int, reason: str, end: str
) -> None:
    with socket_upstream(script) as (url, _), recording(url, tmp_path) as rec:
        with connect(f"ws://127.0.0.1:{rec.port}/v1/responses", proxy=None) as client:
            with pytest.raises(ConnectionClosed):
                client.recv(timeout=10)
            assert (client.close_code, client.close_reason) == (code, reason)
        (kept,) = rec.kept()
    assert kept.end == end


def test_a_refused_handshake_is_passed_on(tmp_path: Path) -> None:
    with socket_upstream(echo, refuse=401) as (url, _), recording(url, tmp_path) as rec:
        with pytest.raises(InvalidStatus) as caught:
            connect(f"ws://127.0.0.1:{rec.port}/v1/responses", proxy=None)
        (kept,) = rec.kept()
    assert caught.value.response.status_code == 401
    assert caught.value.response.body == b'{"error":{"message":"no"}}'
    assert kept.response is not None
    assert kept.response.status == 401


def test_no_upstream(tmp_path: Path) -> None:
    with socket_upstream(echo) as (url, _):
        pass
    with recording(url, tmp_path) as rec, pytest.raises(InvalidStatus) as caught:
        connect(f"ws://127.0.0.1:{rec.port}/v1/responses", proxy=None)
    assert caught.value.response.status_code == 502


def test_our_own_socket_through_the_recorder(tmp_path: Path) -> None:
    asked = {"type": "response.create", "model": "instant", "input": "hi", "max_output_tokens": 5}
    with serve_paceline() as server, recording(server.base_url, tmp_path) as rec:
        with connect(f"ws://127.0.0.1:{rec.port}/v1/responses", proxy=None) as client:
            client.send(json.dumps(asked))
            kinds: list[str] = []
            while "response.incomplete" not in kinds:
                kinds.append(json.loads(client.recv(timeout=10))["type"])
        (kept,) = rec.kept()
    assert kinds[0] == "response.created"
    assert [json.loads(c.data)["type"] for c in kept.chunks] == ["response.create", *kinds]


# -- played back -------------------------------------------------------------------------------


def frames(url: str, *asked: dict[str, Any]) -> list[list[str]]:
    """What a socket says to each frame, up to the response's end or an error."""
    found = []
    with connect(f"{url.replace('http', 'ws')}/v1/responses", proxy=None) as client:
        for frame in asked:
            client.send(json.dumps(frame))
            said: list[str] = []
            ends = ("response.completed", "response.incomplete", "error")
            while not said or json.loads(said[-1])["type"] not in ends:
                said.append(str(client.recv(timeout=10)))
            found.append(said)
    return found


def create(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response.create", "model": "m", "input": text, **fields}


def test_turns_come_back_frame_for_frame(tmp_path: Path) -> None:
    one, two = create("one", max_output_tokens=5), create("two", stream_id="s")
    with serve_paceline() as server, recording(server.base_url, tmp_path) as rec:
        live = frames(f"http://127.0.0.1:{rec.port}", one, two)
        rec.kept()
    with serve_paceline(replay=str(tmp_path), replay_miss="error") as server:
        # In another order, with fields that don't count, and under another stream's name.
        again = {**one, "metadata": {"run": "2"}, "client_metadata": {"x": "y"}}
        renamed, *rest = frames(server.url, {**two, "stream_id": "t"}, two, again, create("three"))
        assert rest[:2] == [live[1], live[0]]
        assert [json.loads(f) for f in renamed] == [
            {**json.loads(f), "stream_id": "t"} for f in live[1]
        ]
        ((miss,),) = rest[2:]
        assert json.loads(miss)["status"] == 404
        assert json.loads(miss)["error"]["code"] == "recording_not_found"


def socket_exchange(*chunks: Chunk, end: End = "complete") -> Exchange:
    return exchange(
        request=Asked("WEBSOCKET", "/responses"), status=101, chunks=chunks, end=end, end_ns=0
    )


def said(at: float, text: str) -> Chunk:
    return Chunk(round(at * MS), text.encode())


def heard(at: float, text: str) -> Chunk:
    return Chunk(round(at * MS), text.encode(), "client")


def test_a_frame_belongs_to_the_latest_turn_of_its_stream() -> None:
    a, b = '{"stream_id":"a"}', '{"stream_id":"b"}'
    taken = socket_exchange(
        said(1, "before any"), heard(10, a), said(12, a), heard(15, b), said(18, a), said(19, b),
        said(20, "of none"), heard(30, a), said(31, a),
    )  # fmt: skip
    turns = turns_of(taken)
    assert [
        (t.asked.decode(), [(c.at_ns // MS, c.data.decode()) for c in t.frames]) for t in turns
    ] == [
        (a, [(2, a), (8, a)]),
        (b, [(4, b), (5, "of none")]),
        (a, [(1, a)]),
    ]
    # What was broken off is known up to each stream's last turn.
    cut = turns_of(replace(taken, end="client_left"))
    assert [len(t.frames) for t in cut] == [2]


def test_a_turns_frames_are_paced_like_chunks() -> None:
    def delta(text: str) -> Chunk:
        return said(100, json.dumps({"type": "response.output_text.delta", "delta": text}))

    usage = {"type": "response.completed", "response": {"usage": {"output_tokens": 5}}}
    (turn,) = turns_of(
        socket_exchange(heard(0, "{}"), delta("a b"), delta("c"), said(200, json.dumps(usage)))
    )
    flat = Profile(name="f", title="f", engine=Engine(step_ms=2.0), kind="flat", flat_ttft_ms=10.0)

    def count(text: str) -> int:
        return len(text.split())

    assert pace.turn_times(turn, 2.0, None, count) == [50 * MS, 50 * MS, 100 * MS]
    # Two hidden tokens, then two and one.
    assert pace.turn_times(turn, 1.0, flat, count) == [16 * MS, 18 * MS, 18 * MS]
    (empty,) = turns_of(socket_exchange(heard(0, "{}"), said(7, "{}")))
    assert pace.turn_times(empty, 1.0, flat, count) == [7 * MS]
