"""Answers with calls and JSON, as the planner lays them out within the limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.plan import ChoicePlan, Plan
from paceline.core.profile import Profile
from paceline.core.request import ChatPrompt, GenerationRequest, Message, Overrides
from paceline.core.tools import OutputFormat, Tool, ToolChoice
from paceline.runtime.drafted import FRAME_TOKENS, call_id
from paceline.runtime.planner import Planner
from paceline.runtime.prompts import PromptCounter
from paceline.runtime.tokenizer import Tokenizer

CITY = Tool(
    "get_weather",
    schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
TIME = Tool("get_time")
MUST = ToolChoice("required")
FORM = OutputFormat(
    "json_schema",
    {
        "type": "object",
        "properties": {"title": {"type": "string", "minLength": 60}, "ok": {"type": "boolean"}},
        "required": ["title", "ok"],
    },
)


def plan_of(
    planner: Planner, tokenizer: Tokenizer, profile: Profile, text: str = "hi", **fields: Any
) -> Plan:
    prompt = ChatPrompt((Message("user", text),))
    request = GenerationRequest("bench", (prompt,), **fields)
    counter = PromptCounter(tokenizer)
    return planner.plan(request, profile, [counter.measure(prompt, 16, "m")])


@pytest.fixture
def one(planner: Planner, tokenizer: Tokenizer, profile: Profile) -> Any:
    def make(text: str = "hi", **fields: Any) -> ChoicePlan:
        (choice,) = plan_of(planner, tokenizer, profile, text, **fields).choices
        return choice

    return make


def said(choice: ChoicePlan) -> list[tuple[str, str, str]]:
    return [(call.id, call.tool.name, call.arguments.text()) for call in choice.calls]


@given(
    limit=st.none() | st.integers(1, 200),
    output=st.none() | st.integers(0, 200),
    reasoning=st.integers(0, 30),
    least=st.integers(0, 60),
    stop=st.sampled_from([(), (".",), ('"',), ("zebra",)]),
    n=st.integers(1, 3),
    tools=st.sampled_from([(), (CITY,), (CITY, TIME)]),
    form=st.sampled_from([None, FORM]),
    choice=st.sampled_from([ToolChoice(), MUST]),
)
def test_no_answer_breaks_its_limits(
    planner: Planner, tokenizer: Tokenizer, profile: Profile, *,
    limit: int | None, output: int | None, reasoning: int, least: int, stop: tuple[str, ...],
    n: int, tools: tuple[Tool, ...], form: OutputFormat | None, choice: ToolChoice,
) -> None:  # fmt: skip
    fields: dict[str, Any] = {
        "max_tokens": limit,
        "min_tokens": least if limit is None else min(least, limit),
        "stop": stop,
        "n": n,
        "tools": tools,
        "tool_choice": choice if tools else ToolChoice(),
        "output_format": form,
        "overrides": Overrides(output_tokens=output, reasoning_tokens=reasoning),
    }
    plan = plan_of(planner, tokenizer, profile, **fields)
    ceiling = min(x for x in (limit, 2_000) if x is not None)
    for made in plan.choices:
        assert made.output_tokens <= ceiling
        if made.finish_reason == "length":
            least_limit = ceiling if output is None or not (tools or form) else min(ceiling, output)
            assert made.output_tokens == least_limit
        if made.finish_reason == "tool_calls":
            assert made.calls
            for call in made.calls:
                json.loads(call.arguments.text())
        if made.finish_reason == "stop" and form and not tools and not stop:
            assert json.loads(made.pieces.text())["title"]
        for call in made.calls:
            assert call.head_tokens >= 1
            ids = call.arguments.ids(0, len(call.arguments))
            assert tokenizer.decode(ids).startswith(call.arguments.text())
        # Within the least number of tokens a stop string counts as text.
        for text in () if least else stop:
            assert text not in made.pieces.text()
    again = plan_of(planner, tokenizer, profile, **fields)
    assert [said(c) for c in plan.choices] == [said(c) for c in again.choices]
    names = [call.id for made in plan.choices for call in made.calls]
    assert len(names) == len(set(names))


def test_a_call_counts_its_name_its_frame_and_its_arguments(one: Any, tokenizer: Tokenizer) -> None:
    choice = one(tools=(CITY,))
    (call,) = choice.calls
    assert call.head_tokens == tokenizer.count("get_weather") + FRAME_TOKENS
    assert len(call.arguments) == tokenizer.count(call.arguments.text())
    assert choice.output_tokens == call.tokens
    assert len(choice.pieces) == 0


def test_seeds_and_conversations_tell_calls_apart(one: Any) -> None:
    ids = {one(tools=(CITY,), seed=seed).calls[0].id for seed in range(20)}
    ids |= {one(f"hi {i}", tools=(CITY,)).calls[0].id for i in range(20)}
    assert len(ids) == 40
    assert one(tools=(CITY,), seed=3).calls[0].id == one(tools=(CITY,), seed=3).calls[0].id


def test_ids_have_the_form_that_openai_gives_them() -> None:
    ids = {call_id(seed, at) for seed in range(200) for at in range(3)}
    assert len(ids) == 600
    for made in ids:
        assert made.startswith("call_")
        assert len(made) == 29
        assert made[5:].isalnum()


def test_prose_fills_up_what_was_asked_for_in_front_of_a_call(one: Any) -> None:
    choice = one(tools=(CITY,), overrides=Overrides(output_tokens=80))
    assert choice.output_tokens == 80
    assert choice.finish_reason == "tool_calls"
    assert len(choice.pieces) == 80 - choice.calls[0].tokens
    assert one(tools=(CITY,), min_tokens=70).output_tokens == 70


def test_two_calls_one_after_the_other_within_a_limit(one: Any) -> None:
    fields = {"tools": (CITY, TIME), "tool_choice": MUST}
    whole = one(**fields)
    assert {call.tool.name for call in whole.calls} == {"get_weather", "get_time"}
    first = whole.calls[0].tokens
    assert [len(one(max_tokens=k, **fields).calls) for k in (first, first + 1)] == [1, 2]
    assert one(max_tokens=first, **fields).finish_reason == "length"
    assert one(max_tokens=whole.output_tokens, **fields).finish_reason == "tool_calls"


def test_a_stop_string_ends_json_early(one: Any) -> None:
    whole = one(output_format=FORM).pieces.text()
    choice = one(output_format=FORM, stop=('"ok"',))
    assert choice.finish_reason == "stop"
    assert choice.pieces.text() == whole[: whole.index('"ok"')]


def test_json_of_no_schema_is_an_object(one: Any) -> None:
    for form in (OutputFormat("json_object"), OutputFormat("json_schema")):
        assert isinstance(json.loads(one(output_format=form).pieces.text()), dict)


def test_calls_before_json(one: Any) -> None:
    assert one(tools=(CITY,), output_format=FORM).calls
    assert not one(tools=(CITY,), output_format=FORM, tool_choice=ToolChoice("none")).calls


def test_echo_says_what_the_user_said(one: Any) -> None:
    choice = one("Hello there.", tools=(CITY,), overrides=Overrides(echo=True))
    assert choice.pieces.text() == "Hello there."
    assert choice.calls == []
