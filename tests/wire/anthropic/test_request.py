from __future__ import annotations

import json
from typing import Any

import pytest

from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.core.tools import AUTO, OutputFormat, Tool, ToolChoice
from paceline.wire.anthropic.errors import error_body, error_status
from paceline.wire.anthropic.request import parse_count, parse_message
from paceline.wire.errors import ApiError

HI = [{"role": "user", "content": "hi"}]
WEATHER = {"name": "weather", "input_schema": {"type": "object"}}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


def parse(**fields: Any) -> GenerationRequest:
    body = {"model": "claude-opus-4-8", "max_tokens": 2048, "messages": HI, **fields}
    return parse_message(body, {})


def messages(**fields: Any) -> tuple[Message, ...]:
    (prompt,) = parse(**fields).prompts
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


def blocks(*content: dict[str, Any], role: str = "user") -> tuple[Message, ...]:
    return messages(messages=[{"role": role, "content": list(content)}])


def test_the_least_request() -> None:
    request = parse()
    assert request.model == "claude-opus-4-8"
    assert request.max_tokens == 2048
    assert request.prompts == (ChatPrompt((Message("user", "hi"),)),)
    assert request.reasoning_effort == "none"
    assert request.tool_choice is AUTO
    assert not request.stream
    assert not request.cached
    assert request.unknown == ()


def test_what_means_something() -> None:
    request = parse(
        system=[{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}],
        stop_sequences=["END", "###", "a", "b", "c"],
        stream=True,
        speed="fast",
        output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}},
        paceline={"output_tokens": 7},
    )
    assert request.prompts == (
        ChatPrompt(
            (
                Message("system", '{"type":"object"}'),
                Message("system", "Be\nbrief."),
                Message("user", "hi"),
            )
        ),
    )
    assert request.stop == ("END", "###", "a", "b", "c")
    assert request.stream
    assert request.service_tier == "fast"
    assert request.output_format == OutputFormat("json_schema", {"type": "object"}, strict=True)
    assert request.overrides.output_tokens == 7


def test_what_changes_nothing_is_accepted_and_the_unknown_is_named() -> None:
    request = parse(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        metadata={"user_id": "u"},
        service_tier="auto",
        speed="standard",
        container="c",
        context_management={"edits": []},
        mcp_servers=[],
        betas=["x"],
        inference_geo="eu",
        novelty=1,
        messages=[{"role": "user", "content": "hi", "mood": "good"}],
    )
    assert request.service_tier == "default"
    assert request.unknown == ("novelty", "messages[].mood")


@pytest.mark.parametrize(
    ("fields", "effort", "budget", "told"),
    [
        ({}, "none", None, False),
        ({"thinking": {"type": "disabled"}}, "none", None, False),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, None, 1024, True),
        ({"thinking": {"type": "adaptive"}}, None, None, True),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, None, None, False),
        ({"thinking": {"type": "adaptive", "display": "updates"}}, None, None, True),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}},
            "xhigh",
            None,
            True,
        ),
        ({"output_config": {"effort": "max"}}, "none", None, False),
    ],
)
def test_thinking(
    fields: dict[str, Any], effort: str | None, budget: int | None, told: bool
) -> None:
    request = parse(**fields)
    assert request.reasoning_effort == effort
    assert request.max_reasoning_tokens == budget
    assert request.show_reasoning is told


@pytest.mark.parametrize(
    "fields",
    [
        {"cache_control": {"type": "ephemeral"}},
        {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
        {"tools": [{**WEATHER, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
                    ],
                }
            ]
        },
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "a",
                            "content": [
                                {
                                    "type": "text",
                                    "text": "x",
                                    "cache_control": {"type": "ephemeral"},
                                }
                            ],
                        }
                    ],
                }
            ]
        },
    ],
)
def test_cache_control_anywhere_caches_the_prompt(fields: dict[str, Any]) -> None:
    assert parse(**fields).cached


def test_blocks_become_texts_and_fixed_tokens() -> None:
    (message,) = blocks(
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "title": "T", "source": {"type": "text", "data": "D"}},
        {"type": "document", "source": {"type": "base64", "data": "AAAA"}},
        {
            "type": "search_result",
            "title": "S",
            "source": "url",
            "content": [{"type": "text", "text": "found"}],
        },
    )
    assert message == Message("user", "look\nT\nD\nS\nurl\nfound", 1 + 1399 + 1000)


def test_an_assistants_past_counts() -> None:
    (message,) = blocks(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "A" * 1600},
        {"type": "text", "text": "So"},
        {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Graz"}},
        {"type": "server_tool_use", "id": "t2", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "t2", "content": []},
        role="assistant",
    )
    assert message == Message(
        "assistant",
        'hm\nSo\nweather\n{"city":"Graz"}\nweb_search\n{}\n{"tool_use_id":"t2","content":[]}',
        300,
    )


def test_tool_results_are_messages_and_what_is_said_beside_them_no_new_turn() -> None:
    assert blocks(
        {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"},
        {
            "type": "tool_result",
            "tool_use_id": "t2",
            "is_error": True,
            "content": [{"type": "text", "text": "no"}],
        },
        {"type": "tool_result", "tool_use_id": "t3"},
        {"type": "text", "text": "a reminder"},
    ) == (Message("tool", "sunny"), Message("tool", "no"), Message("tool", "a reminder"))


def test_system_may_be_a_role_among_the_messages() -> None:
    found = messages(system="S", messages=[*HI, {"role": "system", "content": "now"}])
    assert [m.role for m in found] == ["system", "user", "system"]


def test_tools() -> None:
    request = parse(
        tools=[
            {**WEATHER, "description": "d", "strict": True, "cache_control": None},
            {"type": "custom", "name": "plain", "input_schema": {"type": "object"}},
            {"type": "bash_20250124", "name": "bash"},
            {"type": "web_search_20260318", "name": "web_search", "max_uses": 3},
            {"type": "mcp_toolset", "mcp_server_name": "s"},
        ],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
    )
    assert request.tools == (
        Tool("weather", schema={"type": "object"}, strict=True, description="d"),
        Tool("plain", schema={"type": "object"}),
        Tool("bash", kind="builtin", type="bash_20250124"),
        Tool("web_search", kind="builtin", type="web_search_20260318"),
        Tool("s", kind="builtin", type="mcp_toolset"),
    )
    assert request.tool_choice == ToolChoice("required")
    assert not request.parallel_tool_calls


def test_tools_count_as_prompt_wherever_they_are_marked_to_be_cached() -> None:
    marked = {**WEATHER, "cache_control": {"type": "ephemeral"}}
    shown = Message("system", '[{"name":"weather","input_schema":{"type":"object"}}]')
    assert messages(tools=[marked])[0] == messages(tools=[WEATHER])[0] == shown


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ({"type": "auto"}, AUTO),
        ({"type": "none"}, ToolChoice("none")),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "tool", "name": "weather"}, ToolChoice("named", ("weather",))),
    ],
)
def test_tool_choice(choice: dict[str, Any], wanted: ToolChoice) -> None:
    request = parse(tools=[WEATHER], tool_choice=choice)
    assert request.tool_choice == wanted
    assert request.parallel_tool_calls


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type"),
        (
            {"messages": [{"role": "user", "content": [{"type": "video"}]}]},
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
            "messages[0].content[0].tool_use_id",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_result", "tool_use_id": "x"}],
                    }
                ]
            },
            "messages[0].content[0]",
        ),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"system": 3}, "system"),
        ({"temperature": 1.5}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"stop_sequences": [" "]}, "stop_sequences[0]"),
        ({"stop_sequences": "x"}, "stop_sequences"),
        ({"stream": "yes"}, "stream"),
        ({"speed": "warp"}, "speed"),
        ({"thinking": {}}, "thinking.type"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, "thinking.budget_tokens"),
        ({"output_config": {"effort": "minimal"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"tools": [{"name": "x"}]}, "tools[0].input_schema"),
        ({"tools": [{"input_schema": {"type": "object"}}]}, "tools[0].name"),
        ({"tools": [{"name": "x", "input_schema": {}}]}, "tools[0].input_schema.type"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
        ({"tools": [WEATHER], "tool_choice": {}}, "tool_choice.type"),
        ({"container": 3}, "container"),
        ({"paceline": {"warp": 1}}, "paceline.warp"),
    ],
)
def test_refusals_name_the_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(**fields)
    assert caught.value.status == 400
    assert caught.value.param == param


def test_counting_needs_no_limit() -> None:
    request = parse_count({"model": "m", "messages": HI}, {})
    assert request.max_tokens is None


@pytest.mark.parametrize(
    ("status", "sent", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (401, 401, "authentication_error"),
        (404, 404, "not_found_error"),
        (405, 405, "invalid_request_error"),
        (413, 413, "request_too_large"),
        (429, 429, "rate_limit_error"),
        (500, 500, "api_error"),
        (503, 529, "overloaded_error"),
        (529, 529, "overloaded_error"),
    ],
)
def test_errors(status: int, sent: int, kind: str) -> None:
    assert error_status(status) == sent
    assert json.loads(error_body(ApiError(status, "Why."), "req_1")) == {
        "type": "error",
        "error": {"type": kind, "message": "Why."},
        "request_id": "req_1",
    }


def test_a_prompt_that_is_too_long_says_so_in_the_words_that_clients_know() -> None:
    error = ApiError(400, "200 > 100.", code="context_length_exceeded")
    message = json.loads(error_body(error, None))["error"]["message"]
    assert message == "prompt is too long: 200 > 100."
