"""Tools and structured output through the Responses API: an agent's loop, and that it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import validate
from pydantic import BaseModel

from tests.live import Server
from tests.wire.responses.grammar import checked, sse_events, walk

PATH = "/v1/responses"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather somewhere",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
    "strict": True,
}
PATCH = {"type": "custom", "name": "apply_it", "description": "Takes any text"}


def resp(**fields: Any) -> dict[str, Any]:
    return {"model": "quick", "input": "hi", **fields}


@pytest.mark.parametrize("model", ["quick", "thinker", "instant"])
@pytest.mark.parametrize("tool", [WEATHER, PATCH])
def test_a_call_streams_as_its_kind_does(server: Server, model: str, tool: dict[str, Any]) -> None:
    asked = resp(model=model, tools=[tool], tool_choice="required", paceline={"seed": 1})
    final = walk(sse_events(server.post(PATH, {**asked, "stream": True}).body))
    calls = [item for item in final["output"] if item["type"].endswith("_call")]
    assert calls
    assert final["status"] == "completed"
    for call in calls:
        assert call["name"] == tool["name"]
        assert call["call_id"]
        assert call["status"] == "completed"
        if tool is WEATHER:
            assert call["type"] == "function_call"
            # The table is typed as plain objects.
            validate(json.loads(call["arguments"]), WEATHER["parameters"])  # type: ignore[arg-type]
        else:
            assert call["type"] == "custom_tool_call"
    whole = checked(server.post(PATH, asked).object)
    for item in (*final["output"], *whole["output"]):
        del item["id"]
    assert whole["output"] == final["output"]
    assert whole["tools"][0]["name"] == tool["name"]


@pytest.mark.parametrize("chained", [True, False])
def test_a_loop_ends_in_text(server: Server, chained: bool) -> None:
    history: list[Any] = [{"role": "user", "content": "How is it outside?"}]
    previous = None
    kinds = []
    for _ in range(4):
        asked = resp(tools=[WEATHER], input=history)
        if chained:
            asked["previous_response_id"] = previous
        made = server.post(PATH, asked).object
        kinds.append([item["type"] for item in made["output"]])
        calls = [item for item in made["output"] if item["type"] == "function_call"]
        if not calls:
            break
        results = [
            {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
            for call in calls
        ]
        history = results if chained else [*history, *made["output"], *results]
        previous = made["id"]
    assert kinds == [["function_call"], ["message"]]


def test_no_call_to_the_api_s_own_tools_unless_a_script_says_so(server: Server) -> None:
    tools = [{"type": "web_search"}, {"type": "local_shell"}, {"type": "apply_patch"}]
    made = checked(server.post(PATH, resp(tools=tools)).object)
    assert [item["type"] for item in made["output"]] == ["message"]


def test_structured_output(server: Server) -> None:
    class City(BaseModel):
        name: str
        people: int

    client = server.openai()
    parsed = client.responses.parse(model="quick", input="hi", text_format=City)
    assert isinstance(parsed.output_parsed, City)
    form = {"format": {"type": "json_object"}}
    made = server.post(PATH, resp(text=form)).object
    assert isinstance(json.loads(made["output"][0]["content"][0]["text"]), dict)


def test_structured_output_that_is_cut_says_so(server: Server) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": 400}},
              "required": ["a"]}  # fmt: skip
    form = {"format": {"type": "json_schema", "name": "long", "schema": schema}}
    made = checked(server.post(PATH, resp(text=form, max_output_tokens=5)).object)
    assert made["status"] == "incomplete"
    assert made["usage"]["output_tokens"] == 5


def test_a_schema_that_nothing_satisfies_is_refused_by_its_path(server: Server) -> None:
    tool = {**WEATHER, "parameters": {"type": "object", "properties": 3}}
    answer = server.post(PATH, resp(tools=[tool], tool_choice="required"))
    assert answer.status == 400
    assert "parameters" in (answer.error["param"] or "")


def test_the_tools_are_part_of_the_prompt_and_of_its_cache(server: Server) -> None:
    without = server.post(PATH, resp()).object["usage"]["input_tokens"]
    with_ = server.post(PATH, resp(tools=[WEATHER])).object["usage"]["input_tokens"]
    assert with_ > without + 40
