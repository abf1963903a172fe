"""Faults over a WebSocket."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from tests.http.broken import create, fault, receive
from tests.live import Server


@pytest.fixture
def socket(server: Server) -> Iterator[ClientConnection]:
    url = f"ws://{server.host}:{server.port}/v1/responses"
    with connect(url, proxy=None) as connection:
        yield connection


def test_frames_fail_and_the_connection_goes_on(socket: ClientConnection) -> None:
    create(socket, **fault("error:rate_limit,1.2"))
    (refused,) = receive(socket)
    assert refused["status"] == 429
    assert refused["error"]["code"] == "rate_limit_exceeded"
    assert (refused["headers"]["retry-after"], refused["headers"]["retry-after-ms"]) == (
        "2",
        "1200",
    )
    create(socket, **fault("error:usage_limit_reached,60"))
    assert receive(socket)[-1]["error"]["resets_in_seconds"] == 60
    create(socket, **fault("slice"))
    assert receive(socket)[-1]["error"]["param"] == "paceline.fault"
    create(socket, **fault("fail_after:3"))
    events = receive(socket)
    assert events[-1]["type"] == "response.failed"
    assert [e["type"] for e in events].count("response.output_text.delta") == 3
    create(socket)
    assert receive(socket)[-1]["type"] == "response.completed"


@pytest.mark.realtime
def test_frames_stall(socket: ClientConnection) -> None:
    start = time.monotonic()
    create(socket, **fault("stall_after:3,300"))
    events = receive(socket)
    assert time.monotonic() - start >= 0.3
    assert events[-1]["type"] == "response.completed"
    create(socket)
    assert receive(socket)[-1]["type"] == "response.completed"


def test_a_dropped_socket_has_no_closing_frame(socket: ClientConnection) -> None:
    create(socket, **fault("drop_after:3"))
    with pytest.raises(ConnectionClosed) as caught:
        receive(socket)
    assert isinstance(caught.value, ConnectionClosedError)
    assert caught.value.rcvd is None
