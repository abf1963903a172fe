"""Limits, quotas, answers that break and streams that are cut, as clients meet them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from paceline.client.sse import DONE, SseParser
from tests.live import CHAT, COMPLETIONS, Server, chat, compl, contents

RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"


@pytest.fixture(scope="module")
def limited() -> Iterator[Server]:
    """Thirty requests a minute: one in two seconds once the first thirty are spent."""
    with Server("--rpm", "30") as running:
        yield running


def spend(server: Server, key: str) -> tuple[Any, float]:
    """Ask until the limit says no; the refusal, and when it came."""
    for _ in range(100):
        answer = server.post(CHAT, chat("instant", max_tokens=1), {"Authorization": key})
        if answer.status != 200:
            return answer, time.monotonic()
    raise AssertionError("a hundred requests and no limit")


@pytest.mark.realtime
def test_g03_a_429_tells_the_real_wait(limited: Server) -> None:
    key = "Bearer wait"
    refused, at_s = spend(limited, key)
    assert refused.status == 429
    error = refused.error
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert "Limit 30, Used 30, Requested 1. Please try again in " in error["message"]
    seconds, ms = refused.header("retry-after"), refused.header("retry-after-ms")
    assert seconds is not None
    assert ms is not None
    assert seconds.isdigit()
    assert 0 < int(ms) <= int(seconds) * 1000 <= 2000
    while (left_s := at_s + int(ms) / 1000 - time.monotonic()) > 0:
        time.sleep(left_s)
    assert limited.post(CHAT, chat("instant", max_tokens=1), {"Authorization": key}).status == 200


@pytest.mark.realtime
def test_g03_the_openai_client_waits_as_told_and_succeeds(limited: Server) -> None:
    client = limited.openai(max_retries=1)
    key = f"Bearer {client.api_key}"
    spend(limited, key)
    raw = client.chat.completions.with_raw_response.create(
        model="instant", messages=[{"role": "user", "content": "x"}], max_tokens=1
    )
    # By itself it would have come back after half a second, and been refused again.
    assert raw.retries_taken == 1
    assert raw.parse().usage.completion_tokens == 1  # type: ignore[union-attr]  # usage is there


@pytest.mark.realtime
def test_g03_anthropic_s_client_too(limited: Server) -> None:
    """The limit is the key's, however it is sent and whatever the dialect."""
    client = anthropic.Anthropic(base_url=limited.url, api_key="messages", max_retries=1)
    spend(limited, "Bearer messages")
    raw = client.messages.with_raw_response.create(
        model="instant", max_tokens=1, messages=[{"role": "user", "content": "x"}]
    )
    assert raw.retries_taken == 1
    assert raw.status_code == 200
    client.close()


@pytest.mark.realtime
def test_g03_keys_and_models_have_their_own(limited: Server) -> None:
    spend(limited, "Bearer one")
    body = chat("instant", max_tokens=1)
    assert limited.post(CHAT, body, {"Authorization": "Bearer two"}).status == 200
    other = limited.post(CHAT, chat("quick", max_tokens=1), {"Authorization": "Bearer one"})
    assert other.status == 200
    assert other.header("x-ratelimit-limit-requests") == "30"
    assert other.header("x-ratelimit-remaining-requests") == "29"
    reset = other.header("x-ratelimit-reset-requests") or ""
    assert 0 < float(reset.removesuffix("s").replace("m", "e-3")) <= 2
    assert other.header("x-ratelimit-limit-tokens") is None


@pytest.mark.parametrize("stream", [True, False])
def test_g05_without_credit(server: Server, stream: bool) -> None:
    fault = {"X-Paceline-Fault": "error:insufficient_quota"}
    for path, body in (
        (CHAT, chat("quick", stream=stream)),
        (COMPLETIONS, compl("quick", stream=stream)),
        (RESPONSES, {"model": "quick", "input": "x", "stream": stream}),
    ):
        answer = server.post(path, body, fault)
        assert answer.status == 429
        assert answer.error["type"] == answer.error["code"] == "insufficient_quota"
        assert answer.header("retry-after") is None
        assert answer.header("retry-after-ms") is None
    with pytest.raises(openai.RateLimitError) as caught:
        server.openai().chat.completions.create(
            model="quick",
            messages=[{"role": "user", "content": "x"}],
            stream=stream,
            extra_headers=fault,
        )
    assert caught.value.code == "insufficient_quota"


def failing(path: str) -> dict[str, Any]:
    """A stream of ten tokens that fails after three."""
    own = {"output_tokens": 10, "reasoning_tokens": 0, "fault": "fail_after:3"}
    common: dict[str, Any] = {"model": "quick", "stream": True, "paceline": own}
    if path == COMPLETIONS:
        return {**common, "prompt": "x", "max_tokens": 100}
    if path == RESPONSES:
        return {**common, "input": "x"}
    return {**common, "messages": [{"role": "user", "content": "x"}], "max_tokens": 100}


def parsed(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in SseParser().feed(body)]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_g01_a_failure_in_the_middle_of_a_stream(server: Server, path: str) -> None:
    answer = server.post(path, failing(path))
    assert answer.status == 200
    assert answer.complete
    assert DONE.encode() not in answer.body
    *chunks, last = parsed(answer.body)
    assert set(last) == {"error"}
    assert last["error"]["code"] == last["error"]["type"] == "server_error"
    said = [c["choices"][0] for c in chunks]
    assert sum(bool(c.get("text") or c.get("delta", {}).get("content")) for c in said) == 3
    assert all(c["finish_reason"] is None for c in said)
    record = server.record(answer.header("x-request-id") or "")
    assert record["state"] == "failed"


def test_g01_responses_says_failed(server: Server) -> None:
    answer = server.post(RESPONSES, failing(RESPONSES))
    assert answer.complete
    events = parsed(answer.body)
    assert [e["type"] for e in events].count("response.output_text.delta") == 3
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["status"] == "failed"
    assert events[-1]["response"]["error"]["code"] == "server_error"
    assert [e["sequence_number"] for e in events] == list(range(len(events)))


def test_g01_messages_says_error(server: Server) -> None:
    answer = server.post(MESSAGES, failing(MESSAGES))
    assert answer.complete
    events = parsed(answer.body)
    types = [e["type"] for e in events]
    assert types.count("content_block_delta") == 3
    assert types[-1] == "error"
    assert "message_stop" not in types
    assert "message_delta" not in types
    assert events[-1]["error"]["type"] == "api_error"


def test_g01_the_openai_client_raises(server: Server) -> None:
    body = failing(CHAT)
    chunks = iter(
        server.openai().chat.completions.create(
            model="quick",
            messages=body["messages"],
            stream=True,
            extra_body={"paceline": body["paceline"]},
        )
    )
    said = 0
    while said < 3:
        said += bool(next(chunks).choices[0].delta.content)
    with pytest.raises(openai.APIError) as caught:
        next(chunks)
    assert caught.value.code == "server_error"


EMOJI = "日本 👩‍🚀 café 🇩🇪 — “so”, ½ ≠ ⅓; \r\n\t end 🧑🏽‍🔬."


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_b03_a_stream_cut_anywhere_says_the_same(server: Server, seed: int, most: int) -> None:
    fault = {"name": "slice", "max_bytes": most, "seed": seed}
    body = chat("instant", EMOJI, stream=True, paceline={"mode": "echo", "fault": fault})
    answer = server.post(CHAT, body)
    assert contents(answer.events) == EMOJI
    pieces = [data for _, data in answer.arrivals]
    assert max(map(len, pieces)) == most
    assert any(piece[0] & 0xC0 == 0x80 for piece in pieces), "no cut inside a character"
    parser = SseParser()
    events = [event.data for piece in pieces for event in parser.feed(piece)]
    assert events.pop() == DONE
    assert contents([json.loads(data) for data in events]) == EMOJI
    again = server.post(CHAT, body)
    assert [len(data) for _, data in again.arrivals[:50]] == [len(d) for d in pieces[:50]]


def test_b03_the_openai_client_reads_it(server: Server) -> None:
    stream = server.openai().chat.completions.create(
        model="instant",
        messages=[{"role": "user", "content": EMOJI}],
        stream=True,
        extra_headers={"X-Paceline-Mode": "echo", "X-Paceline-Fault": "slice:3"},
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == EMOJI
