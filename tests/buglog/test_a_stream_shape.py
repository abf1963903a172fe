"""Faults seen in the shape of chat streams."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

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
)

REASONS = {"stop", "length", "tool_calls", "content_filter", "function_call"}
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}


def deltas(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


def test_a01_no_usage_chunk_unless_asked(server: Server) -> None:
    chunks = server.post(CHAT, chat("quick", stream=True)).events
    assert chunks
    for chunk in chunks:
        assert chunk["choices"]
        assert chunk.get("usage") is None
    # Options that don't ask for it are no reason either.
    body = chat("quick", stream=True, stream_options={"include_usage": False})
    assert all(c["choices"] and c.get("usage") is None for c in server.post(CHAT, body).events)


def test_a02_usage_chunk_when_asked(server: Server) -> None:
    chunks = server.post(CHAT, chat("quick", max_tokens=20, **WITH_USAGE)).events
    with_usage = [chunk for chunk in chunks if chunk["usage"] is not None]
    assert with_usage == chunks[-1:]
    assert chunks[-1]["choices"] == []
    assert chunks[-2]["choices"][0]["finish_reason"] in REASONS
    usage = chunks[-1]["usage"]
    assert 1 <= usage["completion_tokens"] <= 20
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    ChatCompletionChunk.model_validate(chunks[-1], strict=True)


def test_a04_one_usage_chunk_after_both_choices(server: Server) -> None:
    chunks = server.post(CHAT, chat("quick", n=2, **WITH_USAGE)).events
    ends = finishes(chunks)
    assert sorted(index for index, _ in ends) == [0, 1]
    assert [chunk for chunk in chunks if chunk["usage"] is not None] == chunks[-1:]
    assert chunks[-1]["choices"] == []


def test_a05_streamed_usage_sums_the_choices(server: Server) -> None:
    fields = {"n": 2, "max_tokens": 7, "ignore_eos": True, "seed": 5}
    streamed = server.post(CHAT, chat("quick", **fields, **WITH_USAGE)).events[-1]["usage"]
    whole = server.post(CHAT, chat("quick", **fields)).object["usage"]
    assert streamed["completion_tokens"] == 14
    # What was found in the prompt cache may differ from one request to the next.
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [streamed[key] for key in counts] == [whole[key] for key in counts]


@pytest.mark.realtime
def test_a06_one_identity_however_long_it_takes(server: Server) -> None:
    body = chat("flat-20", stream=True, n=2, max_tokens=45, ignore_eos=True)
    start = time.monotonic()
    chunks = server.post(CHAT, body).events
    assert time.monotonic() - start > 2.0
    keys = ("id", "created", "model", "object", "system_fingerprint")
    assert len({tuple(chunk[key] for key in keys) for chunk in chunks}) == 1
    assert {choice["index"] for chunk in chunks for choice in chunk["choices"]} == {0, 1}


@pytest.mark.parametrize(
    ("path", "body", "prefix"),
    [(CHAT, chat("instant"), "chatcmpl-"), (COMPLETIONS, compl("instant"), "cmpl-")],
)
def test_a08_ids_are_there_and_unique(
    server: Server, path: str, body: dict[str, Any], prefix: str
) -> None:
    ids = [server.post(path, body).object["id"] for _ in range(20)]
    ids += [server.post(path, {**body, "stream": True}).events[0]["id"] for _ in range(20)]
    assert len(set(ids)) == 40
    assert all(found.startswith(prefix) and len(found) > len(prefix) for found in ids)


@pytest.mark.parametrize("fields", [{}, {"logprobs": True}, {"n": 2}])
def test_a09_a10_finish_reason_is_null_until_the_end(
    server: Server, fields: dict[str, Any]
) -> None:
    chunks = server.post(CHAT, chat("quick", stream=True, **fields)).events
    ended: set[int] = set()
    for chunk in chunks:
        for choice in chunk["choices"]:
            reason = choice["finish_reason"]
            assert choice["index"] not in ended
            assert reason is None or reason in REASONS
            if reason is not None:
                ended.add(choice["index"])
    assert len(ended) == fields.get("n", 1)


def test_a10_absent_keys_are_left_out(server: Server) -> None:
    answer = server.post(CHAT, chat("quick", stream=True))
    assert b'"None"' not in answer.body
    found = deltas(answer.events)
    assert found[0]["role"] == "assistant"
    assert all("role" not in delta for delta in found[1:])
    assert all(delta.get("content", "") is not None for delta in found)


def test_a12_no_tool_calls_key_without_tools(server: Server) -> None:
    for delta in deltas(server.post(CHAT, chat("quick", stream=True)).events):
        assert "tool_calls" not in delta
        assert "function_call" not in delta


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": 3},
        {"max_tokens": 1},
        {"stop": "e"},
        {"paceline": {"output_tokens": 0}},
        {"paceline": {"reasoning_tokens": 5}, "max_tokens": 5},
        {"logprobs": True, "stop": " "},
    ],
)
@pytest.mark.parametrize("model", ["quick", "instant", "flat-500"])
def test_a13_one_finish_chunk_for_each_choice(
    server: Server, model: str, fields: dict[str, Any]
) -> None:
    chunks = server.post(CHAT, chat(model, stream=True, **fields)).events
    n = fields.get("n", 1)
    ends = finishes(chunks)
    assert sorted(index for index, _ in ends) == list(range(n))
    assert finishes(chunks[-1:])


@pytest.mark.parametrize("model", ["quick", "instant"])
def test_a15_logprobs_and_finish_reason_together(server: Server, model: str) -> None:
    body = chat(model, stream=True, logprobs=True, top_logprobs=1, max_tokens=3)
    chunks = server.post(CHAT, body).events
    assert finishes(chunks) == [(0, "length")]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    spoken = [
        chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["delta"].get("content")
    ]
    assert [len(choice["logprobs"]["content"]) for choice in spoken] == [1, 1, 1]
    for choice in spoken:
        (entry,) = choice["logprobs"]["content"]
        assert entry["token"] == choice["delta"]["content"]
        assert len(entry["top_logprobs"]) == 1


@pytest.mark.parametrize("fields", [{}, {"max_tokens": 1}, {"stop": "e"}, {"n": 4}])
def test_a16_finish_reasons_are_the_five_literals(server: Server, fields: dict[str, Any]) -> None:
    for body in (chat("quick", **fields), chat("quick", stream=True, **fields)):
        answer = server.post(CHAT, body)
        if body.get("stream"):
            found = {reason for _, reason in finishes(answer.events)}
        else:
            found = {choice["finish_reason"] for choice in answer.object["choices"]}
        assert found
        assert found <= REASONS


def test_a17_not_streamed_by_default(server: Server) -> None:
    for body in (chat("quick"), chat("quick", stream=None), chat("quick", stream=False)):
        answer = server.post(CHAT, body)
        assert answer.status == 200
        assert answer.header("content-type") == "application/json"
        assert answer.object["object"] == "chat.completion"
        ChatCompletion.model_validate_json(answer.body, strict=True)


@pytest.mark.realtime
def test_a19_tokens_come_one_by_one(server: Server) -> None:
    """64 tokens at 100 a second: 630 ms of them, the first one 100 ms after the request."""
    body = chat(
        "flat-100", stream=True, max_tokens=64, ignore_eos=True, paceline={"ttft_ms": 100.0}
    )
    with Wire(server) as wire:
        start = time.monotonic()
        wire.send("POST", CHAT, body)
        answer = wire.read()
    times = [at - start for at, _ in answer.arrivals]
    assert 0.1 <= times[0] < 0.3
    assert 0.6 <= times[-1] - times[0] < 1.2
    assert len(times) > 40, "tokens that are 10 ms apart don't come together"
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert sorted(gaps)[len(gaps) // 2] == pytest.approx(0.01, abs=0.004)
    assert max(gaps) < 0.15
    assert len(answer.events) == 66


@pytest.mark.realtime
def test_a20_no_byte_before_the_prefill_has_ended(server: Server) -> None:
    """Some 300 prompt tokens at a millisecond each."""
    body = chat("reader", "word " * 300, stream=True, max_tokens=3)
    with Wire(server) as wire:
        start = time.monotonic()
        wire.send("POST", CHAT, body)
        head = wire.head()
        first_header_s = time.monotonic() - start
        first = wire.chunk(head)
        first_byte_s = time.monotonic() - start
    assert head.status == 200
    assert first_header_s > 0.3
    assert first_byte_s - first_header_s < 0.1
    # The chunk that names the role and the first token leave in one piece.
    assert first.count(b"data: ") == 2
    assert b'"role":"assistant"' in first.split(b"\n\n")[0]
    assert b'"content":"' in first.split(b"\n\n")[1]


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("limit", [None, 5])
def test_a21_the_first_token_of_any_channel_counts(
    server: Server, shown: bool, limit: int | None
) -> None:
    """Twenty tokens of thought, 5 ms each, come first; with a limit of 5 nothing else comes."""
    before = server.metrics()
    body = chat("thinker", include_reasoning=shown, max_tokens=limit, **WITH_USAGE)
    answer = server.post(CHAT, body)
    after = server.metrics()
    usage = answer.events[-1]["usage"]
    thought = "".join(d.get("reasoning_content") or "" for d in deltas(answer.events))
    assert bool(thought) == shown
    assert usage["completion_tokens_details"]["reasoning_tokens"] == (limit or 20)
    if limit is not None:
        assert usage["completion_tokens"] == limit
        assert contents(answer.events) == ""
        assert finishes(answer.events) == [(0, "length")]
    name = "vllm:time_to_first_token_seconds"
    assert after.since(before, f"{name}_count", model_name="thinker") == 1
    ttft_s = after.since(before, f"{name}_sum", model_name="thinker")
    record = server.record(answer.header("x-request-id") or "")
    times = record["times_ms"]
    assert ttft_s * 1000 == pytest.approx(times["first_token_left"], abs=0.01)
    assert times["first_token_left"] < times["last_token_due"]


def test_a22_chunks_are_not_tokens(server: Server) -> None:
    usages, texts, counts = [], [], []
    body = chat("instant", seed=3, max_tokens=21, ignore_eos=True, **WITH_USAGE)
    answers = [server.post(CHAT, body).events]
    for k in (2, 4, 8):
        with Server("--tokens-per-chunk", str(k)) as other:
            answers.append(other.post(CHAT, body).events)
    for chunks in answers:
        usages.append(chunks[-1]["usage"])
        texts.append(contents(chunks))
        counts.append(sum(bool(delta.get("content")) for delta in deltas(chunks)))
    assert usages == [usages[0]] * 4
    assert usages[0]["completion_tokens"] == 21
    assert texts == [texts[0]] * 4
    assert counts == [21, 11, 6, 3]


def test_a24_the_body_ends_after_done_and_the_connection_stays(server: Server) -> None:
    with Wire(server) as wire:
        for model in ("quick", "instant", "flat-1000"):
            wire.send("POST", CHAT, chat(model, stream=True, max_tokens=5))
            answer = wire.read()
            assert answer.complete
            assert answer.header("connection") is None
            assert finishes(answer.events)
        wire.send("POST", CHAT, chat("quick", max_tokens=5))
        assert content_of(wire.read().object)
