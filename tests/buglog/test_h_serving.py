"""Faults seen in scheduling, gauges, shutdown, and under load."""

from __future__ import annotations

import contextlib
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.live import (
    CHAT,
    COMPLETIONS,
    PATIENCE_S,
    Server,
    Wire,
    chat,
    compl,
    finishes,
    request_bytes,
    wait_until,
)

LONG = {"ignore_eos": True, "max_tokens": 2000}


@pytest.mark.realtime
def test_h01_a_stream_that_is_left_stops(server: Server) -> None:
    server.wait_idle("slow")
    with Wire(server) as wire:
        wire.send("POST", CHAT, chat("slow", stream=True, **LONG))
        wire.chunk(wire.head())
        assert server.metrics().running("slow") == 1
    start = time.monotonic()
    wait_until(lambda: server.metrics().running("slow") == 0, "the slot is free")
    # A step of this profile lasts 50 ms.
    assert time.monotonic() - start < 1.0
    name = "vllm:generation_tokens_total"
    tokens = server.metrics().value(name, model_name="slow")
    time.sleep(0.3)
    assert server.metrics().value(name, model_name="slow") == tokens


@pytest.mark.realtime
@pytest.mark.parametrize("model", ["slow", "flat-10"])
def test_h02_so_does_an_answer_that_isn_t_streamed(server: Server, model: str) -> None:
    before = server.metrics()
    with Wire(server) as wire:
        wire.send("POST", CHAT, chat(model, **LONG), {"X-Request-Id": f"h02-{model}"})

        def begun() -> bool:
            return server.ask("GET", f"/paceline/requests/h02-{model}").status == 200

        wait_until(begun, "the request has begun")
    start = time.monotonic()
    wait_until(lambda: server.record(f"h02-{model}")["state"] == "aborted", "it was dropped")
    assert time.monotonic() - start < 1.0
    server.wait_idle(model)
    after = server.metrics()
    labels = {"model_name": model, "finished_reason": "abort"}
    assert after.since(before, "vllm:request_success_total", **labels) == 1
    assert after.since(before, "vllm:generation_tokens_total", model_name=model) == 0


@pytest.mark.realtime
@pytest.mark.parametrize("stream", [True, False])
def test_h04_gauges_return_to_zero_when_all_leave(server: Server, stream: bool) -> None:
    """Twenty at once where four may run: the queue empties too."""
    server.wait_idle("slow")
    usage = "vllm:kv_cache_usage_perc"
    with contextlib.ExitStack() as stack:
        for number in range(20):
            wire = stack.enter_context(Wire(server))
            wire.send("POST", CHAT, chat("slow", f"{number}", stream=stream, **LONG))

        def all_there() -> bool:
            now = server.metrics()
            return now.running("slow") == 4 and now.waiting("slow") == 16

        wait_until(all_there, "4 run and 16 wait")
        assert server.metrics().value(usage, model_name="slow") > 0

    def nobody() -> bool:
        now = server.metrics()
        return now.running("slow") == now.waiting("slow") == 0

    wait_until(nobody, "nothing runs or waits")
    assert server.metrics().value(usage, model_name="slow") == 0


@pytest.mark.realtime
def test_h06_time_to_first_token_has_the_queue_in_it(server: Server) -> None:
    """Five requests of 50 tokens, 4 ms each, where one may run: the last waits for 0.8 s."""
    server.wait_idle("narrow")
    before = server.metrics()

    def ask(number: int) -> float:
        with Wire(server) as wire:
            start = time.monotonic()
            body = chat("narrow", f"{number}", stream=True, ignore_eos=True, max_tokens=50)
            wire.send("POST", CHAT, body)
            head = wire.head()
            wire.chunk(head)
            first_s = time.monotonic() - start
            while wire.chunk(head):
                pass
            assert finishes(head.events)
            return first_s

    with ThreadPoolExecutor(5) as pool:
        seen = sorted(pool.map(ask, range(5)))
    after = server.metrics()
    name, labels = "vllm:time_to_first_token_seconds", {"model_name": "narrow"}
    assert after.since(before, f"{name}_count", **labels) == 5
    told = after.since(before, f"{name}_sum", **labels)
    assert told == pytest.approx(sum(seen), abs=0.25)
    assert seen[-1] > 0.75
    queue = after.since(before, "vllm:request_queue_time_seconds_sum", **labels)
    # Waits of 0, 1, 2, 3 and 4 times what one answer takes.
    assert queue == pytest.approx(10 * 0.2, abs=0.3)
    prefill = after.since(before, "vllm:request_prefill_time_seconds_sum", **labels)
    assert told == pytest.approx(queue + prefill, abs=0.1)


def test_h07_cached_tokens_are_the_same_in_both_modes(server: Server) -> None:
    def usage(content: str, stream: bool) -> dict[str, Any]:
        body = chat("quick", content, max_tokens=2)
        if not stream:
            return dict(server.post(CHAT, body).object["usage"])
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        return dict(server.post(CHAT, body).events[-1]["usage"])

    for stream in (False, True):
        content = f"A prompt that nobody sent before, {stream}. " * 20
        first, again, other = usage(content, stream), usage(content, stream), None
        other = usage(content, not stream)
        assert first["prompt_tokens_details"]["cached_tokens"] == 0
        cached = again["prompt_tokens_details"]["cached_tokens"]
        assert type(cached) is int
        assert cached > 0
        assert cached % 16 == 0
        assert cached <= again["prompt_tokens"] - 1
        assert other["prompt_tokens_details"] == again["prompt_tokens_details"]


def test_h07_a_prompt_of_whole_blocks_is_never_cached_whole(server: Server) -> None:
    ids = list(range(1000, 1064))
    server.post(COMPLETIONS, compl("quick", ids, max_tokens=1))
    answer = server.post(COMPLETIONS, compl("quick", ids, max_tokens=1)).object
    assert answer["usage"]["prompt_tokens"] == 64
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 48


def test_h08_several_workers_are_refused() -> None:
    """Each would have counters of its own; so far a server is one process."""
    command = [sys.executable, "-c", "from paceline.cli import main; main()", "serve"]
    done = subprocess.run(
        [*command, "--workers", "2"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "--workers" in done.stderr
    done = subprocess.run(
        command,
        env={"PACELINE_WORKERS": "2"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "PACELINE_WORKERS: no such setting" in done.stderr


def test_h08_counters_are_those_of_all_requests(server: Server) -> None:
    before = server.metrics()
    with ThreadPoolExecutor(8) as pool:
        for answer in pool.map(lambda _: server.post(CHAT, chat("instant")), range(100)):
            assert answer.status == 200
    counts = [
        server.metrics().since(before, "vllm:request_success_total", model_name="instant")
        for _ in range(5)
    ]
    assert counts == [100] * 5


@pytest.mark.realtime
def test_h10_a_server_that_is_stopped_ends_its_streams() -> None:
    with Server("--grace-s", "0.5") as server, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(server)) for _ in range(3)]
        heads = []
        for model, wire in zip(("slow", "flat-20", "slow"), wires, strict=True):
            wire.send("POST", CHAT, chat(model, stream=True, **LONG))
            heads.append(wire.head())
            assert wire.chunk(heads[-1])
        waiting = stack.enter_context(Wire(server))
        waiting.send("POST", CHAT, chat("slow", **LONG))
        time.sleep(0.1)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        for wire, head in zip(wires, heads, strict=True):
            while wire.chunk(head):
                pass
            assert head.complete, "the body ends as chunked bodies end"
            last = head.body.split(b"\n\n")[-2]
            assert last.startswith(b'data: {"error":')
            assert b"shutting down" in last
            assert b"[DONE]" not in head.body
            assert b'"finish_reason":"' not in head.body
        answer = waiting.read()
        assert answer.status == 503
        assert answer.error["code"] == "server_shutting_down"
        output, _ = server.process.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - start < 5.0
        assert server.process.returncode in {0, -signal.SIGTERM}
        assert output == ""


@pytest.mark.realtime
def test_h10_short_answers_are_finished_in_the_time_of_grace() -> None:
    with Server("--grace-s", "10") as server, Wire(server) as wire:
        wire.send("POST", CHAT, chat("flat-20", stream=True, max_tokens=15, ignore_eos=True))
        head = wire.head()
        wire.chunk(head)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        while wire.chunk(head):
            pass
        assert finishes(head.events) == [(0, "length")]
        server.process.wait(PATIENCE_S)
        assert time.monotonic() - start < 5.0, "nothing is left to wait for"


@pytest.mark.parametrize("model", ["instant", "quick"])
def test_h12_large_bodies_are_answered(server: Server, model: str) -> None:
    """Five megabytes, five times on one connection and on connections of their own."""
    content = "the quick brown fox " * 262_144
    request = request_bytes("POST", CHAT, chat(model, content, max_tokens=1))
    assert len(request) > 5_000_000
    expected = 200 if model == "instant" else 400
    with Wire(server) as wire:
        for _ in range(5):
            wire.socket.sendall(request)
            assert wire.read().status == expected
    for _ in range(3):
        with Wire(server) as wire:
            wire.socket.sendall(request)
            assert wire.read().status == expected


def test_h12_a_body_above_the_limit_is_refused_without_a_reset() -> None:
    with Server("--max-body-bytes", "100000") as server:
        body = request_bytes("POST", CHAT, chat("instant", "x" * 5_000_000))
        for _ in range(5):
            with Wire(server) as wire:
                wire.socket.sendall(body)
                answer = wire.read()
                assert answer.status == 413
                assert answer.error["code"] == "request_too_large"
                wire.send("GET", "/health")
                assert wire.read().status == 200


@pytest.mark.realtime
def test_h14_every_request_is_answered(server: Server) -> None:
    """500 requests, a third of them streams, in about two seconds."""
    for model in ("quick", "uneven"):
        server.wait_idle(model)

    def ask(number: int) -> tuple[int, int]:
        time.sleep(max(0.0, start + number / 250 - time.monotonic()))
        model = "uneven" if number % 2 else "quick"
        body = chat(model, f"Question {number}", max_tokens=20, ignore_eos=True)
        if number % 3:
            answer = server.post(CHAT, body)
            return answer.status, answer.object["usage"]["completion_tokens"]
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        answer = server.post(CHAT, body)
        return answer.status, answer.events[-1]["usage"]["completion_tokens"]

    before = server.metrics()
    start = time.monotonic()
    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(ask, range(500)))
    assert answers == [(200, 20)] * 500
    for model in ("quick", "uneven"):
        server.wait_idle(model)
        done = server.metrics().since(before, "vllm:request_success_total", model_name=model)
        assert done == 250
    assert statistics.mean(tokens for _, tokens in answers) == 20
