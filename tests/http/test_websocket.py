"""Responses over a WebSocket, by the openai client and frame by frame."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx2
import pytest
from openai.types.responses import ResponsesServerEvent
from pydantic import TypeAdapter
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.live import PATIENCE_S, Server, Wire, wait_until
from tests.wire.responses.grammar import walk

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponsesServerEvent)
LAST = ("response.completed", "response.incomplete", "response.failed", "error")


@contextmanager
def socket(server: Server, **options: Any) -> Iterator[ClientConnection]:
    url = f"ws://{server.host}:{server.port}/v1/responses"
    with connect(url, proxy=None, **options) as connection:
        yield connection


def create(connection: ClientConnection, **body: Any) -> None:
    connection.send(
        json.dumps({"type": "response.create", "model": "quick", "input": "hi", **body})
    )


def receive(connection: ClientConnection) -> dict[str, Any]:
    data = connection.recv(PATIENCE_S)
    assert isinstance(data, str)
    event = json.loads(data)
    _EVENT.validate_python(event)
    assert isinstance(event, dict)
    return event


def until_end(connection: ClientConnection) -> list[dict[str, Any]]:
    events = [receive(connection)]
    while events[-1]["type"] not in LAST:
        events.append(receive(connection))
    return events


@pytest.mark.parametrize("model", ["quick", "instant", "thinker"])
def test_each_event_is_a_frame(server: Server, model: str) -> None:
    with socket(server) as connection:
        create(connection, model=model, stream=True)
        final = walk(until_end(connection))
    assert final["status"] == "completed"
    assert connection.protocol.extensions, "deflate was offered"


# openai 3.57 calls websockets 17's connect() in a way that the latter warns of.
@pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")
def test_the_openai_client(server: Server) -> None:
    texts = []
    with server.openai().responses.connect() as connection:
        connection.response.create(model="quick", input="hi", store=False)
        for event in connection:
            if event.type == "response.output_text.delta":
                texts.append(event.delta)
            if event.type == "response.completed":
                assert event.response.output_text == "".join(texts)
                break
    assert texts


def test_an_agent_s_turns_with_nothing_stored(server: Server) -> None:
    """Prewarm, then only what is new, by the id of what went before."""
    with socket(server) as connection:
        create(connection, input=[], generate=False, store=False, instructions="Be brief.")
        warm = until_end(connection)
        assert [event["type"] for event in warm] == ["response.created", "response.completed"]
        assert warm[-1]["response"]["output"] == []
        assert warm[-1]["response"]["usage"]["output_tokens"] == 0
        assert warm[-1]["response"]["usage"]["input_tokens"] > 3
        previous = warm[-1]["response"]["id"]
        seen = []
        for text in ("one", "two", "three"):
            create(connection, input=text, store=False, previous_response_id=previous)
            final = walk(until_end(connection))
            previous = final["id"]
            seen.append(final["usage"])
        assert seen[0]["total_tokens"] < seen[1]["input_tokens"]
        assert seen[1]["total_tokens"] < seen[2]["input_tokens"]
        # Nobody else can see them.
        assert server.ask("GET", f"/v1/responses/{previous}").status == 404
        with socket(server) as other:
            create(other, previous_response_id=previous)
            (error,) = until_end(other)
            assert error["status"] == 400
            assert error["error"]["code"] == "previous_response_not_found"
        # The connection goes on after an error.
        create(connection, previous_response_id="resp_none")
        assert until_end(connection)[-1]["error"]["code"] == "previous_response_not_found"
        create(connection)
        assert walk(until_end(connection))["status"] == "completed"


@pytest.mark.realtime
def test_a_lane_s_responses_come_one_after_another_and_lanes_side_by_side(server: Server) -> None:
    with socket(server) as connection:
        for stream_id in ("a", "a", "b"):
            create(connection, model="slow", stream_id=stream_id, max_output_tokens=5)
        ends: list[str] = []
        running: dict[str, int] = {"a": 0, "b": 0}
        together = False
        while len(ends) < 3:
            event = receive(connection)
            lane = event["stream_id"]
            if event["type"] == "response.created":
                running[lane] += 1
                assert running[lane] == 1
                together = together or all(running.values())
            if event["type"] in LAST:
                running[lane] -= 1
                ends.append(lane)
        assert sorted(ends) == ["a", "a", "b"]
        assert together


@pytest.mark.parametrize(
    ("frame", "param"),
    [
        ("{", None),
        ("[]", "type"),
        ('{"type":"nope"}', "type"),
        ('{"type":"response.create"}', "model"),
        ('{"type":"response.create","model":"quick"}', "input"),
        ('{"type":"response.create","model":"nope","input":"x"}', "model"),
        ('{"type":"response.create","model":"quick","input":"x","background":true}', "background"),
        ('{"type":"response.create","model":"quick","input":"x","stream_id":3}', "stream_id"),
        ('{"type":"response.create","stream_id":"' + "x" * 513 + '"}', "stream_id"),
        ('{"type":"response.cancel"}', "response_id"),
    ],
)
def test_what_is_refused_is_an_error_frame(server: Server, frame: str, param: str | None) -> None:
    with socket(server) as connection:
        connection.send(frame)
        error = receive(connection)
        assert error["type"] == "error"
        assert 400 <= error["status"] < 500
        assert error["error"]["param"] == param
        create(connection, model="instant")
        assert walk(until_end(connection))["status"] == "completed"


@pytest.mark.realtime
def test_a_client_that_leaves_frees_its_slot(server: Server) -> None:
    with socket(server) as connection:
        create(connection, model="slow")
        receive(connection)
        wait_until(lambda: server.metrics().running("slow") == 1, "it runs")
    server.wait_idle("slow")


@pytest.mark.realtime
def test_a_response_can_be_cancelled(server: Server) -> None:
    with socket(server) as connection:
        create(connection, model="slow")
        made = receive(connection)["response"]["id"]
        connection.send(json.dumps({"type": "response.cancel", "response_id": made}))
        last = until_end(connection)[-1]
        assert last["type"] == "response.incomplete"
        assert last["response"]["status"] == "cancelled"
        server.wait_idle("slow")
        create(connection, model="instant")
        assert walk(until_end(connection))["status"] == "completed"


@pytest.mark.realtime
def test_what_is_said_meanwhile_is_answered_next(server: Server) -> None:
    with socket(server) as connection:
        create(connection, model="slow", max_output_tokens=6, instructions="Be brief.")
        made = receive(connection)["response"]["id"]
        steer = {"type": "response.steer", "previous_response_id": made, "input": "and the sea?"}
        connection.send(json.dumps(steer))
        first = until_end(connection)
        accepted = [event for event in first if event["type"] == "response.steer.accepted"]
        assert accepted[0]["steer"]["previous_response_id"] == made
        second = walk(until_end(connection))
        assert second["previous_response_id"] == made
        assert second["instructions"] == "Be brief."
        assert second["usage"]["input_tokens"] > first[-1]["response"]["usage"]["total_tokens"]
        connection.send(json.dumps(steer))
        assert receive(connection)["error"]["code"] in (
            "response_already_completed", "response_not_found",
        )  # fmt: skip


@pytest.mark.realtime
def test_a_connection_s_time_is_limited() -> None:
    with Server("--websocket-limit-s", "0.5") as server, socket(server) as connection:
        create(connection, model="slow", max_output_tokens=20)
        started = time.monotonic()
        events = until_end(connection)
        # What is under way is finished first.
        assert events[-1]["type"] == "response.incomplete"
        assert time.monotonic() - started > 0.9
        error = receive(connection)
        assert error["error"]["code"] == "websocket_connection_limit_reached"
        with pytest.raises(ConnectionClosed):
            connection.recv(PATIENCE_S)


@pytest.mark.realtime
def test_a_slow_reader_gets_everything(server: Server) -> None:
    with socket(server, max_queue=1, compression=None) as connection:
        create(connection, model="instant", paceline={"output_tokens": 30_000})
        time.sleep(0.5)
        events = [json.loads(connection.recv(PATIENCE_S))]
        while events[-1]["type"] not in LAST:
            events.append(json.loads(connection.recv(PATIENCE_S)))
        final = walk(events)
        assert final["usage"]["output_tokens"] == 30_000


def test_switched_off_an_upgrade_gets_426() -> None:
    with Server("--no-websocket") as server:
        with pytest.raises(InvalidStatus) as caught, socket(server):
            pass
        assert caught.value.response.status_code == 426
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        plain = server.ask("GET", "/v1/responses", headers=headers)
        assert plain.status == 426
        assert plain.error["code"] == "upgrade_required"
        assert server.ask("GET", "/v1/responses").status == 405
        assert server.post("/v1/responses", {"model": "instant", "input": "hi"}).status == 200


@pytest.mark.realtime
def test_its_lower_overhead_is_the_profile_s(server: Server) -> None:
    """spark-1000: a fifth of the round trip and half of the rest are left before the engine."""
    body = {"model": "spark-1000", "input": "hi", "max_output_tokens": 2}

    def overhead_ms() -> float:
        found = server.ask("GET", "/paceline/requests?limit=1").object["data"][0]
        return float(found["split_ms"]["overhead"])

    server.post("/v1/responses", body)
    over_http = overhead_ms()
    with socket(server) as connection:
        create(connection, **body)
        until_end(connection)
    assert over_http == pytest.approx(75 + 75 + 0.1, abs=2)
    assert overhead_ms() == pytest.approx(75 * 0.2 + 75 * 0.5 + 0.1 * 0.7, abs=2)


@pytest.mark.realtime
@pytest.mark.parametrize("model", ["instant", "flat-20000"])
def test_a_slow_reader_that_leaves_leaves_nothing_behind(server: Server, model: str) -> None:
    # A closing handshake would wait behind what isn't read, for as long as it may.
    leaving = {"max_queue": 1, "compression": None, "close_timeout": 0.1}
    with socket(server, **leaving) as connection:
        create(connection, model=model, paceline={"output_tokens": 100_000})
        receive(connection)
        time.sleep(0.3)

    def over() -> bool:
        records = server.ask("GET", "/paceline/requests?limit=20").object["data"]
        return all(each["state"] != "running" for each in records)

    wait_until(over, "every request is over")


def test_a_flood_of_frames_fills_no_memory(server: Server) -> None:
    """Each gets an error, many times as large, that its sender doesn't read."""
    with Wire(server, receive_buffer=4096) as wire:
        wire.socket.sendall(
            b"GET /v1/responses HTTP/1.1\r\nHost: x\r\n"
            b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: MDAwMDAwMDAwMDAwMDAwMA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert wire.head().status == 101
        before = server.rss_bytes()
        wire.socket.settimeout(2)
        with suppress(TimeoutError):
            for _ in range(40):
                wire.socket.sendall(b"\x81\x81\0\0\0\0x" * 10_000)
                assert httpx2.get(f"{server.url}/health").status_code == 200
        assert server.rss_bytes() - before < 32 << 20
        # What was asked is answered to whoever reads it.
        for _ in range(1000):
            assert b"invalid_json" in wire.until(b"}}")
    assert httpx2.get(f"{server.url}/health").status_code == 200
