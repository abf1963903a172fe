"""Readers that are slow, gone, in a hurry, or many."""

from __future__ import annotations

import contextlib
import json
import time

import pytest

from tests.live import (
    CHAT,
    COMPLETIONS,
    Server,
    Wire,
    chat,
    compl,
    content_of,
    contents,
    finishes,
    request_bytes,
    wait_until,
)

MB = 1 << 20


@pytest.mark.realtime
@pytest.mark.parametrize("model", ["instant", "flat-50000", "quick"])
def test_a_reader_that_stops_reading_costs_only_itself(server: Server, model: str) -> None:
    """Ten answers of some 5 MB that nobody reads; then one is read to its end."""
    tokens = 2000 if model == "quick" else 20_000
    body = chat(model, stream=True, max_tokens=tokens, ignore_eos=True, seed=1)
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server, receive_buffer=4096)) for _ in range(10)]
        before = server.rss_bytes()
        for wire in wires:
            wire.send("POST", CHAT, body)
        time.sleep(0.7)
        assert server.rss_bytes() - before < 16 * MB
        start = time.monotonic()
        quick = server.post(CHAT, chat("quick", stream=True, max_tokens=50))
        assert finishes(quick.events)
        assert time.monotonic() - start < 1.0
        record = server.record(quick.header("x-request-id") or "")
        assert record["split_ms"]["lateness"] < 200
        answer = wires[0].read()
        assert len(answer.events) == tokens + 2
        assert finishes(answer.events) == [(0, "length")]
    wait_until(lambda: server.metrics().running(model) == 0, "those that left are gone")


@pytest.mark.realtime
def test_a_slow_reader_gets_every_token_late(server: Server) -> None:
    """Half a second behind, then as fast as it reads: the same text as anybody's."""
    body = chat("flat-20000", stream=True, max_tokens=20_000, ignore_eos=True, seed=9)
    with Wire(server, receive_buffer=4096) as wire:
        wire.send("POST", CHAT, body, {"X-Request-Id": "slow-reader"})
        head = wire.head()
        for _ in range(3):
            wire.chunk(head)
        time.sleep(1.5)
        assert server.record("slow-reader")["state"] == "running"
        while wire.chunk(head):
            pass
    assert contents(head.events) == contents(server.post(CHAT, body).events)
    record = server.record("slow-reader")
    assert record["state"] == "finished"
    assert record["split_ms"]["lateness"] > 200


def test_requests_in_a_row_on_one_connection(server: Server) -> None:
    """All sent before the first is answered; answered in their order."""
    bodies = [
        request_bytes("POST", CHAT, chat("flat-200", stream=True, max_tokens=5)),
        request_bytes("POST", CHAT, chat("quick", "echo me", paceline={"mode": "echo"})),
        request_bytes("GET", "/health"),
        request_bytes("POST", CHAT, chat("nope")),
        request_bytes("POST", COMPLETIONS, compl("instant", stream=True, max_tokens=3)),
        request_bytes("GET", "/v1/models/quick"),
    ]
    with Wire(server) as wire:
        wire.socket.sendall(b"".join(bodies))
        assert finishes(wire.read().events)
        assert content_of(wire.read().object) == "echo me"
        assert wire.read().object == {"status": "ok"}
        assert wire.read().error["code"] == "model_not_found"
        assert len(wire.read().events) == 4
        assert wire.read().object["id"] == "quick"


@pytest.mark.realtime
def test_streams_cut_again_and_again_leave_nothing_behind(server: Server) -> None:
    """Twenty at once, thirty times, streamed and not, on clocks of their own and on an engine."""
    models = ("slow", "flat-200", "quick", "uneven")
    for model in models:
        server.wait_idle(model)

    def round_of(number: int) -> None:
        with contextlib.ExitStack() as stack:
            for i in range(20):
                wire = stack.enter_context(Wire(server))
                body = chat(models[i % 4], f"{i}", stream=i % 3 > 0, max_tokens=1500)
                wire.send("POST", CHAT, body, {"X-Request-Id": f"cut-{i}"})
            if number % 3:
                time.sleep(0.02)

    def settled() -> bool:
        now = server.metrics()
        return not any(now.running(m) or now.waiting(m) for m in models)

    for number in range(5):
        round_of(number)
    wait_until(settled, "nothing runs or waits")
    before = server.metrics()
    for number in range(30):
        round_of(number)
    wait_until(settled, "nothing runs or waits")
    after = server.metrics()
    for model in models:
        assert after.value("vllm:kv_cache_usage_perc", model_name=model) == 0
    memory = after.since(before, "process_resident_memory_bytes")
    assert memory < 8 * MB, f"{memory / MB:.1f} MB more after 600 streams"
    assert after.value("process_open_fds") <= before.value("process_open_fds") + 2
    ended = sum(after.since(before, "vllm:request_success_total", model_name=m) for m in models)
    refused = after.since(before, "paceline_requests_total", status="499")
    assert ended + refused == 600


def test_many_connections_that_say_nothing(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(Wire(server))
        assert server.post(CHAT, chat("quick")).status == 200


OFFER = {
    "Connection": "Upgrade, HTTP2-Settings",
    "Upgrade": "h2c",
    "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
}
"""What Java's own HTTP client sends with each first request over plain HTTP."""


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("pieces", [1, 3, 40])
def test_an_offer_of_http2_is_passed_over(server: Server, *, chunked: bool, pieces: int) -> None:
    body = json.dumps(chat("instant", max_tokens=3)).encode()
    headers = {**OFFER, "Transfer-Encoding": "chunked"} if chunked else OFFER
    length = "" if chunked else f"Content-Length: {len(body)}\r\n"
    named = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    sent = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\n{length}{named}\r\n".encode()
    sent += b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    with Wire(server) as wire:
        for _ in range(3):
            size = len(sent) // pieces + 1
            for at in range(0, len(sent), size):
                wire.socket.sendall(sent[at : at + size])
                time.sleep(0.002 if pieces > 1 else 0)
            answer = wire.read()
            assert answer.status == 200, answer.text
            assert answer.object["usage"]["completion_tokens"] == 3
        # Many at once, and one without.
        wire.socket.sendall(sent * 3 + request_bytes("POST", CHAT, chat("instant", max_tokens=2)))
        assert [wire.read().status for _ in range(4)] == [200] * 4
        wire.send("GET", "/health", None, OFFER)
        assert wire.read().status == 200


def test_a_flood_of_requests_fills_no_memory(server: Server) -> None:
    """Many in a row on one connection, whose answers nobody reads."""
    request = request_bytes("GET", "/v1/models")
    with Wire(server, receive_buffer=4096) as wire:
        before = server.rss_bytes()
        wire.socket.settimeout(1.5)
        with contextlib.suppress(TimeoutError):
            for _ in range(500):
                wire.socket.sendall(request * 500)
        assert server.rss_bytes() - before < 64 * MB
        # They are answered to whoever reads.
        assert [wire.read().status for _ in range(300)] == [200] * 300


def test_who_leaves_with_requests_that_wait_ends_the_one_under_way(server: Server) -> None:
    body = chat("gpu-40", stream=True, max_tokens=2000, ignore_eos=True)
    with Wire(server) as wire:
        wire.socket.sendall(request_bytes("POST", CHAT, body) * 3)
        assert wire.head().status == 200
        assert server.metrics().running("gpu-40") == 1
    server.wait_idle("gpu-40")
