"""Streams that call tools: whatever the flushes, they add up to the whole answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from paceline.core.plan import CallPlan, ChoicePlan
from paceline.core.tools import Tool, ToolChoice
from paceline.wire.chat_encode import ChatStream, whole_chat
from paceline.wire.chat_tools import LEGACY
from tests.wire import fakes
from tests.wire.fakes import HEAD, FakePieces

FUNCTION, CUSTOM = Tool("get_x"), Tool("note", "custom", type="custom")
OLD = Tool("get_x", type=LEGACY)


def calling(
    texts: list[str], *calls: tuple[Tool, list[str], int], hidden: int = 0, index: int = 0
) -> ChoicePlan:
    made = fakes.choice(texts, index=index, finish="tool_calls", reasoning=["r"] * hidden)
    made.calls = [
        CallPlan(f"call_{index}_{at}", tool, FakePieces(pieces), head)
        for at, (tool, pieces, head) in enumerate(calls)
    ]
    return made


def folded(events: list[dict[str, Any]], index: int) -> dict[str, Any]:
    """One choice's message, put together as a client does it."""
    content: str | None = None
    calls: list[dict[str, Any]] = []
    old: dict[str, str] | None = None
    finish = None
    for event in events:
        for choice in event["choices"]:
            if choice["index"] != index:
                continue
            assert finish is None
            delta = choice["delta"]
            if delta.get("content") is not None:
                content = (content or "") + delta["content"]
            for part in delta.get("tool_calls", ()):
                if part["index"] == len(calls):
                    assert part["id"]
                    calls.append({k: v for k, v in part.items() if k != "index"})
                    continue
                inside = next(k for k in ("function", "custom") if k in part)
                payload = "arguments" if inside == "function" else "input"
                assert part.keys() == {"index", inside}
                calls[part["index"]][inside][payload] += part[inside][payload]
            if "function_call" in delta:
                if old is None:
                    old = dict(delta["function_call"])
                else:
                    old["arguments"] += delta["function_call"]["arguments"]
            finish = choice["finish_reason"]
    return {"content": content, "calls": calls, "old": old, "finish": finish}


def whole(made: Any) -> list[dict[str, Any]]:
    answer = json.loads(whole_chat(made, HEAD, fakes.usage_of(made)))
    ChatCompletion.model_validate(answer)
    found = []
    for choice in answer["choices"]:
        message = choice["message"]
        calls = [
            # A stream of a custom tool's call has no type.
            {k: v for k, v in call.items() if (k, v) != ("type", "custom")}
            for call in message.get("tool_calls", ())
        ]
        found.append(
            {
                "content": message["content"],
                "calls": calls,
                "old": message.get("function_call"),
                "finish": choice["finish_reason"],
            }
        )
    return found


PIECES = st.lists(st.sampled_from(['{"a"', ":", ' "é', "", "}", "\n", '\\"']), max_size=6)
CALLS = st.tuples(st.sampled_from([FUNCTION, CUSTOM]), PIECES, st.integers(1, 3))


@settings(max_examples=300)
@given(
    texts=st.lists(st.sampled_from(["a", " b", "", "é"]), max_size=4),
    calls=st.lists(CALLS, min_size=1, max_size=3),
    hidden=st.integers(0, 3),
    per_event=st.integers(1, 3),
    cuts=st.lists(st.integers(0, 40), max_size=8),
    running=st.booleans(),
    two=st.booleans(),
)
def test_a_stream_adds_up_to_the_whole(
    *,
    texts: list[str],
    calls: list[Any],
    hidden: int,
    per_event: int,
    cuts: list[int],
    running: bool,
    two: bool,
) -> None:
    choices = [calling(texts, *calls, hidden=hidden)]
    if two:
        choices.append(calling([], (FUNCTION, ["{}"], 1), index=1))
    made = fakes.plan(*choices, stream=True, include_usage=True, continuous_usage=running)
    stream = ChatStream(made, HEAD, tokens_per_chunk=per_event)
    events = fakes.events(fakes.stream_bytes(stream, made, [cuts, cuts]))
    for event in events:
        ChatCompletionChunk.model_validate(event)
    for choice, expected in zip(choices, whole(made), strict=True):
        got = folded(events, choice.index)
        if not any(texts) and len(choice.pieces):
            # Tokens that release no text: the role's chunk has said the empty string.
            expected["content"] = got["content"] = ""
        assert got == expected
    if running:
        counts = [e["usage"]["completion_tokens"] for e in events]
        assert counts == sorted(counts)
        assert counts[-1] == made.completion_tokens


def test_the_role_comes_first_and_content_is_null_where_there_is_none() -> None:
    made = fakes.plan(calling([], (FUNCTION, ["{}"], 2)))
    events = fakes.events(fakes.stream_bytes(ChatStream(made, HEAD), made, [[1, 2]]))
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas[0] == {"role": "assistant", "content": None, "refusal": None}
    assert deltas[1] == {
        "tool_calls": [
            {
                "index": 0,
                "id": "call_0_0",
                "type": "function",
                "function": {"name": "get_x", "arguments": ""},
            }
        ]
    }
    assert deltas[2] == {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    assert deltas[3] == {}


def test_nothing_leaves_before_a_call_has_a_name() -> None:
    made = fakes.plan(calling([], (FUNCTION, ["{}"], 3)))
    (encoder,) = ChatStream(made, HEAD).choices
    assert encoder.tokens(0, 1) == encoder.tokens(1, 2) == b""
    assert b"get_x" in encoder.tokens(2, 3)


@pytest.mark.parametrize(
    ("tool", "choice", "finish"),
    [
        (FUNCTION, ToolChoice(), "tool_calls"),
        (FUNCTION, ToolChoice("required"), "tool_calls"),
        (FUNCTION, ToolChoice("named", ("get_x",)), "stop"),
        (OLD, ToolChoice(), "function_call"),
        (OLD, ToolChoice("named", ("get_x",)), "stop"),
    ],
)
def test_finish_reasons(tool: Tool, choice: ToolChoice, finish: str) -> None:
    made = fakes.plan(calling([], (tool, ["{", "}"], 1)), tool_choice=choice)
    (answer,) = whole(made)
    events = fakes.events(fakes.stream_bytes(ChatStream(made, HEAD), made))
    assert folded(events, 0) == answer
    assert answer["finish"] == finish
    if tool is OLD:
        assert answer["old"] == {"name": "get_x", "arguments": "{}"}
        assert answer["calls"] == []


def test_a_call_cut_before_its_end_still_says_length() -> None:
    choice = calling([], (FUNCTION, ["{"], 1))
    choice.finish_reason = "length"
    (answer,) = whole(fakes.plan(choice))
    assert answer["finish"] == "length"
