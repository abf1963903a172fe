"""What events mean, dialect by dialect: which time each sets, and how a stream ends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from paceline_loadtest.caller import Reply
from paceline_loadtest.lean.marks import Marks, marks_of
from paceline_loadtest.model import DIALECTS, Call, Dialect


def read(dialect: Dialect, *events: dict[str, Any] | str) -> tuple[Call, Reply]:
    """A call that got the events at 1, 2, 3 … seconds."""
    call = Call(0.0)
    marks = marks_of(dialect, call)
    for at, event in enumerate(events, 1):
        marks.event((event if isinstance(event, str) else json.dumps(event)).encode(), float(at))
    return call, marks.finish()


def delta(finish: str | None = None, **content: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": content, "finish_reason": finish}]}


USAGE = {
    "choices": [],
    "service_tier": "priority",
    "usage": {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    },
}


class TestChat:
    def test_every_time(self) -> None:
        call, reply = read(
            "chat",
            delta(role="assistant", content=""),
            delta(reasoning_content="hm"),
            delta(content="One"),
            delta(content=" two"),
            delta("stop"),
            USAGE,
            "[DONE]",
        )
        assert (call.first_at, call.first_visible_at, call.last_at) == (2.0, 3.0, 4.0)
        assert call.chunk_at.tolist() == [2.0, 3.0, 4.0]
        assert (call.prompt_tokens, call.cached_tokens) == (11, 4)
        assert (call.output_tokens, call.reasoning_tokens) == (7, 3)
        assert call.service_tier == "priority"
        assert call.error is None
        assert (reply.text, reply.finish_reason) == ("One two", "stop")

    @pytest.mark.parametrize("channel", ["reasoning", "reasoning_content", "refusal", "content"])
    def test_the_first_token_may_come_in_any_channel(self, channel: str) -> None:
        call, _ = read("chat", delta(role="assistant"), delta(**{channel: "x"}), delta("stop"))
        assert call.first_at == 2.0

    def test_a_tool_s_call_is_content_and_is_put_together(self) -> None:
        call, reply = read(
            "chat",
            delta(
                tool_calls=[{"index": 0, "id": "c1", "function": {"name": "f", "arguments": ""}}]
            ),
            delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a"'}}]),
            delta(tool_calls=[{"index": 1, "id": "c2", "custom": {"name": "g", "input": "x"}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": ":1}"}}]),
            delta("tool_calls"),
        )
        assert [(c.id, c.name, c.arguments) for c in reply.tool_calls] == [
            ("c1", "f", '{"a":1}'),
            ("c2", "g", "x"),
        ]
        assert (call.first_visible_at, call.last_at) == (1.0, 4.0)

    def test_an_error_in_the_stream_is_one_whatever_follows(self) -> None:
        call, _ = read(
            "chat",
            delta(content="One"),
            {"error": {"message": "It broke.", "code": "server_error"}},
            "[DONE]",
        )
        assert call.error == "It broke. (server_error)"

    def test_a_stream_that_ends_without_a_word_has_failed(self) -> None:
        call, _ = read("chat", delta(content="One"))
        assert call.error == "the stream ended before its answer did"

    def test_done_without_a_finish_reason_is_no_end(self) -> None:
        call, _ = read("chat", delta(content="One"), "[DONE]")
        assert call.error == "the stream ended without a finish reason"

    def test_a_finish_reason_is_an_end_without_done(self) -> None:
        call, _ = read("chat", delta(content="One"), delta("length"))
        assert call.error is None

    def test_usage_in_every_chunk_is_as_good(self) -> None:
        chunk = {**delta("stop", content="x"), "usage": {"completion_tokens": 2}}
        call, _ = read("chat", chunk)
        assert (call.output_tokens, call.prompt_tokens) == (2, None)

    def test_in_one_piece(self) -> None:
        call = Call(0.0)
        marks = marks_of("chat", call)
        function = {"name": "f", "arguments": "{}"}
        message = {"content": "Hi", "tool_calls": [{"id": "c", "function": function}]}
        body = {**USAGE, "choices": [{"message": message, "finish_reason": "stop"}]}
        marks.whole(json.dumps(body).encode(), 9.0)
        assert marks.finish().text == "Hi"
        assert (call.first_at, call.last_at, call.output_tokens) == (9.0, 9.0, 7)


COMPLETED: dict[str, Any] = {
    "type": "response.completed",
    "response": {
        "id": "resp_1",
        "status": "completed",
        "service_tier": "default",
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "One"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        ],
        "usage": {
            "input_tokens": 5,
            "output_tokens": 3,
            "input_tokens_details": {"cached_tokens": 2},
            "output_tokens_details": {"reasoning_tokens": 1},
        },
    },
}


class TestResponses:
    def test_every_time(self) -> None:
        call, reply = read(
            "responses",
            {"type": "response.created", "response": {}},
            {"type": "response.reasoning_summary_text.delta", "delta": "hm"},
            {"type": "response.output_text.delta", "delta": "One"},
            {"type": "response.function_call_arguments.delta", "delta": "{}"},
            {"type": "response.output_text.done", "text": "One"},
            COMPLETED,
        )
        assert (call.first_at, call.first_visible_at, call.last_at) == (2.0, 3.0, 4.0)
        assert (call.prompt_tokens, call.output_tokens, call.cached_tokens) == (5, 3, 2)
        assert (reply.response_id, len(reply.items), reply.tool_calls[0].id) == ("resp_1", 2, "c")
        assert reply.text == "One"

    @pytest.mark.parametrize(
        ("event", "error"),
        [
            (
                {"type": "error", "code": "slow_down", "message": "Too fast."},
                "Too fast. (slow_down)",
            ),
            ({"type": "error", "error": {"message": "Bad.", "code": None}}, "Bad."),
            (
                {
                    "type": "response.failed",
                    "response": {"error": {"message": "Broke.", "code": "server_error"}},
                },
                "Broke. (server_error)",
            ),
            (
                {
                    "type": "response.incomplete",
                    "response": {"incomplete_details": {"reason": "content_filter"}},
                },
                "the response is incomplete: content_filter",
            ),
        ],
    )
    def test_ends_that_are_failures(self, event: dict[str, Any], error: str) -> None:
        call, _ = read("responses", {"type": "response.output_text.delta", "delta": "x"}, event)
        assert call.error == error

    def test_an_answer_that_was_cut_to_length_is_an_answer(self) -> None:
        details = {"incomplete_details": {"reason": "max_output_tokens"}, "status": "incomplete"}
        call, reply = read("responses", {"type": "response.incomplete", "response": details})
        assert call.error is None
        assert reply.finish_reason == "incomplete"

    def test_in_one_piece(self) -> None:
        call = Call(0.0)
        marks = marks_of("responses", call)
        marks.whole(json.dumps(COMPLETED["response"]).encode(), 4.0)
        assert marks.finish().text == "One"
        assert (call.first_at, call.first_visible_at, call.error) == (4.0, 4.0, None)


class TestMessages:
    EVENTS: Iterable[dict[str, Any]] = (
        {
            "type": "message_start",
            "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 20}},
        },
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "s"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "One"}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "f"},
        },
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": "{}"},
        },
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
        },
        {"type": "message_stop"},
    )

    def test_every_time(self) -> None:
        call, reply = read("messages", *self.EVENTS)
        assert (call.first_at, call.first_visible_at, call.last_at) == (4.0, 6.0, 8.0)
        assert (call.prompt_tokens, call.cached_tokens) == (23, 20)
        assert (call.output_tokens, call.reasoning_tokens) == (9, 4)
        assert (reply.text, reply.finish_reason) == ("One", "tool_use")
        assert [(c.id, c.name, c.arguments) for c in reply.tool_calls] == [("t", "f", "{}")]

    def test_an_error_is_no_success(self) -> None:
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}
        call, _ = read("messages", *list(self.EVENTS)[:6], error, {"type": "message_stop"})
        assert call.error == "Busy. (overloaded_error)"

    def test_a_fast_answer_is_a_tier_of_its_own(self) -> None:
        start = {"type": "message_start", "message": {"usage": {"speed": "fast"}}}
        call, _ = read("messages", start, {"type": "message_stop"})
        assert call.service_tier == "fast"

    def test_in_one_piece(self) -> None:
        call = Call(0.0)
        marks = marks_of("messages", call)
        blocks = [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "t", "name": "f"}]
        blocks[1]["input"] = {}  # type: ignore[assignment]  # the other block's are all strings
        marks.whole(json.dumps({"content": blocks, "usage": {"output_tokens": 2}}).encode(), 3.0)
        reply = marks.finish()
        assert (reply.text, reply.tool_calls[0].arguments) == ("Hi", "{}")
        assert (call.last_at, call.output_tokens) == (3.0, 2)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("data", [b"{", b"[1]", b"7", b"\xff", b"null", b'"x"'])
def test_what_is_no_event_is_an_error(dialect: Dialect, data: bytes) -> None:
    call = Call(0.0)
    marks = marks_of(dialect, call)
    marks.event(data, 1.0)
    marks.finish()
    assert call.error is not None
    assert call.error.startswith("an event is not")


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("chat", {"choices": 7}),
        ("chat", {"choices": [{"delta": {"tool_calls": [{}]}}]}),
        ("responses", {}),
        ("responses", {"type": "response.completed"}),
        ("messages", {"type": "content_block_delta"}),
        ("messages", {"type": "message_start", "message": None}),
    ],
)
def test_an_event_of_another_shape_is_an_error(dialect: Dialect, event: dict[str, Any]) -> None:
    call, _ = read(dialect, event)
    assert call.error is not None
    assert call.error.startswith("an event is not as its API has it")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_that_is_none_is_an_error(dialect: Dialect) -> None:
    for body in (b"", b"[]", b"{}", b"null"):
        call = Call(0.0)
        marks: Marks = marks_of(dialect, call)
        marks.whole(body, 1.0)
        marks.finish()
        assert call.error is not None
