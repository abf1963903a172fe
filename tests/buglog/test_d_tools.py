"""Tool calls, as the official client reads them and as they stand on the wire."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.live import CHAT, Server, chat

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather at a place.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
TIME: Any = {
    "type": "function",
    "function": {
        "name": "get_time",
        "parameters": {
            "type": "object",
            "properties": {"zone": {"type": "string"}},
            "required": ["zone"],
        },
    },
}
NOTHING: Any = {"type": "function", "function": {"name": "list_items", "parameters": {}}}
NAMED: Any = {"type": "function", "function": {"name": "get_weather"}}


def asked(**fields: Any) -> dict[str, Any]:
    return {**chat("quick"), **fields}


def streamed(server: Server, **fields: Any) -> list[dict[str, Any]]:
    return server.post(CHAT, asked(stream=True, **fields)).events


def deltas(events: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """The tool calls' deltas by their index."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        for choice in event["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                found[call["index"]].append(call)
    return found


def finish(events: list[dict[str, Any]]) -> str:
    (reason,) = {
        choice["finish_reason"]
        for event in events
        for choice in event["choices"]
        if choice["finish_reason"] is not None
    }
    return str(reason)


def arguments(parts: list[dict[str, Any]]) -> Any:
    return json.loads("".join(part["function"]["arguments"] for part in parts))


@pytest.mark.parametrize("choice", ["auto", "required", NAMED])
def test_d01_d02_the_first_delta_says_all_but_the_arguments(server: Server, choice: Any) -> None:
    calls = deltas(streamed(server, tools=[WEATHER], tool_choice=choice))
    assert list(calls) == [0]
    first, *others = calls[0]
    assert set(first) == {"index", "id", "type", "function"}
    assert first["id"].startswith("call_")
    assert first["type"] == "function"
    assert first["function"] == {"name": "get_weather", "arguments": ""}
    assert others
    for other in others:
        assert set(other) == {"index", "function"}
        assert set(other["function"]) == {"arguments"}
    assert set(arguments(calls[0])) == {"city", "unit"}


def test_d01_arguments_come_token_by_token(server: Server) -> None:
    events = streamed(server, tools=[WEATHER], tool_choice="required")
    pieces = [part["function"]["arguments"] for part in deltas(events)[0]]
    assert len(pieces) > 5
    assert max(map(len, pieces)) < 20


def test_d04_parallel_calls_have_indexes_of_their_own(server: Server) -> None:
    fields = {"tools": [WEATHER, TIME], "tool_choice": "required", "parallel_tool_calls": True}
    calls = deltas(streamed(server, **fields))
    assert list(calls) == [0, 1]
    assert calls[0][0]["id"] != calls[1][0]["id"]
    names = {parts[0]["function"]["name"]: set(arguments(parts)) for parts in calls.values()}
    assert names == {"get_weather": {"city", "unit"}, "get_time": {"zone"}}
    whole = server.post(CHAT, asked(**fields)).object["choices"][0]["message"]["tool_calls"]
    for at, call in enumerate(whole):
        assert json.loads(call["function"]["arguments"]) == arguments(calls[at])
        assert call["id"] == calls[at][0]["id"]


def test_d04_one_call_where_parallel_ones_are_off(server: Server) -> None:
    fields = {"tools": [WEATHER, TIME], "tool_choice": "required", "parallel_tool_calls": False}
    assert list(deltas(streamed(server, **fields))) == [0]


@pytest.mark.parametrize(
    ("choice", "reason"), [("auto", "tool_calls"), ("required", "tool_calls"), (NAMED, "stop")]
)
def test_d06_d07_finish_reason(server: Server, choice: Any, reason: str) -> None:
    fields = {"tools": [WEATHER, TIME], "tool_choice": choice}
    assert finish(streamed(server, **fields)) == reason
    answer = server.post(CHAT, asked(**fields)).object["choices"][0]
    assert answer["finish_reason"] == reason
    assert answer["message"]["content"] is None
    assert answer["message"]["tool_calls"]


@pytest.mark.parametrize("parameters", [{}, None, {"type": "object", "properties": {}}])
def test_d09_no_parameters_give_an_empty_object(server: Server, parameters: Any) -> None:
    tool = {"type": "function", "function": {"name": "list_items"}}
    if parameters is not None:
        tool["function"]["parameters"] = parameters  # type: ignore[index]  # a plain dict here
    events = streamed(server, tools=[tool], tool_choice="required")
    assert arguments(deltas(events)[0]) == {}
    (call,) = server.post(CHAT, asked(tools=[tool])).object["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == "{}"


def loop(server: Server, **fields: Any) -> list[str]:
    """Run an agent's loop; returns the finish reason of each of its answers."""
    client = server.openai()
    messages: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    reasons: list[str] = []
    for _ in range(6):
        answer = client.chat.completions.create(
            model="quick", messages=messages, tools=[WEATHER, TIME], **fields
        )
        message = answer.choices[0].message
        reasons.append(answer.choices[0].finish_reason)
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            assert message.content
            break
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
            for call in message.tool_calls
        ]
    ids = [call["id"] for m in messages for call in m.get("tool_calls", ())]
    assert len(ids) == len(set(ids))
    return reasons


def test_d10_the_loop_ends(server: Server) -> None:
    assert loop(server) == ["tool_calls", "stop"]


def test_d10_after_as_many_rounds_as_are_set() -> None:
    with Server("--tool-calls-per-turn", "3") as server:
        assert loop(server) == ["tool_calls"] * 3 + ["stop"]
        assert loop(server, parallel_tool_calls=False) == ["tool_calls"] * 3 + ["stop"]


def test_d10_a_new_user_message_begins_a_new_turn(server: Server) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "noon"},
        {"role": "assistant", "content": "It is noon."},
        {"role": "user", "content": "and now?"},
    ]
    fields = {"tools": [TIME], "messages": messages}
    assert finish(streamed(server, **fields)) == "tool_calls"
    fields["messages"] = messages[:3]
    assert finish(streamed(server, **fields)) == "stop"


@pytest.mark.parametrize("choice", ["auto", "required", NAMED])
def test_the_official_types_take_it(server: Server, choice: Any) -> None:
    fields = {"tools": [WEATHER, NOTHING], "tool_choice": choice}
    for event in streamed(server, stream_options={"include_usage": True}, **fields):
        ChatCompletionChunk.model_validate(event)
    answer = server.post(CHAT, asked(**fields)).object
    ChatCompletion.model_validate(answer)
    events = streamed(server, stream_options={"include_usage": True}, **fields)
    assert events[-1]["usage"] == answer["usage"] | {
        "prompt_tokens_details": events[-1]["usage"]["prompt_tokens_details"]
    }


def test_no_tools_no_calls(server: Server) -> None:
    several: list[dict[str, Any]] = [
        {},
        {"tools": []},
        {"tools": [WEATHER], "tool_choice": "none"},
    ]
    for fields in several:
        events = streamed(server, **fields)
        assert finish(events) == "stop"
        assert not any("tool_calls" in c["delta"] for e in events for c in e["choices"])
        message = server.post(CHAT, asked(**fields)).object["choices"][0]["message"]
        assert "tool_calls" not in message
        assert message["content"]


def test_tools_count_as_prompt(server: Server) -> None:
    plain = server.post(CHAT, asked()).object["usage"]["prompt_tokens"]
    assert server.post(CHAT, asked(tools=[WEATHER])).object["usage"]["prompt_tokens"] > plain + 30


def test_a_limit_cuts_arguments_honestly(server: Server) -> None:
    fields = {"tools": [WEATHER], "tool_choice": "required"}
    total = server.post(CHAT, asked(**fields)).object["usage"]["completion_tokens"]
    whole = arguments(deltas(streamed(server, **fields))[0])
    for limit in range(1, total + 2):
        answer = server.post(CHAT, asked(max_tokens=limit, **fields)).object
        cut = limit < total
        assert answer["choices"][0]["finish_reason"] == ("length" if cut else "tool_calls")
        assert answer["usage"]["completion_tokens"] == min(limit, total)
        (call,) = answer["choices"][0]["message"]["tool_calls"]
        text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
        assert text.startswith(call["function"]["arguments"])
        assert (call["function"]["arguments"] == text) == (not cut)


def test_the_older_fields(server: Server) -> None:
    fields = {"functions": [WEATHER["function"]]}
    answer = server.post(CHAT, asked(**fields)).object["choices"][0]
    assert answer["finish_reason"] == "function_call"
    call = answer["message"]["function_call"]
    assert call["name"] == "get_weather"
    events = streamed(server, **fields)
    parts = [
        c["delta"]["function_call"] for e in events for c in e["choices"]
        if "function_call" in c["delta"]
    ]  # fmt: skip
    assert parts[0] == {"name": "get_weather", "arguments": ""}
    assert "".join(part["arguments"] for part in parts) == call["arguments"]
    assert finish(events) == "function_call"
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "get_weather", "content": "sunny"},
    ]
    answer = server.post(CHAT, asked(messages=history, **fields)).object["choices"][0]
    assert answer["finish_reason"] == "stop"
    assert answer["message"]["content"]


def test_custom_tools(server: Server) -> None:
    tool = {"type": "custom", "custom": {"name": "note"}}
    (call,) = server.post(CHAT, asked(tools=[tool])).object["choices"][0]["message"]["tool_calls"]
    assert call["type"] == "custom"
    assert call["custom"]["name"] == "note"
    parts = deltas(streamed(server, tools=[tool]))[0]
    assert "".join(part["custom"]["input"] for part in parts) == call["custom"]["input"]


def test_structured_output_is_parsed_by_the_official_client(server: Server) -> None:
    from pydantic import BaseModel

    class Step(BaseModel):
        explanation: str
        output: str

    class Answer(BaseModel):
        steps: list[Step]
        final_answer: str
        confidence: float | None

    client = server.openai()
    done = client.chat.completions.parse(
        model="quick", messages=[{"role": "user", "content": "2x = 4"}], response_format=Answer
    )
    parsed = done.choices[0].message.parsed
    assert isinstance(parsed, Answer)
    assert parsed.final_answer
    with client.chat.completions.stream(
        model="quick", messages=[{"role": "user", "content": "2x = 4"}], response_format=Answer
    ) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == parsed


def test_structured_output_is_cut_at_the_limit(server: Server) -> None:
    form = {"type": "json_object"}
    whole = server.post(CHAT, asked(response_format=form)).object
    text = whole["choices"][0]["message"]["content"]
    assert isinstance(json.loads(text), dict)
    cut = server.post(CHAT, asked(response_format=form, max_tokens=5)).object
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"]["completion_tokens"] == 5
    assert text.startswith(cut["choices"][0]["message"]["content"])


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "object", "properties": []}, "/properties"),
        ({"type": "object", "properties": {"a": {"type": "strng"}}}, "/properties/a/type"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/no"}}, "required": ["a"]}, "no"),
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, "no value"),
        ({"type": "string"}, "type"),
    ],
)
def test_a_schema_that_cannot_be_met_is_refused_by_name(
    server: Server, schema: dict[str, Any], words: str
) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    answer = server.post(
        CHAT,
        asked(tools=[NOTHING, tool], tool_choice={"type": "function", "function": {"name": "f"}}),
    )
    assert answer.status == 400
    assert answer.error["param"] == "tools[1].function.parameters"
    assert answer.error["code"] == "invalid_function_parameters"
    assert words in answer.error["message"]


@pytest.mark.parametrize("depth", [60, 300, 900, 1010])
def test_schemas_nested_beyond_reason_are_refused(server: Server, depth: int) -> None:
    body = asked(tools=[{"type": "function", "function": {"name": "f", "parameters": {"a": "?"}}}])
    # By hand: Python's own encoder gives up sooner than the parser does.
    deep = b'{"items":' * depth + b"{}" + b"}" * depth
    data = json.dumps(body).encode().replace(b'"?"', deep)
    assert server.post(CHAT, data).status in {200, 400}
    required = (
        b'{"type":"object","properties":{"a":' * (depth // 2)
        + b"{}"
        + b'},"required":["a"]}' * (depth // 2)
    )
    answer = server.post(CHAT, data.replace(b'{"a": ' + deep + b"}", required))
    assert answer.status == (200 if depth < 80 else 400)
    if answer.status == 400:
        assert len(answer.error["message"]) < 400
