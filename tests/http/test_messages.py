"""POST /v1/messages over a socket, by Anthropic's own client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from tests.live import PATIENCE_S, Server

MESSAGES = "/v1/messages"
HI: list[Any] = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=server.url, api_key="any", max_retries=0, timeout=PATIENCE_S
    ) as made:
        yield made


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "instant", "max_tokens": 20, "messages": HI, **fields}


def test_a_message_and_its_stream_are_the_same(client: anthropic.Anthropic) -> None:
    thinking: Any = {"type": "enabled", "budget_tokens": 1024}
    asked: dict[str, Any] = {
        "model": "instant",
        "max_tokens": 2000,
        "messages": HI,
        "thinking": thinking,
        "extra_headers": {
            "x-paceline-output-tokens": "60",
            "x-paceline-reasoning-tokens": "10",
        },
    }
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        texts = list(stream.text_stream)
        streamed = stream.get_final_message()
    assert [b.type for b in whole.content] == ["thinking", "text"]
    assert whole.stop_reason == streamed.stop_reason == "end_turn"
    assert whole.usage == streamed.usage
    assert whole.usage.output_tokens == 60
    assert whole.usage.input_tokens > 1
    text = whole.content[1]
    assert text.type == "text"
    assert "".join(texts) == text.text
    assert len(texts) == 50
    thought, again = whole.content[0], streamed.content[0]
    assert thought.type == again.type == "thinking"
    assert thought.thinking == again.thinking != ""


def test_stop_sequences(client: anthropic.Anthropic) -> None:
    made = client.messages.create(
        model="instant", max_tokens=500, messages=HI, stop_sequences=["zebra", ". "]
    )
    assert (made.stop_reason, made.stop_sequence) == ("stop_sequence", ". ")
    cut = client.messages.create(model="instant", max_tokens=5, messages=HI)
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 5)


@pytest.mark.parametrize("model", ["instant", "flat-2000"])
def test_nothing_is_said_where_nothing_may_be(client: anthropic.Anthropic, model: str) -> None:
    whole = client.messages.create(model=model, max_tokens=0, messages=HI)
    with client.messages.stream(model=model, max_tokens=0, messages=HI) as stream:
        streamed = stream.get_final_message()
    assert whole.content == streamed.content == []
    assert whole.stop_reason == streamed.stop_reason == "max_tokens"
    assert whole.usage.output_tokens == 0
    assert streamed.usage.input_tokens == whole.usage.input_tokens > 0


WEATHER: Any = {
    "name": "weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}


def test_a_tool_loop_comes_to_an_end(client: anthropic.Anthropic) -> None:
    messages = list(HI)
    turns = 0
    while True:
        with client.messages.stream(
            model="instant", max_tokens=2000, messages=messages, tools=[WEATHER]
        ) as stream:
            answer = stream.get_final_message()
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            break
        turns += 1
        assert turns < 5
        assert answer.stop_reason == "tool_use"
        for call in calls:
            assert call.id.startswith("toolu_")
            assert set(call.input) == {"city", "days"}
        results = [{"type": "tool_result", "tool_use_id": c.id, "content": "dry"} for c in calls]
        messages.append({"role": "user", "content": results})
    assert turns == 1
    assert answer.stop_reason == "end_turn"


def test_a_tool_that_must_be_called_is(client: anthropic.Anthropic) -> None:
    for choice in ({"type": "any"}, {"type": "tool", "name": "weather"}):
        asked: dict[str, Any] = {"tools": [WEATHER], "tool_choice": choice, "max_tokens": 500}
        whole = client.messages.create(model="instant", messages=HI, **asked)
        with client.messages.stream(model="instant", messages=HI, **asked) as stream:
            streamed = stream.get_final_message()
        assert whole.content == streamed.content
        assert whole.content[-1].type == "tool_use"
    none: Any = {"type": "none"}
    silent = client.messages.create(
        model="instant", messages=HI, tools=[WEATHER], tool_choice=none, max_tokens=500
    )
    assert [block.type for block in silent.content] == ["text"]


def test_a_schema_that_nothing_can_meet_is_refused_by_name(client: anthropic.Anthropic) -> None:
    tool: Any = {
        "name": "never",
        "input_schema": {
            "type": "object",
            "properties": {"x": {"type": "integer", "minimum": 5, "maximum": 4}},
            "required": ["x"],
        },
    }
    with pytest.raises(anthropic.BadRequestError, match=r"input_schema"):
        client.messages.create(
            model="instant", messages=HI, tools=[tool], tool_choice={"type": "any"}, max_tokens=99
        )


@pytest.mark.realtime
def test_the_stream_starts_with_its_first_token_and_keeps_its_rate(
    client: anthropic.Anthropic,
) -> None:
    headers = {"x-paceline-ttft-ms": "300", "x-paceline-output-tokens": "21"}
    begun = time.monotonic()
    at: list[float] = []
    kinds: list[str] = []
    with client.messages.create(
        model="flat-50", max_tokens=100, messages=HI, stream=True, extra_headers=headers
    ) as stream:
        for event in stream:
            at.append(time.monotonic() - begun)
            kinds.append(event.type)
    assert kinds[0] == "message_start"
    assert at[0] >= 0.3
    deltas = [when for when, kind in zip(at, kinds, strict=True) if kind == "content_block_delta"]
    assert len(deltas) == 21
    assert 0.39 <= deltas[-1] - deltas[0] < 0.6


def test_speed_fast_serves_from_the_fast_profile_where_there_is_one(server: Server) -> None:
    short = {"x-paceline-output-tokens": "1", "x-paceline-ttft-ms": "0"}
    for model, profile, speed in (
        ("claude-opus-4-8", "claude-opus-4-8-fast", "fast"),
        ("claude-fable-5", "claude-fable-5", "standard"),
    ):
        answer = server.post(MESSAGES, body(model=model, speed="fast"), short)
        assert answer.header("x-paceline-profile") == profile
        assert answer.object["usage"]["speed"] == speed
    answer = server.post(MESSAGES, body(model="claude-opus-4-8"), short)
    assert answer.header("x-paceline-profile") == "claude-opus-4-8"


def test_prompts_are_cached_where_they_are_marked(server: Server) -> None:
    quick = {"x-paceline-output-tokens": "1", "x-paceline-ttft-ms": "0"}
    text = {"type": "text", "text": "a marked prompt. " * 1000}
    marked = {**text, "cache_control": {"type": "ephemeral"}}

    def usage(part: dict[str, Any]) -> tuple[int, int, int]:
        asked = body(model="claude-opus-4-8", messages=[{"role": "user", "content": [part]}])
        found = server.post(MESSAGES, asked, quick).object["usage"]
        keys = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        fresh, written, read = (found[key] for key in keys)
        return fresh, written, read

    total = sum(usage(text))
    assert usage(text) == (total, 0, 0)
    fresh, written, read = usage(marked)
    assert (fresh + written, read) == (total, 0)
    assert written > 1024
    assert usage(marked) == (fresh, 0, written)


def test_tokens_are_counted_as_they_are_billed(client: anthropic.Anthropic) -> None:
    system = "You are a lighthouse."
    counted = client.messages.count_tokens(model="instant", system=system, messages=HI)
    made = client.messages.create(model="instant", max_tokens=1, system=system, messages=HI)
    assert counted.input_tokens == made.usage.input_tokens


def test_errors_leave_in_anthropics_envelope(server: Server, client: anthropic.Anthropic) -> None:
    for method, path, asked, status, kind in (
        ("POST", MESSAGES, body(model="nope"), 404, "not_found_error"),
        ("POST", MESSAGES, body(max_tokens=None), 400, "invalid_request_error"),
        ("POST", MESSAGES, b"{", 400, "invalid_request_error"),
        ("GET", MESSAGES, None, 405, "invalid_request_error"),
        ("GET", MESSAGES + "/msg_1", None, 404, "not_found_error"),
        ("POST", MESSAGES + "/count_tokens", body(model="nope"), 404, "not_found_error"),
        ("POST", MESSAGES + "/count_tokens", {}, 400, "invalid_request_error"),
    ):
        answer = server.ask(method, path, asked, {"x-request-id": "req_mine"})
        assert answer.status == status
        assert answer.header("request-id") == "req_mine"
        assert answer.object["type"] == "error"
        assert answer.object["error"]["type"] == kind
        assert answer.object["request_id"] == "req_mine"
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long") as caught:
        client.messages.create(
            model="narrow", max_tokens=10, system="too long " * 99_999, messages=HI
        )
    assert caught.value.request_id is not None
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("nope")


def test_models_in_anthropics_shape(client: anthropic.Anthropic) -> None:
    page = client.models.list()
    found = {model.id: model for model in page}
    assert found["claude-opus-4-8"].max_input_tokens == 1_000_000
    assert client.models.retrieve("claude-opus-4-8") == found["claude-opus-4-8"]


def test_too_large_a_body() -> None:
    with Server("--max-body-bytes", "2048") as small:
        answer = small.post(MESSAGES, body(system="x" * 4096))
        assert answer.status == 413
        assert answer.object["error"]["type"] == "request_too_large"


def test_a_stream_that_the_server_breaks_off_ends_in_an_error_event() -> None:
    with Server("--grace-s", "0") as short:
        client = anthropic.Anthropic(base_url=short.url, api_key="any", max_retries=0)
        stream = client.messages.create(model="flat-20", max_tokens=1000, messages=HI, stream=True)
        assert next(iter(stream)).type == "message_start"
        short.process.terminate()
        with pytest.raises(anthropic.APIStatusError, match="overloaded_error"):
            for _ in stream:
                pass
        client.close()
