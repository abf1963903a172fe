from __future__ import annotations

from typing import Any

import pytest

from paceline.core.errors import PlanError
from paceline.core.request import ChatPrompt, GenerationRequest
from paceline.core.tools import AUTO, OutputFormat, Tool, ToolChoice
from paceline.wire.chat import CHAT_NAMES, parse_chat
from paceline.wire.chat_tools import LEGACY
from paceline.wire.errors import ApiError, from_refusal

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
F: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
G: dict[str, Any] = {"type": "function", "function": {"name": "g"}}
C: dict[str, Any] = {"type": "custom", "custom": {"name": "c"}}


def parse(**fields: Any) -> GenerationRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return parse_chat(body, {})


def refused(**fields: Any) -> tuple[str | None, str | None]:
    with pytest.raises(ApiError) as caught:
        parse(**fields)
    assert caught.value.status == 400
    assert caught.value.param is not None
    assert caught.value.param.partition(".")[0].partition("[")[0] in fields
    return caught.value.param, caught.value.code


def test_tools_are_read() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}
    tools = [
        {"type": "function", "function": {**F["function"], "strict": True, "description": "d"}},
        G,
        {"type": "custom", "custom": {"name": "c", "format": grammar}},
        {"type": "custom", "custom": {"name": "t", "format": {"type": "text"}}},
    ]
    assert parse(tools=tools).tools == (
        Tool("f", schema=SCHEMA, strict=True, description="d"),
        Tool("g"),
        Tool("c", "custom", type="custom", grammar="a+"),
        Tool("t", "custom", type="custom"),
    )


def test_older_functions_are_tools_of_their_own_kind() -> None:
    got = parse(functions=[{"name": "f", "parameters": SCHEMA}], function_call={"name": "f"})
    assert got.tools == (Tool("f", schema=SCHEMA, type=LEGACY),)
    assert got.tool_choice == ToolChoice("named", ("f",))
    assert not got.parallel_tool_calls


ALLOWED = {
    "type": "allowed_tools",
    "allowed_tools": {
        "mode": "required",
        "tools": [G, {"type": "custom", "custom": {"name": "c"}}],
    },
}


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        (None, AUTO),
        ("auto", AUTO),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("named", ("f",))),
        ({"type": "custom", "custom": {"name": "c"}}, ToolChoice("named", ("c",))),
        (ALLOWED, ToolChoice("required", ("g", "c"))),
    ],
)
def test_tool_choice(value: Any, choice: ToolChoice) -> None:
    assert parse(tools=[F, G, C], tool_choice=value).tool_choice == choice


@pytest.mark.parametrize(
    ("tools", "param", "code"),
    [
        ([5], "tools[0]", "invalid_type"),
        ([{}], "tools[0].type", "missing_required_parameter"),
        ([F, {"type": "web_search"}], "tools[1].type", "invalid_value"),
        ([{"type": 5}], "tools[0].type", "invalid_type"),
        ([{"type": "function", "function": {}}], "tools[0].function.name",
         "missing_required_parameter"),
        ([{"type": "function", "function": {"name": "a b"}}], "tools[0].function.name",
         "invalid_value"),
        ([{"type": "function", "function": {"name": "x" * 65}}], "tools[0].function.name",
         "invalid_value"),
        ([{"type": "function", "function": {"name": "f", "parameters": []}}],
         "tools[0].function.parameters", "invalid_type"),
        ([{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}],
         "tools[0].function.parameters", "invalid_function_parameters"),
        ([{"type": "function", "function": {"name": "f", "strict": "yes"}}],
         "tools[0].function.strict", "invalid_type"),
        ([{"type": "custom", "custom": {"name": "c", "format": {"type": "xml"}}}],
         "tools[0].custom.format.type", "invalid_value"),
        ([{"type": "custom", "custom": {"name": "c", "format": {"type": "grammar"}}}],
         "tools[0].custom.format.grammar", "missing_required_parameter"),
        ([F] * 129, "tools", "array_above_max_length"),
    ],
)  # fmt: skip
def test_wrong_tools_are_refused_by_name(tools: Any, param: str, code: str) -> None:
    assert refused(tools=tools) == (param, code)


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        (5, "tool_choice"),
        ({}, "tool_choice.type"),
        ({"type": "mcp"}, "tool_choice.type"),
        ({"type": "function", "function": {}}, "tool_choice.function.name"),
        ({"type": "function", "function": {"name": "nobody"}}, "tool_choice"),
        ({"type": "allowed_tools"}, "tool_choice.allowed_tools.mode"),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}},
            "tool_choice.allowed_tools.tools",
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
            "tool_choice.allowed_tools.tools",
        ),
    ],
)
def test_a_wrong_choice_is_refused_by_name(choice: Any, param: str) -> None:
    assert refused(tools=[F], tool_choice=choice)[0] == param


def test_what_does_not_go_together() -> None:
    assert refused(tools=[F], functions=[F["function"]])[0] == "functions"
    assert refused(function_call="required", functions=[F["function"]])[0] == "function_call"
    assert refused(tool_choice="required")[0] == "tool_choice"
    assert parse(tool_choice="auto").tools == ()


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, OutputFormat("json_object")),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
            OutputFormat("json_schema", SCHEMA, "n", strict=True),
        ),
    ],
)
def test_response_format(value: Any, form: OutputFormat | None) -> None:
    assert parse(response_format=value).output_format == form


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({"type": "yaml"}, "response_format.type"),
        ({"type": 1}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {}}, "response_format.json_schema.name"),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": []}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_a_wrong_form_is_refused_by_name(value: Any, param: str) -> None:
    assert refused(response_format=value)[0] == param


def test_definitions_are_part_of_the_prompt() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    (prompt,) = parse(tools=[F, G], response_format=form).prompts
    assert isinstance(prompt, ChatPrompt)
    assert [message.role for message in prompt.messages] == ["developer", "developer", "user"]
    assert '"name":"g"' in prompt.messages[0].text
    (plain,) = parse(tools=[]).prompts
    assert isinstance(plain, ChatPrompt)
    assert len(plain.messages) == 1


def test_a_refused_schema_bears_the_dialects_name() -> None:
    error = PlanError("Invalid schema of f in tools[3].schema: odd.", "tools[3].schema", "x")
    made = from_refusal(error, CHAT_NAMES)
    assert made.param == "tools[3].function.parameters"
    assert made.message == "Invalid schema of f in tools[3].function.parameters: odd."
    made = from_refusal(PlanError("no", "output_format.schema"), CHAT_NAMES)
    assert made.param == "response_format.json_schema.schema"
