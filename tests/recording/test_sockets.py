from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Request, Response
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from paceline.testing.server import serve as serve_paceline
from tests.recording.rig import KEY, recording

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
