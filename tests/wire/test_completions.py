from __future__ import annotations

from typing import Any

import pytest

from paceline.core.request import GenerationRequest, TextPrompt, TokenPrompt
from paceline.wire.completions import parse_completion
from paceline.wire.errors import ApiError


def parse(**body: Any) -> GenerationRequest:
    return parse_completion({"model": "flat-40", **body}, {})


def test_the_least_body_means_the_defaults() -> None:
    assert parse(prompt="x") == GenerationRequest(
        "flat-40", (TextPrompt("x"),), max_tokens=16, reasoning_effort="none"
    )
    assert parse().prompts == parse(prompt=None).prompts == (TextPrompt(""),)


def test_null_is_unset_for_every_optional_field() -> None:
    from paceline.wire import completions

    body = {key: None for key in completions._TABLE if key != "model"}
    assert parse(**body) == parse()


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("", (TextPrompt(""),)),
        (["a", ""], (TextPrompt("a"), TextPrompt(""))),
        ([1, 2], (TokenPrompt((1, 2)),)),
        ([[1], [199_999, 200_018]], (TokenPrompt((1,)), TokenPrompt((199_999, 200_018)))),
    ],
)
def test_prompts_of_every_form(prompt: Any, wanted: Any) -> None:
    assert parse(prompt=prompt).prompts == wanted


def test_every_field_arrives() -> None:
    got = parse(
        prompt="x",
        echo=True,
        max_tokens=0,
        n=2,
        best_of=3,
        logprobs=5,
        suffix="!",
        stop="a",
        seed=1,
    )
    assert got == GenerationRequest(
        "flat-40",
        (TextPrompt("x"),),
        n=2,
        max_tokens=0,
        stop=("a",),
        seed=1,
        top_logprobs=5,
        echo_prompt=True,
        reasoning_effort="none",
    )
    assert parse(logprobs=0).top_logprobs == 0
    assert parse(nonsense=1).unknown == ("nonsense",)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": {}}, "prompt"),
        ({"prompt": [[]]}, "prompt[0]"),
        ({"prompt": [[1], "a"]}, "prompt[1]"),
        ({"prompt": ["a", 1]}, "prompt[1]"),
        ({"prompt": [1, "a"]}, "prompt[1]"),
        ({"prompt": [True]}, "prompt[0]"),
        ({"prompt": [1, True]}, "prompt[1]"),
        ({"prompt": [1, -1]}, "prompt[1]"),
        ({"prompt": [[1], [2, 199_998]]}, "prompt[1][1]"),
        ({"prompt": [None]}, "prompt[0]"),
        ({"prompt": ["a"] * 2049}, "prompt"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"n": 3, "best_of": 2}, "best_of"),
        ({"n": 3, "prompt": ["a"] * 1366}, "n"),
        ({"stop": ["a", "a" * 4097]}, "stop[1]"),
        ({"stop": "a" * 4097}, "stop"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"min_tokens": 17}, "min_tokens"),
        ({"stream_options": {}}, "stream_options"),
        ({"response_format": {"type": "grammar"}}, "response_format.type"),
        ({"model": None}, "model"),
    ],
)
def test_a_wrong_value_is_refused_by_name(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(**body)
    assert (caught.value.status, caught.value.param) == (400, param)
