"""Every stream follows the grammar, however it is flushed, and says what the whole object says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.plan import CallPlan, ChoicePlan, Plan, PromptPlan
from paceline.core.tools import Tool, ToolKind
from paceline.core.usage import Usage
from paceline.wire.head import Head
from paceline.wire.responses.encode import ResponseFrames, ResponseStream, whole_response
from paceline.wire.responses.items import Item, sealed_tokens
from paceline.wire.responses.request import ResponseContext, parse_response
from tests.wire.fakes import PROFILE, FakePieces, logprobs
from tests.wire.responses.grammar import checked, frame_events, sse_events, walk

HEAD = Head(id="resp_0011223344556677", created=1_780_000_000, model="flat-40")


class Nothing:
    """A memory in which nothing is."""

    def response(self, response_id: str) -> Sequence[Item]:
        raise AssertionError(response_id)

    def conversation(self, conversation_id: str) -> Sequence[Item]:
        raise AssertionError(conversation_id)

    def item(self, item_id: str) -> Item | None:
        return None


def plan_of(choice: ChoicePlan, **body: Any) -> Plan:
    asked = {"model": "flat-40", "input": "hi", "stream": True, **body}
    return Plan(parse_response(asked, {}, Nothing()), PROFILE, [PromptPlan(8)], [choice])


def choice_of(
    texts: Sequence[str] = (),
    *,
    reasoning: int = 0,
    calls: Sequence[CallPlan] = (),
    finish: Any = None,
) -> ChoicePlan:
    return ChoicePlan(
        0,
        0,
        FakePieces(texts),
        finish or ("tool_calls" if calls else "stop"),
        reasoning,
        FakePieces([f"t{i} " for i in range(reasoning)]) if reasoning else None,
        calls=list(calls),
    )


def call_of(
    texts: Sequence[str], kind: ToolKind = "function", *, head: int = 2, type_: str = ""
) -> CallPlan:
    tool = Tool("look", kind, type=type_ or kind, namespace="ns" if kind == "function" else "")
    return CallPlan("call_1", tool, FakePieces(texts), head)


def usage_of(plan: Plan) -> Usage:
    return Usage(8, plan.completion_tokens, 0, 0, plan.reasoning_tokens)


def stream_of(plan: Plan, cuts: Sequence[int] = (), per: int = 1, *, frames: bool = False) -> bytes:
    """A whole stream, flushed at some tokens."""
    make = ResponseFrames if frames else ResponseStream
    stream = make(plan, HEAD, tokens_per_chunk=per, logprobs=logprobs)
    (encoder,) = stream.choices
    (choice,) = plan.choices
    data = stream.start()
    total = choice.output_tokens
    for start, stop in pairwise(sorted({0, total, *(cut % (total + 1) for cut in cuts)})):
        data += encoder.tokens(start, stop)
    return data + encoder.close() + stream.end(usage_of(plan))


TEXTS = st.lists(st.sampled_from(["", "a", " word", '"', "\n", "é", "\u2028", "🙂"]), max_size=9)
CALLS = st.lists(
    st.builds(call_of, TEXTS, st.sampled_from(["function", "custom"]), head=st.integers(1, 3)),
    max_size=3,
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "reasoning": st.fixed_dictionaries(
            {}, optional={"summary": st.sampled_from(["auto", "concise", "detailed"])}
        ),
        "include": st.lists(
            st.sampled_from(["reasoning.encrypted_content", "message.output_text.logprobs"])
        ),
        "stream_options": st.fixed_dictionaries({"include_obfuscation": st.booleans()}),
        "background": st.booleans(),
        "instructions": st.text(max_size=5),
        "metadata": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
        "text": st.just({"format": {"type": "json_object"}, "verbosity": "low"}),
        "temperature": st.floats(0, 2),
        "top_logprobs": st.integers(0, 3),
        "tools": st.just(
            [
                {"type": "function", "name": "look", "parameters": {"type": "object"}},
                {"type": "custom", "name": "do"},
                {"type": "web_search"},
            ]
        ),
        "stream_id": st.sampled_from(["a", 'b"']),
    },
)


@given(
    texts=TEXTS,
    reasoning=st.integers(0, 6),
    calls=CALLS,
    finish=st.sampled_from([None, "length", "content_filter"]),
    body=BODIES,
    cuts=st.lists(st.integers(0, 60), max_size=6),
    per=st.integers(1, 4),
)
def test_every_stream_follows_the_grammar(
    *,
    texts: list[str],
    reasoning: int,
    calls: list[CallPlan],
    finish: Any,
    body: dict[str, Any],
    cuts: list[int],
    per: int,
) -> None:
    plan = plan_of(choice_of(texts, reasoning=reasoning, calls=calls, finish=finish), **body)
    data = stream_of(plan, cuts, per)
    events = sse_events(data)
    final = walk(events)
    # However it is flushed the bytes are the same: that is what lets a stream be written again.
    assert data == stream_of(plan, (), per)
    whole = json.loads(whole_response(plan, HEAD, usage_of(plan), logprobs=logprobs))
    assert checked(whole) == final
    framed = frame_events(stream_of(plan, cuts, per, frames=True))
    for event in framed:
        assert event.pop("stream_id", None) == body.get("stream_id")
    assert framed == events
    obfuscated = body.get("stream_options", {}).get("include_obfuscation", True)
    for event in events:
        assert ("obfuscation" in event) == (obfuscated and event["type"].endswith("delta"))


@pytest.mark.parametrize(
    ("type_", "arguments", "kind", "key", "value"),
    [
        ("local_shell", '{"command":["echo","hi"]}', "local_shell_call", "action",
         {"type": "exec", "command": ["echo", "hi"], "env": {}}),
        ("shell", '{"commands":["echo hi"]}', "shell_call", "action", {"commands": ["echo hi"]}),
        ("apply_patch", '{"type":"delete_file","path":"x"}', "apply_patch_call", "operation",
         {"type": "delete_file", "path": "x"}),
        ("web_search", '{"query":"sea"}', "web_search_call", "action",
         {"type": "search", "query": "sea", "queries": []}),
        ("file_search", '{"queries":["sea"]}', "file_search_call", "queries", ["sea"]),
        ("computer_use_preview", '{"type":"screenshot"}', "computer_call", "action",
         {"type": "screenshot"}),
        ("code_interpreter", '{"code":"1"}', "code_interpreter_call", "code", "1"),
        ("tool_search", '{"query":"x"}', "tool_search_call", "arguments", {"query": "x"}),
        ("mcp", '{"name":"f","x":1}', "mcp_call", "name", "f"),
    ],
)  # fmt: skip
def test_a_script_s_call_to_a_built_in_tool(
    type_: str, arguments: str, kind: str, key: str, value: Any
) -> None:
    plan = plan_of(choice_of(calls=[call_of([arguments], "builtin", type_=type_)]))
    final = walk(sse_events(stream_of(plan)))
    (item,) = final["output"]
    assert item["type"] == kind
    assert item[key] == value


def test_silent_thinking_is_an_item_without_a_summary() -> None:
    final = walk(sse_events(stream_of(plan_of(choice_of(["a"], reasoning=5)))))
    assert [item["type"] for item in final["output"]] == ["reasoning", "message"]
    assert final["output"][0]["summary"] == []
    assert "encrypted_content" not in final["output"][0]
    assert final["usage"]["output_tokens_details"]["reasoning_tokens"] == 5


def test_sealed_thinking_comes_back_as_what_it_took() -> None:
    body = {"include": ["reasoning.encrypted_content"]}
    final = walk(sse_events(stream_of(plan_of(choice_of(["a"], reasoning=5), **body))))
    reasoning = final["output"][0]
    assert sealed_tokens(reasoning["encrypted_content"]) == 5
    again = parse_response({"model": "m", "input": final["output"]}, {}, Nothing())
    (prompt,) = again.prompts
    assert [(m.role, m.text, m.fixed_tokens) for m in prompt.messages] == [  # type: ignore[union-attr]
        ("assistant", "", 5),
        ("assistant", "a", 0),
    ]


def test_thinking_that_is_cut_short_has_no_message() -> None:
    final = walk(sse_events(stream_of(plan_of(choice_of(reasoning=5, finish="length")))))
    assert final["status"] == "incomplete"
    assert final["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [item["type"] for item in final["output"]] == ["reasoning"]


def test_only_the_last_item_of_a_cut_answer_is_incomplete() -> None:
    calls = [call_of(["{}"]), call_of(['{"a'])]
    plan = plan_of(choice_of(["a"], calls=calls, finish="length"))
    final = walk(sse_events(stream_of(plan)))
    assert [item["status"] for item in final["output"]] == ["completed", "completed", "incomplete"]


def test_nothing_said_is_an_empty_message_and_nothing_asked_is_none() -> None:
    final = walk(sse_events(stream_of(plan_of(choice_of()))))
    assert [item["content"][0]["text"] for item in final["output"]] == [""]
    plan = plan_of(choice_of(), generate=False)
    events = sse_events(stream_of(plan))
    assert [event["type"] for event in events] == ["response.created", "response.completed"]
    assert walk(events)["output"] == []


def test_a_trigger_is_answered_with_exactly_one_compaction() -> None:
    given = [{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}]
    tools = [{"type": "function", "name": "look", "parameters": None}]
    plan = plan_of(choice_of(["a", "b", "c"]), input=given, tools=tools)
    assert plan.request.tools == ()
    assert plan.request.overrides.reasoning_tokens == 0
    final = walk(sse_events(stream_of(plan)))
    (item,) = final["output"]
    assert item["type"] == "compaction"
    assert sealed_tokens(item["encrypted_content"]) == 3


def test_what_leaves_at_once_and_what_waits() -> None:
    plan = plan_of(choice_of(["a"]))
    stream = ResponseStream(plan, HEAD)
    opening = sse_events(stream.start())
    assert [event["type"] for event in opening] == ["response.created", "response.in_progress"]
    plan = plan_of(choice_of(["a"]), background=True)
    stream = ResponseStream(plan, HEAD)
    opening = sse_events(stream.start())
    assert [event["type"] for event in opening] == ["response.created", "response.queued"]
    first = sse_events(stream.choices[0].tokens(0, 1))
    assert first[0]["type"] == "response.in_progress"


@pytest.mark.parametrize(
    ("code", "shown"),
    [("server_shutting_down", "server_error"), ("rate_limit_exceeded", "rate_limit_exceeded")],
)
def test_a_failure_ends_a_stream_with_an_event_of_its_own(code: str, shown: str) -> None:
    plan = plan_of(choice_of(["a", "b"]))
    stream = ResponseStream(plan, HEAD)
    data = stream.start() + stream.choices[0].tokens(0, 1) + stream.fail(503, "Broken.", code)
    events = sse_events(data)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"] == {"code": shown, "message": "Broken."}
    checked(events[-1]["response"])


def test_an_end_is_told_to_whoever_keeps_responses() -> None:
    told: list[tuple[str, Any, int]] = []
    plan = plan_of(choice_of(["a"]))
    context = plan.request.context
    assert isinstance(context, ResponseContext)
    context.ended = lambda status, final, output, usage: told.append(
        (status, json.loads(final)["status"], len(output))
    )
    stream_of(plan)
    whole_response(plan, HEAD, usage_of(plan))
    stream = ResponseStream(plan, HEAD)
    stream.fail(500, "x", "y")
    stream.cancelled()
    assert told == [
        ("completed", "completed", 1),
        ("completed", "completed", 1),
        ("failed", "failed", 0),
        ("cancelled", "cancelled", 0),
    ]


def test_numbers_go_on_past_the_table() -> None:
    texts = ["x"] * 40_000
    events = sse_events(stream_of(plan_of(choice_of(texts)), cuts=[20_000, 32_770]))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_compaction_is_one_item_whatever_a_script_planned() -> None:
    given = [{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}]
    plan = plan_of(choice_of(["a"], calls=[call_of(["{}"])], reasoning=2), input=given)
    final = walk(sse_events(stream_of(plan)))
    assert [item["type"] for item in final["output"]] == ["compaction"]


def test_a_prewarm_is_complete_however_short_it_was_cut() -> None:
    plan = plan_of(choice_of(finish="length"), generate=False)
    assert walk(sse_events(stream_of(plan)))["status"] == "completed"
