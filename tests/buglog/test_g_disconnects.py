"""Clients that give up on an answer."""

from __future__ import annotations

import time

import pytest

from tests.live import CHAT, Server, Wire, chat, wait_until


@pytest.mark.realtime
def test_g07_a_client_s_timeout_leaves_no_orphan(server: Server) -> None:
    """One request at a time, and the first would take 2,000 tokens of 4 ms."""
    server.wait_idle("narrow")
    before = server.metrics()
    with Wire(server) as wire:
        wire.send("POST", CHAT, chat("narrow", ignore_eos=True, max_tokens=2000))
        wait_until(lambda: server.metrics().running("narrow") == 1, "the request runs")
        time.sleep(0.3)
    wait_until(lambda: server.metrics().running("narrow") == 0, "the slot is free again")
    start = time.monotonic()
    answer = server.post(CHAT, chat("narrow", ignore_eos=True, max_tokens=10))
    took_s = time.monotonic() - start
    assert answer.object["usage"]["completion_tokens"] == 10
    assert took_s < 1.0, "the orphan would have held the slot for 7 more seconds"
    after = server.metrics()
    name = "vllm:request_success_total"
    labels = {"model_name": "narrow"}
    assert after.since(before, name, finished_reason="abort", **labels) == 1
    assert after.since(before, name, finished_reason="length", **labels) == 1
