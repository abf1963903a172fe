"""Bodies of POST /v1/responses: what is understood, what is given back, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.core.tools import OutputFormat, ToolChoice
from paceline.wire.errors import ApiError
from paceline.wire.responses.items import Item, listed, parse_input, parse_item, seal, sealed_tokens
from paceline.wire.responses.request import CHECKPOINT, ResponseContext, parse_response
from paceline.wire.responses.tools import parse_tools
from tests.wire.responses.test_encode import Nothing


class Memory(Nothing):
    def conversation(self, conversation_id: str) -> Sequence[Item]:
        return []

    def response(self, response_id: str) -> Sequence[Item]:
        return [Item({"role": "user", "content": "before"}, Message("user", "before"))]

    def item(self, item_id: str) -> Item | None:
        return Item({"id": item_id}, Message("user", "known")) if item_id == "msg_1" else None


def parse(memory: Any = None, **body: Any) -> GenerationRequest:
    return parse_response({"model": "m", "input": "hi", **body}, {}, memory or Nothing())


def context(request: GenerationRequest) -> ResponseContext:
    assert isinstance(request.context, ResponseContext)
    return request.context


def said(request: GenerationRequest) -> list[tuple[str, str]]:
    (prompt,) = request.prompts
    assert isinstance(prompt, ChatPrompt)
    return [(message.role, message.text) for message in prompt.messages]


def refusal(**body: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(**body)
    return caught.value


def test_the_defaults_are_openai_s() -> None:
    request = parse()
    assert said(request) == [("user", "hi")]
    assert not request.stream
    shown = context(request).shown
    assert context(request).store
    assert shown["tool_choice"] == "auto"
    assert shown["parallel_tool_calls"]
    assert shown["truncation"] == "disabled"
    assert shown["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert (shown["temperature"], shown["top_p"]) == (1.0, 1.0)
    assert (shown["presence_penalty"], shown["frequency_penalty"]) == (0.0, 0.0)


def test_null_is_unset_for_every_optional_field() -> None:
    fields = """instructions previous_response_id conversation store background include
        max_output_tokens max_tool_calls parallel_tool_calls reasoning text truncation
        prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier service_tier
        tools tool_choice top_logprobs temperature top_p metadata user stream stream_options
        prompt context_management moderation image access_programs background_options""".split()  # noqa: SIM905
    assert parse(**dict.fromkeys(fields)).unknown == ()


def test_fields_that_shape_the_answer() -> None:
    request = parse(
        max_output_tokens=9,
        reasoning={"effort": "xhigh", "summary": "concise"},
        service_tier="priority",
        prompt_cache_key="k",
        parallel_tool_calls=False,
        max_tool_calls=2,
        truncation="auto",
        top_logprobs=3,
        include=["reasoning.encrypted_content"],
        stream=True,
        stream_options={"include_obfuscation": False},
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    )
    assert request.max_tokens == 9
    assert request.reasoning_effort == "xhigh"
    assert request.service_tier == "priority"
    assert request.cache_key == "k"
    assert not request.parallel_tool_calls
    assert request.max_tool_calls == 2
    assert request.drop_oldest
    assert request.top_logprobs == 3
    assert request.output_format == OutputFormat("json_schema", {"type": "object"}, "n")
    assert context(request).summary == "concise"
    assert context(request).sealed
    assert not context(request).obfuscate


def test_what_changes_least_comes_first() -> None:
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}]
    request = parse(Memory(), instructions="be", tools=tools, previous_response_id="resp_1")
    roles = said(request)
    assert [role for role, _ in roles] == ["developer", "developer", "user", "user"]
    assert '"name":"f"' in roles[0][1]
    assert [text for _, text in roles[1:]] == ["be", "before", "hi"]


def test_unknown_fields_are_accepted_and_named() -> None:
    assert parse(brand_new=1).unknown == ("brand_new",)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ToolChoice()),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "f"}, ToolChoice("named", ("f",))),
        ({"type": "custom", "name": "c"}, ToolChoice("named", ("c",))),
        ({"type": "web_search_preview"}, ToolChoice("named", ("web_search_preview",))),
        ({"type": "mcp", "server_label": "s"}, ToolChoice("named", ("s",))),
        ({"type": "apply_patch"}, ToolChoice("named", ("apply_patch",))),
        ({"type": "shell"}, ToolChoice("named", ("shell",))),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}],
            },
            ToolChoice("required", ("f", "c")),
        ),
    ],
)
def test_every_form_of_tool_choice(choice: Any, expected: ToolChoice) -> None:
    tools = [
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "c"},
        {"type": "web_search_preview"},
        {"type": "mcp", "server_label": "s"},
        {"type": "apply_patch"},
        {"type": "shell"},
    ]
    assert parse(tools=tools, tool_choice=choice).tool_choice == expected


@pytest.mark.parametrize(
    "type_",
    [
        "web_search", "web_search_2025_08_26", "web_search_preview_2025_03_11", "file_search",
        "computer", "computer_use_preview", "code_interpreter", "image_generation", "local_shell",
        "shell", "apply_patch", "tool_search",
    ],
)  # fmt: skip
def test_built_in_tools_are_taken(type_: str) -> None:
    (tool,) = parse(tools=[{"type": type_}]).tools
    assert (tool.kind, tool.type) == ("builtin", type_)


def test_tools_in_a_namespace_are_offered_too() -> None:
    inside = [
        {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True},
        {
            "type": "custom",
            "name": "c",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
        },
    ]
    tools = parse_tools(
        [{"type": "namespace", "name": "n", "description": "", "tools": inside}], "tools"
    )
    assert [(tool.name, tool.namespace, tool.kind) for tool in tools] == [
        ("f", "n", "function"),
        ("c", "n", "custom"),
    ]
    assert tools[0].strict
    assert tools[1].grammar == "start: x"


@pytest.mark.parametrize(
    ("body", "param", "status"),
    [
        ({"input": 3}, "input", 400),
        ({"input": None}, "input", 400),
        ({"input": [3]}, "input[0]", 400),
        ({"input": [{}]}, "input[0].type", 400),
        ({"input": [{"type": "nope"}]}, "input[0].type", 400),
        ({"input": [{"role": "bot", "content": "x"}]}, "input[0].role", 400),
        ({"input": [{"role": "user"}]}, "input[0].content", 400),
        ({"input": [{"role": "user", "content": [{}]}]}, "input[0].content[0].type", 400),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id", 400),
        ({"input": [{"type": "function_call_output"}]}, "input[0].output", 400),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]", 404),
        ({"input": [{"type": "compaction"}]}, "input[0].encrypted_content", 400),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content[0].image_url",
            400,
        ),
        ({"max_output_tokens": 0}, "max_output_tokens", 400),
        ({"temperature": 3}, "temperature", 400),
        ({"top_logprobs": 21}, "top_logprobs", 400),
        ({"include": ["nope"]}, "include[0]", 400),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort", 400),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema", 400),
        ({"text": {"verbosity": "loud"}}, "text.verbosity", 400),
        ({"tools": [{}]}, "tools[0].type", 400),
        ({"tools": [{"type": "nope"}]}, "tools[0].type", 400),
        ({"tools": [{"type": "function"}]}, "tools[0].name", 400),
        ({"tool_choice": "required"}, "tool_choice", 400),
        ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice.name", 400),
        ({"truncation": "some"}, "truncation", 400),
        ({"background": True, "store": False}, "store", 400),
        ({"stream_options": {}}, "stream_options", 400),
        ({"prompt": {"id": "pmpt_1"}}, "prompt", 400),
        (
            {"previous_response_id": "a", "conversation": "b"},
            "previous_response_id",
            400,
        ),
        ({"metadata": {"k": 1}}, "metadata.k", 400),
        ({"service_tier": "warp"}, "service_tier", 400),
    ],
)
def test_refusals_name_the_field(body: dict[str, Any], param: str, status: int) -> None:
    error = refusal(**body)
    assert (error.param, error.status) == (param, status)


def test_references_are_put_in_place() -> None:
    request = parse(Memory(), input=[{"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}])
    assert said(request) == [("user", "known"), ("user", "known")]


def test_codex_s_summary_is_short_and_not_cut() -> None:
    message = {"type": "message", "role": "user", "content": CHECKPOINT + " now."}
    request = parse(input=[message], tools=[])
    assert request.overrides.output_tokens == 256
    assert request.overrides.reasoning_tokens == 0
    tools = [{"type": "function", "name": "f"}]
    assert parse(input=[message], tools=tools).overrides.output_tokens is None


ITEMS: list[tuple[dict[str, Any], str, str]] = [
    ({"role": "assistant", "content": "a"}, "assistant", "a"),
    (
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
        "assistant",
        "a",
    ),
    ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "1"}, "assistant", "f\n1"),
    ({"type": "function_call_output", "call_id": "c", "output": "done"}, "tool", "done"),
    (
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [{"type": "input_text", "text": "done"}],
        },
        "tool",
        "done",
    ),
    ({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}, "assistant", "f\nx"),
    ({"type": "custom_tool_call_output", "call_id": "c", "output": "y"}, "tool", "y"),
    (
        {"type": "local_shell_call", "id": "i", "call_id": "c", "status": "completed",
         "action": {"type": "exec", "command": ["echo", "hi"], "env": {}}},
        "assistant",
        "echo\nhi",
    ),
    ({"type": "local_shell_call_output", "id": "i", "output": "hi"}, "tool", "hi"),
    ({"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "hi"}]}, "tool", "hi"),
    (
        {"type": "web_search_call", "id": "i", "status": "completed",
         "action": {"type": "search", "query": "sea"}},
        "assistant",
        "sea",
    ),
    (
        {"type": "apply_patch_call", "call_id": "c", "status": "completed",
         "operation": {"type": "delete_file", "path": "x"}},
        "assistant",
        "x",
    ),
    ({"type": "mcp_call", "name": "f", "arguments": "{}", "x": True}, "assistant", "f\n{}\nTrue"),
    (
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}]},
        "assistant",
        "t",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("item", "role", "text"), ITEMS)
def test_every_item_says_something(item: dict[str, Any], role: str, text: str) -> None:
    assert said(parse(input=[item])) == [(role, text)]


def test_pictures_count_by_their_size() -> None:
    shot = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"}
    item = parse_item({"type": "computer_call_output", "call_id": "c", "output": shot}, "x")
    assert item.message is not None
    assert item.message.fixed_tokens > 0
    parts = [{"type": "input_image", "file_id": "f"}, {"type": "input_file", "file_id": "f"}]
    (item,) = parse_input([{"role": "user", "content": parts}], "input")
    assert item.message is not None
    assert item.message.fixed_tokens > 1000


@given(kind=st.text(max_size=8), tokens=st.integers(0, 1 << 30))
def test_a_seal_keeps_its_count(kind: str, tokens: int) -> None:
    assert sealed_tokens(seal(kind, tokens)) == tokens


@given(st.text(max_size=40))
def test_any_seal_is_taken(sealed: str) -> None:
    assert sealed_tokens("pcl1_" + sealed) >= 0
    assert sealed_tokens(sealed) >= 0


def test_items_are_listed_in_full() -> None:
    (item,) = parse_input("hi", "input")
    assert listed(item, "msg_9") == {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "hi"}],
        "id": "msg_9",
        "status": "completed",
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "id", "text", "output", "name", "tools"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KINDS = st.sampled_from(
    ["message", "function_call", "function_call_output", "reasoning", "compaction",
     "compaction_trigger", "item_reference", "computer_call_output", "mcp_call", "namespace"]
)  # fmt: skip


@given(
    field=st.sampled_from(
        ["input", "tools", "tool_choice", "text", "reasoning", "conversation", "include", "prompt"]
    ),
    value=JSON,
    kind=KINDS,
)
def test_any_value_is_taken_or_refused_by_name(field: str, value: Any, kind: str) -> None:
    shaped = {**value, "type": kind} if isinstance(value, dict) else value
    for each in (value, shaped, [shaped], [{"type": kind, "content": value, "output": value}]):
        named = field
        try:
            parse_response({"model": "m", "input": "hi", field: each}, {}, Memory())
        except ApiError as error:
            named = error.param or ""
        assert named.startswith(field)
