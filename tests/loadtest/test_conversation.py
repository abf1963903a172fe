"""A loop's requests as a real server takes them: exact tokens in, exact tokens out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from time import perf_counter, time_ns
from typing import Any

import pytest

from paceline_loadtest.caller import Reply, ToolCall
from paceline_loadtest.conversation import Conversation
from paceline_loadtest.lean import LeanClient
from paceline_loadtest.model import DIALECTS, Call, Dialect, Loop, Target, ToolRun, Turn
from paceline_loadtest.prompts import prompt_tokens
from tests.live import Server

EVERY = pytest.mark.parametrize("dialect", DIALECTS)


def loop_of(system: int = 120, defined: int = 3, reasoning: int = 20) -> Loop:
    a, b = ToolRun("a", 0, 40), ToolRun("b", 0, 60)
    turns = (
        Turn(50, reasoning, 30, (a, b)),
        Turn(0, 0, 25, (a,)),
        Turn(7, reasoning, 10),
        Turn(3, 5, 12, (a,)),
        Turn(5, 0, 9),
    )
    return Loop("7", system, defined, 80, turns, seed=7)


async def play(
    server: Server, loop: Loop, dialect: Dialect, *, stream: bool = True, salt: str = ""
) -> list[Call]:
    client = LeanClient(f"{server.url}/v1", "key")
    target = Target("t", "", "quick")
    conversation = Conversation(
        loop, target, dialect, stream=stream, salt=salt or f"{time_ns()}", thread=dialect
    )
    calls = []
    for _ in loop.turns:
        call = Call(perf_counter())
        conversation.answer(await client.call(conversation.ask(), call))
        assert call.error is None
        calls.append(call)
    await client.aclose()
    return calls


@EVERY
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "loop", [loop_of(), loop_of(0, 0, 0), loop_of(system=0)], ids=["all", "bare", "no system"]
)
async def test_tokens_are_exactly_the_loop_s(
    server: Server, dialect: Dialect, stream: bool, loop: Loop
) -> None:
    calls = await play(server, loop, dialect, stream=stream)
    for number, (call, told) in enumerate(zip(calls, prompt_tokens(loop, dialect), strict=True)):
        assert call.prompt_tokens is not None
        if dialect.startswith("responses"):
            assert call.prompt_tokens == told
        # An answer's full stop and the line end before its calls may be one token.
        assert told - number <= call.prompt_tokens <= told
    assert [(c.output_tokens, c.reasoning_tokens) for c in calls] == [
        (t.output_tokens + t.reasoning_tokens, t.reasoning_tokens) for t in loop.turns
    ]
    assert all(call.chunk_at for call in calls)


@EVERY
async def test_a_turn_finds_the_one_before_it_in_the_cache(
    server: Server, dialect: Dialect
) -> None:
    calls = await play(server, loop_of(), dialect)
    # How the JSON of definitions begins is the same everywhere, and as long as a block here.
    assert calls[0].cached_tokens in {0, 16}
    for before, after in pairwise(calls):
        assert before.prompt_tokens is not None
        assert after.cached_tokens is not None
        # Whole blocks of the last prompt, and nothing of what is new.
        assert before.prompt_tokens - 32 < after.cached_tokens <= before.prompt_tokens + 40


async def test_another_salt_finds_nothing_and_loops_share_their_system_prompt(
    server: Server,
) -> None:
    salt = f"{time_ns()}"
    first = await play(server, loop_of(), "chat", salt=salt)
    other = replace(loop_of(), id="8", seed=8)
    second = await play(server, other, "chat", salt=salt)
    third = await play(server, loop_of(), "chat", salt=salt + "x")
    assert first[0].cached_tokens in {0, 16}
    assert third[0].cached_tokens == 16
    assert second[0].cached_tokens is not None
    # The definitions and the system prompt, in whole blocks.
    assert 300 < second[0].cached_tokens < 380


def asks(
    dialect: Dialect, replies: list[Reply], *, tier: str | None = None, paceline: bool = True
) -> list[dict[str, Any]]:
    """The bodies of the requests that follow such answers."""
    target = Target("t", "", "m", tier, paceline=paceline)
    conversation = Conversation(loop_of(), target, dialect)
    bodies = [conversation.ask().body]
    for reply in replies:
        conversation.answer(reply)
        bodies.append(conversation.ask().body)
    return bodies


class TestCallsThatTheServerMakes:
    """The loop's first turn has two tools; the server calls one, or three, of its own will."""

    REPLIES = (
        Reply("Said.", [ToolCall("theirs_1", "f", '{"x":1}')]),
        Reply("Said.", [ToolCall(f"theirs_{i}", "f", "{}") for i in (1, 2, 3)]),
    )

    @pytest.mark.parametrize(
        ("reply", "ids"),
        [
            (REPLIES[0], ["theirs_1", "call_0_1"]),
            (REPLIES[1], ["theirs_1", "theirs_2", "theirs_3"]),
        ],
        ids=["one", "three"],
    )
    def test_chat(self, reply: Reply, ids: list[str]) -> None:
        messages = asks("chat", [reply])[1]["messages"]
        answer = next(m for m in messages if m["role"] == "assistant")
        results = [m for m in messages if m["role"] == "tool"]
        assert [c["id"] for c in answer["tool_calls"]] == ids
        assert [m["tool_call_id"] for m in results] == ids
        assert answer["tool_calls"][0]["function"]["arguments"] == reply.tool_calls[0].arguments

    def test_messages(self) -> None:
        messages = asks("messages", [self.REPLIES[0]])[1]["messages"]
        assert [m["role"] for m in messages] == ["user", "assistant", "user"]
        uses = [b["id"] for b in messages[1]["content"] if b["type"] == "tool_use"]
        results = [b["tool_use_id"] for b in messages[2]["content"] if b["type"] == "tool_result"]
        assert uses == results == ["theirs_1", "call_0_1"]

    @pytest.mark.parametrize("dialect", ["responses", "responses-websocket"])
    def test_responses(self, dialect: Dialect) -> None:
        call = {"type": "function_call", "call_id": "theirs_1", "name": "f", "arguments": "{}"}
        reply = Reply("", [ToolCall("theirs_1", "f", "{}")], items=[call], response_id="resp_1")
        body = asks(dialect, [reply])[1]
        calls = [i["call_id"] for i in body["input"] if i["type"] == "function_call"]
        results = [i["call_id"] for i in body["input"] if i["type"] == "function_call_output"]
        assert results == ["theirs_1", "call_0_1"]
        # A chain knows the server's own call; over HTTP it is sent back.
        assert calls == (["theirs_1", "call_0_1"] if dialect == "responses" else ["call_0_1"])


@EVERY
def test_a_failed_turn_leaves_a_history_that_an_api_accepts(dialect: Dialect) -> None:
    first, second, third = asks(dialect, [Reply(), Reply("Said.", response_id="r")])
    key = "messages" if dialect in {"chat", "messages"} else "input"
    assert len(second[key]) > len(first[key])
    if dialect == "responses-websocket":
        # Nothing was answered, so nothing is known there: all of it comes again.
        assert "previous_response_id" not in second
        assert second["input"][: len(first["input"])] == first["input"]
        assert third["previous_response_id"] == "r"
        assert not [item for item in third["input"] if item in second["input"]]
    for message in second[key]:
        content = message.get("content")
        assert content is None or content


@pytest.mark.parametrize("dialect", ["responses", "responses-websocket", "chat"])
def test_the_tier_is_asked_for(dialect: Dialect) -> None:
    assert asks(dialect, [], tier="ultrafast")[0]["service_tier"] == "ultrafast"
    assert "service_tier" not in asks(dialect, [])[0]


@pytest.mark.parametrize(
    ("tier", "fields"),
    [
        ("fast", {"speed": "fast"}),
        ("standard_only", {"service_tier": "standard_only"}),
        ("flex", {}),
        (None, {}),
    ],
)
def test_a_tier_in_anthropic_s_words(tier: str | None, fields: dict[str, str]) -> None:
    body = asks("messages", [], tier=tier)[0]
    assert {k: body[k] for k in ("speed", "service_tier") if k in body} == fields


@pytest.mark.parametrize(
    ("dialect", "field"),
    [
        ("chat", "max_completion_tokens"),
        ("responses", "max_output_tokens"),
        ("responses-websocket", "max_output_tokens"),
        ("messages", "max_tokens"),
    ],
)
def test_another_server_is_told_the_most_that_an_answer_may_come_to(
    dialect: Dialect, field: str
) -> None:
    body = asks(dialect, [], paceline=False)[0]
    assert body[field] == 50
    assert "paceline" not in body


def test_usage_is_asked_for_and_no_tool_is_to_be_called() -> None:
    chat = asks("chat", [])[0]
    assert chat["stream_options"] == {"include_usage": True}
    assert chat["tool_choice"] == "none"
    assert asks("messages", [])[0]["tool_choice"] == {"type": "none"}
    assert "stream" not in asks("responses-websocket", [])[0]
    assert asks("responses", [])[0]["include"] == ["reasoning.encrypted_content"]


def test_all_of_a_prompt_may_be_cached() -> None:
    marks = []
    for body in asks("messages", [Reply("Said."), Reply("Said.")]):
        blocks = [b for m in body["messages"] for b in m["content"]]
        assert "cache_control" in blocks[-1]
        marks.append(sum("cache_control" in block for block in blocks))
    assert marks == [1, 1, 1]
