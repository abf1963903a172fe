from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from openai.types import Completion

from paceline.core.plan import Plan
from paceline.wire.completions_encode import CompletionStream, whole_completion
from paceline.wire.head import Head
from tests.wire.fakes import choice, events, logprobs, plan, stream_bytes, usage_of

HEAD = Head(id="cmpl-1", created=1_780_000_000, model="flat-40")


def valid_chunk(event: dict[str, Any]) -> Completion:
    """Strictly valid but for the null finish reason, which OpenAI's API sends and the type of the
    openai package doesn't allow (it is the same as a whole answer's)."""
    filled = json.loads(json.dumps(event))
    for one in filled["choices"]:
        if one["finish_reason"] is None:
            one["finish_reason"] = "stop"
    return Completion.model_validate_json(json.dumps(filled), strict=True)


def stream_events(made: Plan, **options: Any) -> list[dict[str, Any]]:
    found = events(stream_bytes(CompletionStream(made, HEAD, **options), made))
    for event in found:
        valid_chunk(event)
    return found


def whole(made: Plan, **options: Any) -> Completion:
    body = whole_completion(made, HEAD, usage_of(made), **options)
    return Completion.model_validate_json(body, strict=True)


def test_a_chunk_has_openais_shape_and_nothing_else() -> None:
    made = plan(choice(["Hello"], finish="length"), stream=True)
    token, finish = stream_events(made)
    assert token == {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1_780_000_000,
        "model": "flat-40",
        "system_fingerprint": "fp_paceline",
        "choices": [{"index": 0, "text": "Hello", "logprobs": None, "finish_reason": None}],
    }
    assert finish["choices"] == [
        {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}
    ]


def test_choices_of_all_prompts_stand_in_their_order() -> None:
    made = plan(
        choice(["a"]),
        choice(["b"], index=1),
        choice(["c"], index=2, prompt=1),
        choice(["d"], index=3, prompt=1),
        prompts=["A ", "B "],
        echo_prompt=True,
    )
    assert [(c.index, c.text) for c in whole(made).choices] == [
        (0, "A a"),
        (1, "A b"),
        (2, "B c"),
        (3, "B d"),
    ]
    usage = whole(made).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (16, 4)


def test_an_echoed_prompt_is_in_front_of_the_first_token() -> None:
    made = plan(choice(["a", "b"]), prompts=['say "x": '], stream=True, echo_prompt=True)
    texts = [e["choices"][0]["text"] for e in stream_events(made)]
    assert texts == ['say "x": a', "b", ""]


def test_echo_without_a_token_is_the_prompt() -> None:
    made = plan(choice([], finish="length"), prompts=["x"], stream=True, echo_prompt=True)
    assert [e["choices"][0]["text"] for e in stream_events(made)] == ["x", ""]
    answer = whole(made)
    assert answer.choices[0].text == "x"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 0


def test_legacy_logprobs_line_up_with_the_text() -> None:
    texts = ["é", "", "日本", " x"]
    made = plan(choice(texts), prompts=["ab "], stream=True, echo_prompt=True, top_logprobs=2)
    lp = whole(made, logprobs=logprobs).choices[0].logprobs
    assert lp is not None
    assert lp.tokens == ["é", "\ufffd", "日本", " x"]
    assert lp.text_offset == [3, 4, 4, 6]
    assert lp.token_logprobs == [-0.25, -1.25, -2.25, -3.25]
    assert lp.top_logprobs is not None
    assert lp.top_logprobs[0] == {"é": -0.25, "else": -5.0}
    parts = [
        e["choices"][0]["logprobs"]
        for e in stream_events(made, logprobs=logprobs)
        if e["choices"][0]["logprobs"]
    ]
    for key in ("tokens", "text_offset", "token_logprobs", "top_logprobs"):
        assert [one for part in parts for one in part[key]] == getattr(lp, key)


def test_usage_chunk_and_running_usage() -> None:
    made = plan(choice(["a", "b"]), stream=True, include_usage=True, continuous_usage=True)
    found = stream_events(made)
    assert [e["usage"]["completion_tokens"] for e in found] == [1, 2, 2, 2]
    assert found[-1]["choices"] == []


@given(
    st.lists(st.sampled_from(["", "a", " é", "🙂", '"']), max_size=12),
    st.lists(st.integers(0, 12), max_size=6),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
    st.none() | st.just(1),
)
def test_any_flushes_join_to_the_whole_answer(  # noqa: PLR0917 - Hypothesis passes them in order
    texts: list[str], cuts: list[int], size: int, echo: bool, running: bool, top: int | None
) -> None:
    made = plan(
        choice(texts),
        prompts=["p\u2028: "],
        stream=True,
        echo_prompt=echo,
        continuous_usage=running,
        top_logprobs=top,
    )
    stream = CompletionStream(made, HEAD, tokens_per_chunk=size, logprobs=logprobs)
    found = events(stream_bytes(stream, made, [cuts]))
    answer = whole(made, logprobs=logprobs).choices[0]
    assert "".join(e["choices"][0]["text"] for e in found) == answer.text
    assert [
        e["choices"][0]["finish_reason"] for e in found if e["choices"][0]["finish_reason"]
    ] == ["stop"]
    tokens = [t for e in found for t in (e["choices"][0]["logprobs"] or {}).get("tokens", [])]
    offsets = [t for e in found for t in (e["choices"][0]["logprobs"] or {}).get("text_offset", [])]
    assert tokens == (answer.logprobs.tokens if answer.logprobs else [])
    assert offsets == (answer.logprobs.text_offset if answer.logprobs else [])
