from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from paceline.core.plan import FinishReason, Plan
from paceline.core.usage import Usage
from paceline.wire.chat_encode import ChatStream, whole_chat
from paceline.wire.head import Head
from tests.wire.fakes import HEAD, choice, events, logprobs, plan, stream_bytes, usage_of

TEXTS = ["Once", " upon", " a", ' "time"', "\n", " é", " 日本", " 🙂"]


def chunks(made: Plan, **options: Any) -> list[ChatCompletionChunk]:
    body = stream_bytes(ChatStream(made, HEAD, **options), made)
    return [
        ChatCompletionChunk.model_validate_json(json.dumps(e), strict=True) for e in events(body)
    ]


def whole(made: Plan, **options: Any) -> ChatCompletion:
    body = whole_chat(made, HEAD, usage_of(made), **options)
    return ChatCompletion.model_validate_json(body, strict=True)


def joined(found: list[ChatCompletionChunk], index: int = 0, field: str = "content") -> str:
    return "".join(
        getattr(c.delta, field, None) or "" for e in found for c in e.choices if c.index == index
    )


def test_the_first_flush_holds_the_role_chunk_and_the_first_token() -> None:
    made = plan(choice(["Hello", " you"]), stream=True)
    stream = ChatStream(made, HEAD)
    assert stream.start() == b""
    first = events(stream.choices[0].tokens(0, 1) + b"data: [DONE]\n\n")
    assert [e["choices"][0]["delta"] for e in first] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "Hello"},
    ]
    second = events(stream.choices[0].tokens(1, 2) + b"data: [DONE]\n\n")
    assert [e["choices"][0]["delta"] for e in second] == [{"content": " you"}]


def test_a_chunk_has_openais_shape_and_nothing_else() -> None:
    made = plan(choice(["Hello"], finish="length"), stream=True)
    role, token, finish = events(stream_bytes(ChatStream(made, HEAD), made))
    common = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_780_000_000,
        "model": "flat-40",
        "service_tier": "default",
        "system_fingerprint": "fp_paceline",
    }
    for event in (role, token, finish):
        assert {k: v for k, v in event.items() if k != "choices"} == common
    assert token["choices"] == [
        {"index": 0, "delta": {"content": "Hello"}, "logprobs": None, "finish_reason": None}
    ]
    assert finish["choices"] == [
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}
    ]


def test_usage_comes_once_after_all_choices_and_is_null_before() -> None:
    made = plan(choice(["a", "b"]), choice(["c"], index=1), stream=True, n=2, include_usage=True)
    found = events(stream_bytes(ChatStream(made, HEAD), made))
    *others, last = found
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 8,
        "completion_tokens": 3,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
    assert all(event["usage"] is None and event["choices"] for event in others)
    finishes = [c["index"] for e in others for c in e["choices"] if c["finish_reason"]]
    assert finishes == [0, 1]


def test_without_include_usage_no_chunk_names_usage() -> None:
    made = plan(choice(["a"]), stream=True)
    assert all("usage" not in e for e in events(stream_bytes(ChatStream(made, HEAD), made)))


def test_continuous_usage_runs_up_to_the_final_one() -> None:
    made = plan(
        choice(["a", "b"], reasoning=["x", "y", "z"]),
        choice(["c", "", "d"], index=1),
        stream=True,
        include_usage=True,
        continuous_usage=True,
    )
    found = events(stream_bytes(ChatStream(made, HEAD), made))
    totals = [e["usage"]["completion_tokens"] for e in found]
    assert totals == [0, 4, 5, 5, 5, 6, 8, 8, 8]
    assert all(e["usage"]["prompt_tokens"] == 8 for e in found)
    assert all(e["usage"]["total_tokens"] == 8 + n for e, n in zip(found, totals, strict=True))


def test_hidden_reasoning_shows_nothing_and_opens_nothing() -> None:
    made = plan(choice(["a"], reasoning=["x", "y"]), stream=True)
    encoder = ChatStream(made, HEAD).choices[0]
    assert encoder.tokens(0, 1) == b""
    assert encoder.tokens(1, 2) == b""
    assert b'"role"' in encoder.tokens(2, 3)


def test_shown_reasoning_comes_first_in_its_own_field() -> None:
    made = plan(choice(["a", "b"], reasoning=["x", "y"]), stream=True)
    found = chunks(made, show_reasoning=True)
    deltas = [e.choices[0].delta.model_dump(exclude_unset=True) for e in found]
    assert deltas == [
        {"role": "assistant", "content": "", "refusal": None},
        {"reasoning_content": "x"},
        {"reasoning_content": "y"},
        {"content": "a"},
        {"content": "b"},
        {},
    ]
    message = whole(made, show_reasoning=True).choices[0].message
    assert message.model_dump()["reasoning_content"] == "xy"
    assert "reasoning_content" not in whole(made).choices[0].message.model_dump()


def test_a_run_may_end_reasoning_and_begin_the_answer() -> None:
    made = plan(choice(["a", "b"], reasoning=["x", "y"]), stream=True)
    encoder = ChatStream(made, HEAD, show_reasoning=True).choices[0]
    run = events(encoder.tokens(0, 4) + b"data: [DONE]\n\n")
    assert [next(iter(e["choices"][0]["delta"].values())) for e in run[1:]] == ["x", "y", "a", "b"]


def test_reasoning_in_several_runs_is_said_once() -> None:
    made = plan(choice(["a"], reasoning=["x", "y", "z"]), stream=True)
    stream = ChatStream(made, HEAD, show_reasoning=True)
    deltas = [e["choices"][0]["delta"] for e in events(stream_bytes(stream, made, [[1, 2]]))]
    assert [d["reasoning_content"] for d in deltas if "reasoning_content" in d] == ["x", "y", "z"]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_k_tokens_share_an_event_and_leave_with_the_last_of_them(size: int) -> None:
    texts = [str(i) for i in range(10)]
    made = plan(choice(texts), stream=True)
    encoder = ChatStream(made, HEAD, tokens_per_chunk=size).choices[0]
    out = []
    for i in range(10):
        run = encoder.tokens(i, i + 1)
        complete = (i + 1) % size == 0 or i == 9
        assert bool(run) == complete
        out += [e["choices"][0]["delta"]["content"] for e in events(run + b"data: [DONE]\n\n")]
    groups = ["".join(texts[i : i + size]) for i in range(0, 10, size)]
    assert out == ["", *groups]


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("size", [1, 4])
def test_an_empty_run_says_nothing(size: int, running: bool) -> None:
    made = plan(choice(list("abcde")), stream=True, continuous_usage=running)
    encoder = ChatStream(made, HEAD, tokens_per_chunk=size).choices[0]
    assert encoder.tokens(0, 0) == b""
    assert encoder.tokens(0, 5) != b""
    assert encoder.tokens(5, 5) == b""


def test_silent_tokens_make_no_event() -> None:
    made = plan(choice(["", "a", "", "", "b", ""]), stream=True)
    contents = [e.choices[0].delta.content for e in chunks(made)]
    assert contents == ["", "a", "b", None]


def test_an_answer_without_text_still_opens_and_ends() -> None:
    for texts in ([], ["", ""]):
        made = plan(choice(texts, finish="length"), stream=True)
        found = chunks(made)
        assert [e.choices[0].delta.role for e in found] == ["assistant", None]
        assert found[-1].choices[0].finish_reason == "length"


def test_logprobs_have_one_entry_a_token_silent_ones_included() -> None:
    made = plan(choice(["a", "", "b", ""], finish="length"), stream=True, top_logprobs=1)
    found = chunks(made, logprobs=logprobs)
    entries = []
    for event in found:
        lp = event.choices[0].logprobs
        entries.append([t.token for t in lp.content or []] if lp else None)
    assert entries == [None, ["a"], ["\ufffd", "b"], ["\ufffd"], None]
    assert found[-1].choices[0].finish_reason == "length"
    answer = whole(made, logprobs=logprobs).choices[0]
    assert answer.logprobs is not None
    streamed = [
        t for e in found if e.choices[0].logprobs for t in e.choices[0].logprobs.content or []
    ]
    assert answer.logprobs.content == streamed
    assert streamed[0].top_logprobs[1].bytes == list(b"else")


def test_logprobs_that_nobody_asked_for_are_null() -> None:
    made = plan(choice(["a"]), stream=True)
    assert all(e.choices[0].logprobs is None for e in chunks(made, logprobs=logprobs))
    assert whole(made, logprobs=logprobs).choices[0].logprobs is None


def test_a_failure_is_one_error_event_and_no_end() -> None:
    made = plan(choice(["a"]), stream=True)
    body = ChatStream(made, HEAD).fail(500, "The engine died.", "engine_dead")
    assert body.endswith(b"}\n\n")
    assert b"DONE" not in body
    assert json.loads(body[6:]) == {
        "error": {
            "message": "The engine died.",
            "type": "server_error",
            "param": None,
            "code": "engine_dead",
        }
    }


def test_the_whole_answer_has_openais_shape() -> None:
    made = plan(choice(["Hello", " you"], finish="length"))
    usage = Usage(8, 2, cached_tokens=4, cache_write_tokens=3)
    got = json.loads(whole_chat(made, HEAD, usage))
    assert got["choices"] == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello you",
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    assert got["object"] == "chat.completion"
    assert got["usage"]["prompt_tokens_details"] == {
        "cached_tokens": 4,
        "cache_write_tokens": 3,
        "audio_tokens": 0,
    }


def test_names_from_outside_are_escaped() -> None:
    head = Head("chatcmpl-1", 1, 'a"b\n\u2028\u0085é', "default", "f")
    made = plan(choice(["a"]), stream=True)
    body = stream_bytes(ChatStream(made, head), made)
    assert all(e["model"] == head.model for e in events(body))
    assert "\u2028".encode() not in body
    assert "\u0085".encode() not in body
    assert json.loads(whole_chat(made, head, usage_of(made)))["model"] == head.model


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, list[list[int]]]:
    """A streamed plan of some choices, and where each is flushed."""
    reasons: st.SearchStrategy[FinishReason] = st.sampled_from(["stop", "length"])
    token = st.sampled_from(["", *TEXTS])
    choices = [
        choice(
            draw(st.lists(token, max_size=12)),
            index=i,
            finish=draw(reasons),
            reasoning=draw(st.lists(token, max_size=5)),
        )
        for i in range(draw(st.integers(1, 3)))
    ]
    made = plan(
        *choices,
        stream=True,
        include_usage=draw(st.booleans()),
        continuous_usage=draw(st.booleans()),
        top_logprobs=draw(st.none() | st.just(1)),
    )
    return made, [draw(st.lists(st.integers(0, 17), max_size=8)) for _ in choices]


@settings(max_examples=500)  # many switches at once: the usual hundred miss combinations
@given(plans(), st.sampled_from([1, 2, 3, 8]), st.booleans())
def test_any_flushes_join_to_the_whole_answer(
    drawn: tuple[Plan, list[list[int]]], size: int, show: bool
) -> None:
    made, cuts = drawn
    stream = ChatStream(made, HEAD, tokens_per_chunk=size, show_reasoning=show, logprobs=logprobs)
    found = [
        ChatCompletionChunk.model_validate_json(json.dumps(e), strict=True)
        for e in events(stream_bytes(stream, made, cuts))
    ]
    answer = whole(made, show_reasoning=show, logprobs=logprobs)
    for i, of in enumerate(answer.choices):
        mine = [e for e in found if e.choices and e.choices[0].index == i]
        assert joined(mine, i) == of.message.content
        thought = getattr(of.message, "reasoning_content", None) or ""
        assert joined(mine, i, "reasoning_content") == thought
        assert [e.choices[0].delta.role for e in mine if e.choices[0].delta.role] == ["assistant"]
        assert mine[0].choices[0].delta.role == "assistant"
        assert [e.choices[0].finish_reason for e in mine if e.choices[0].finish_reason] == [
            of.finish_reason
        ]
        assert mine[-1].choices[0].finish_reason == of.finish_reason
        entries = [
            t for e in mine if e.choices[0].logprobs for t in e.choices[0].logprobs.content or []
        ]
        assert entries == (of.logprobs.content if of.logprobs else [])
        if of.logprobs:
            assert len(entries) == len(made.choices[i].pieces)
    assert sum(not e.choices for e in found) == made.request.include_usage
    if made.request.include_usage:
        assert found[-1].usage == answer.usage
    if made.request.continuous_usage:
        running = [e.usage.completion_tokens for e in found if e.usage]
        assert len(running) == len(found)
        assert running == sorted(running)
        assert running[-1] == made.completion_tokens


@settings(max_examples=300)
@given(plans(), st.sampled_from([1, 2, 3, 8]))
def test_flushes_change_nothing_but_when_bytes_leave(
    drawn: tuple[Plan, list[list[int]]], size: int
) -> None:
    made, cuts = drawn
    at_once, in_runs = (
        stream_bytes(ChatStream(made, HEAD, tokens_per_chunk=size, logprobs=logprobs), made, where)
        for where in ([], cuts)
    )
    assert at_once == in_runs
