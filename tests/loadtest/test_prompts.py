from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from paceline.core.request import GenerationRequest
from paceline.runtime.prompts import PromptCounter
from paceline.runtime.tokenizer import Tokenizer
from paceline.wire.anthropic.request import parse_message
from paceline.wire.chat import parse_chat
from paceline.wire.responses.items import Item
from paceline.wire.responses.request import parse_response
from paceline_loadtest.model import DIALECTS, Dialect, Loop, ToolRun, Turn
from paceline_loadtest.prompts import (
    CALL_ARGUMENTS,
    CALL_NAME,
    Part,
    following,
    opening,
    prompt_tokens,
    shared_tokens,
    tool_definitions,
    words,
)


@pytest.fixture(scope="module")
def counter() -> PromptCounter:
    return PromptCounter(Tokenizer())


class Nothing:
    """Remembers no response."""

    def response(self, response_id: str) -> Sequence[Item]:
        raise AssertionError(response_id)

    conversation = response

    def item(self, item_id: str) -> Item | None:
        raise AssertionError(item_id)


def parsed(loop: Loop, parts: list[Part], dialect: Dialect) -> GenerationRequest:
    """The request that a client makes of the parts, read as the server reads it."""
    tools = tool_definitions(loop, dialect)
    body: dict[str, Any] = {"model": "m"}
    if tools:
        body["tools"] = tools
    if dialect == "chat":
        return parse_chat({**body, "messages": [chat_message(part) for part in parts]}, {})
    system = "".join(part.text for part in parts if part.role == "system")
    rest = [part for part in parts if part.role != "system"]
    if dialect == "messages":
        body |= {"max_tokens": 9, "messages": blocks(rest), "cache_control": {"type": "ephemeral"}}
        return parse_message({**body, "system": system} if system else body, {})
    items = [item for part in rest for item in response_items(part)]
    body |= {"input": items}
    if system:
        body["instructions"] = system
    return parse_response(body, {}, Nothing())


def chat_message(part: Part) -> dict[str, Any]:
    message: dict[str, Any] = {"role": part.role, "content": part.text}
    if part.calls:
        function = {"name": CALL_NAME, "arguments": CALL_ARGUMENTS}
        message["tool_calls"] = [
            {"id": call, "type": "function", "function": function} for call in part.calls
        ]
    if part.role == "tool":
        message["tool_call_id"] = part.call_id
    return message


def response_items(part: Part) -> list[dict[str, Any]]:
    if part.role == "tool":
        return [
            {"type": "function_call_output", "call_id": part.call_id, "output": part.text},
        ]
    items: list[dict[str, Any]] = [{"type": "message", "role": part.role, "content": part.text}]
    for call in part.calls:
        about = {"name": CALL_NAME, "arguments": CALL_ARGUMENTS, "call_id": call}
        items.append({"type": "function_call", **about})
    return items


def blocks(parts: list[Part]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for part in parts:
        role = "assistant" if part.role == "assistant" else "user"
        content: list[dict[str, Any]] = [{"type": "text", "text": part.text}]
        if part.role == "tool":
            content = [
                {"type": "tool_result", "tool_use_id": part.call_id, "content": content},
            ]
        for call in part.calls:
            content.append({"type": "tool_use", "id": call, "name": CALL_NAME, "input": {}})
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += content
        else:
            messages.append({"role": role, "content": content})
    return messages


def loop_of(
    turns: int, *, tools: int = 0, told: int = 0, system: int = 50, defined: int = 3
) -> Loop:
    runs = tuple(ToolRun("edit", 0.0, 7 + at) for at in range(tools))
    turn = Turn(told, 5, 11, runs)
    return Loop("a", system, defined, 60, (Turn(30, 0, 9, runs), *[turn] * (turns - 1)), seed=4)


LOOPS = {
    "alone": loop_of(1),
    "bare": loop_of(2, told=3, system=0, defined=0),
    "one tool a turn": loop_of(4, tools=1),
    "three tools a turn": loop_of(3, tools=3, defined=12),
    "tools and the user": loop_of(3, tools=2, told=6),
    "the user alone": loop_of(3, told=6, defined=1),
    "nobody says a word": loop_of(3, told=0),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS.keys())
def test_each_turn_has_the_tokens_that_the_server_counts(
    counter: PromptCounter, loop: Loop, dialect: Dialect
) -> None:
    parts = opening(loop, "s")
    counted = []
    kept = 0
    for at, turn in enumerate(loop.turns):
        counted.append(counter.measure(parsed(loop, parts, dialect).prompts[0]).tokens + kept)
        if turn.reasoning_tokens and dialect.startswith("responses"):
            # An item of its own: four tokens of the format, and what was thought.
            kept += 4 + turn.reasoning_tokens
        if at + 1 < len(loop.turns):
            parts += following(loop, at, words(turn.output_tokens, at), "s")
    assert list(prompt_tokens(loop, dialect)) == counted


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS.keys())
def test_a_prompt_begins_with_the_one_before_and_other_loops_share_their_system_prompt(
    counter: PromptCounter, loop: Loop, dialect: Dialect
) -> None:
    other = replace(loop, id="b")

    def blocks_of(loop: Loop, salt: str, turns: int) -> tuple[int, ...]:
        parts = opening(loop, salt)
        for at in range(turns):
            parts += following(loop, at, words(loop.turns[at].output_tokens, at), salt)
        return counter.measure(parsed(loop, parts, dialect).prompts[0], 1).blocks

    first = blocks_of(loop, "s", 0)
    # Without its last token, which primes the reply: in OpenAI's dialects an answer follows.
    assert blocks_of(loop, "s", len(loop.turns) - 1)[: len(first)] == first
    shared = shared_tokens(loop, dialect)
    beside = blocks_of(other, "s", 0)
    assert beside[:shared] == first[:shared]
    # One token of the format stands before the user's own words.
    assert beside[shared + 3 :] != first[shared + 3 :]
    salted = blocks_of(loop, "t", 0)
    assert not set(salted) & set(first[-1:])


def test_the_first_definition_has_the_name_that_the_calls_have() -> None:
    loop = loop_of(1)
    assert tool_definitions(loop, "messages")[0]["name"] == CALL_NAME
    assert [d["function"]["name"] for d in tool_definitions(loop, "chat")] == [
        CALL_NAME,
        "tool_1",
        "tool_2",
    ]


def test_a_text_has_one_token_a_word(counter: PromptCounter) -> None:
    for key in range(30):
        text = words(40, key)
        assert counter.count(text) == 40
        assert words(60, key).startswith(text + " ")
    assert words(40, 1) != words(40, 2)
    assert words(0, 1) == ""


def test_every_word_is_a_token_of_its_own(counter: PromptCounter) -> None:
    seen = set(words(20_000, 1).split())
    assert len(seen) > 200
    for word in seen:
        counts = [counter.count(f"{before}{word}") for before in ("", " ", '"', "\n")]
        assert counts == [1, 1, 2, 2], word
