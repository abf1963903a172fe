from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from paceline.core.plan import CallPlan, ChoicePlan, FinishReason, Plan, PromptPlan
from paceline.core.request import ChatPrompt, GenerationRequest
from paceline.core.request import Message as Said
from paceline.core.tools import Tool
from paceline.core.usage import Usage
from paceline.wire.anthropic.encode import MessageStream, whole_message
from paceline.wire.head import Head
from tests.wire.fakes import PROFILE, FakePieces

HEAD = Head(id="msg_1", created=1_780_000_000, model="claude-opus-4-8")
EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
ASKED = GenerationRequest("claude-opus-4-8", (ChatPrompt((Said("user", "hi"),)),))


def plan(
    texts: Sequence[str] = (),
    *,
    thoughts: Sequence[str] = (),
    calls: Sequence[tuple[int, Sequence[str]]] = (),
    finish: FinishReason = "stop",
    stop: str = "",
    effort: str | None = "none",
    tier: str = "default",
) -> Plan:
    """A plan; `effort` "none" is thinking turned off. A call is its head and its arguments."""
    choice = ChoicePlan(
        0,
        0,
        FakePieces(texts),
        finish,
        len(thoughts),
        FakePieces(thoughts) if thoughts else None,
        calls=[
            CallPlan(f"call_{i}", Tool(f"tool_{i}"), FakePieces(arguments), head)
            for i, (head, arguments) in enumerate(calls)
        ],
        stop_string=stop,
    )
    asked = GenerationRequest(ASKED.model, ASKED.prompts, reasoning_effort=effort)
    return Plan(asked, PROFILE, [PromptPlan(2000)], [choice], tier)


def usage_of(made: Plan) -> Usage:
    return Usage(2000, made.completion_tokens, 1024, 512, made.reasoning_tokens)


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The events of a stream's bytes, each of the package's own type, its framing checked."""
    assert b"\r" not in data
    parts = data.split(b"\n\n")
    assert parts.pop() == b""
    found = []
    for part in parts:
        name, body = part.split(b"\n")
        event = json.loads(body.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        if event["type"] != "ping":
            EVENT.validate_json(json.dumps(event), strict=True)
        found.append(event)
    return found


def stream(made: Plan, cuts: Sequence[int] = (), **options: Any) -> bytes:
    encoder = MessageStream(made, HEAD, **options)
    usage = usage_of(made)
    body = encoder.start()
    encoder.open(usage)
    total = made.completion_tokens
    start = 0
    for stop in (*sorted({c for c in cuts if 0 < c < total}), *([total] if total else [])):
        body += encoder.choices[0].tokens(start, stop)
        start = stop
    return body + encoder.choices[0].close() + encoder.end(usage)


def folded(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a client makes of a stream; walks its grammar on the way."""
    start, ping, *middle, delta, stop = events
    assert start["type"] == "message_start"
    assert ping == {"type": "ping"}
    assert (delta["type"], stop) == ("message_delta", {"type": "message_stop"})
    message: dict[str, Any] = start["message"]
    open_block: dict[str, Any] | None = None
    parts: list[str] = []
    signed = False
    for event in middle:
        if event["type"] == "content_block_start":
            assert open_block is None, "blocks don't overlap"
            assert event["index"] == len(message["content"])
            open_block = dict(event["content_block"])
            message["content"].append(open_block)
            parts = []
            signed = False
            continue
        assert open_block is not None, "everything else is inside a block"
        assert event["index"] == len(message["content"]) - 1
        if event["type"] == "content_block_stop":
            if open_block["type"] == "tool_use":
                open_block["input"] = json.loads("".join(parts) or "{}")
            assert signed == (open_block["type"] == "thinking")
            open_block = None
            continue
        assert event["type"] == "content_block_delta"
        assert not signed, "the signature is a thinking block's last delta"
        given = event["delta"]
        kind = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
        if given["type"] == "signature_delta":
            open_block["signature"] += given["signature"]
            signed = True
            continue
        assert given["type"] == kind[open_block["type"]]
        if open_block["type"] == "tool_use":
            parts.append(given["partial_json"])
        else:
            open_block[open_block["type"]] += given[open_block["type"]]
    assert open_block is None
    return {**message, **delta["delta"], "usage": {**message["usage"], **delta["usage"]}}


WORDS = st.lists(st.sampled_from(["Once", " upon", "", " é", ' "time"', "\n", " 🙂"]), max_size=6)
ARGUMENTS = st.sampled_from([[], ["{}"], ['{"a"', ":", ' "x', '\\n"', "}"], ['{"n": ', "1}"]])


@given(
    texts=WORDS,
    thoughts=WORDS,
    calls=st.lists(st.tuples(st.integers(1, 3), ARGUMENTS), max_size=3),
    cuts=st.lists(st.integers(0, 30), max_size=12),
    per_chunk=st.integers(1, 3),
    told=st.booleans(),
    effort=st.sampled_from([None, "none", "high"]),
)
def test_however_it_is_cut_a_stream_adds_up_to_the_message(
    *,
    texts: list[str],
    thoughts: list[str],
    calls: list[tuple[int, list[str]]],
    cuts: list[int],
    per_chunk: int,
    told: bool,
    effort: str | None,
) -> None:
    finish: FinishReason = "tool_calls" if calls else "stop"
    made = plan(texts, thoughts=thoughts, calls=calls, finish=finish, effort=effort)
    found = events_of(stream(made, cuts, tokens_per_chunk=per_chunk, show_reasoning=told))
    whole = json.loads(whole_message(made, HEAD, usage_of(made), show_reasoning=told))
    assert folded(found) == whole
    Message.model_validate_json(json.dumps(whole), strict=True)


def test_the_first_flush_opens_the_message_and_holds_the_first_token() -> None:
    made = plan(["Hello", " you"])
    encoder = MessageStream(made, HEAD)
    encoder.open(usage_of(made))
    assert encoder.start() == b""
    first = events_of(encoder.choices[0].tokens(0, 1))
    assert [e["type"] for e in first] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
    ]
    assert first[-1]["delta"] == {"type": "text_delta", "text": "Hello"}
    second = events_of(encoder.choices[0].tokens(1, 2))
    assert [e["type"] for e in second] == ["content_block_delta", "content_block_stop"]


def test_input_tokens_leave_out_what_the_cache_had_or_got() -> None:
    made = plan(["a", "b", "c"])
    found = events_of(stream(made))
    start = found[0]["message"]["usage"]
    assert start == {
        "input_tokens": 464,
        "cache_creation_input_tokens": 512,
        "cache_read_input_tokens": 1024,
        "output_tokens": 1,
        "output_tokens_details": {"thinking_tokens": 0},
        "cache_creation": {"ephemeral_5m_input_tokens": 512, "ephemeral_1h_input_tokens": 0},
        "inference_geo": None,
        "server_tool_use": None,
        "service_tier": "standard",
        "speed": "standard",
    }
    assert found[-2]["usage"] == {
        "input_tokens": 464,
        "cache_creation_input_tokens": 512,
        "cache_read_input_tokens": 1024,
        "output_tokens": 3,
        "output_tokens_details": {"thinking_tokens": 0},
    }


@pytest.mark.parametrize(
    ("finish", "stop", "reason"),
    [
        ("stop", "", "end_turn"),
        ("stop", "\n\n", "stop_sequence"),
        ("length", "", "max_tokens"),
        ("tool_calls", "", "tool_use"),
        ("content_filter", "", "refusal"),
    ],
)
def test_stop_reasons(finish: FinishReason, stop: str, reason: str) -> None:
    made = plan(["a"], finish=finish, stop=stop)
    whole = json.loads(whole_message(made, HEAD, usage_of(made)))
    assert (whole["stop_reason"], whole["stop_sequence"]) == (reason, stop or None)
    delta = events_of(stream(made))[-2]["delta"]
    assert delta == {
        "stop_reason": reason,
        "stop_sequence": stop or None,
        "stop_details": None,
    }


def test_thoughts_not_told_leave_a_signature() -> None:
    made = plan(["a"], thoughts=["x", "y"], effort="high")
    assert b"thinking_delta" not in stream(made)
    block = json.loads(whole_message(made, HEAD, usage_of(made)))["content"][0]
    assert block["thinking"] == ""
    assert len(block["signature"]) > 100


def test_the_fast_tier_is_told() -> None:
    made = plan(["a"], tier="priority")
    assert events_of(stream(made))[0]["message"]["usage"]["speed"] == "fast"


def test_a_call_that_the_limit_cut_has_no_input() -> None:
    made = plan(calls=[(2, ['{"a"', ":"])], finish="length")
    (block,) = json.loads(whole_message(made, HEAD, usage_of(made)))["content"]
    assert block == {
        "type": "tool_use",
        "id": "toolu_0",
        "name": "tool_0",
        "input": {},
        "caller": {"type": "direct"},
    }


def test_a_broken_stream_ends_with_an_error_event() -> None:
    data = MessageStream(plan(["a"]), HEAD).fail(503, "Going down.", "server_shutting_down")
    name, body = data.removesuffix(b"\n\n").split(b"\n")
    assert name == b"event: error"
    assert json.loads(body.removeprefix(b"data: ")) == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Going down."},
        "request_id": None,
    }
