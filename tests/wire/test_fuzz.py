"""Whatever a body holds, a parser answers with a request or an ApiError, nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.wire import chat, completions, embeddings
from paceline.wire.errors import ApiError
from paceline.wire.fields import unknown_header

Parser = Callable[[Any, Mapping[str, str]], Any]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(st.characters(codec=None), max_size=8)
    | st.sampled_from(["user", "text", "function", "data:;base64,//8=", "image_url", "auto"])
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=6) | st.sampled_from(["role", "content", "type", "text", "id"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": "d"},
        {
            "role": "user",
            "name": "n",
            "content": [
                {"type": "text", "text": "t"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
                {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
                {"type": "file", "file": {"file_id": "f"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "d", "type": "custom", "custom": {"name": "f", "input": ""}},
            ],
            "function_call": {"name": "f", "arguments": ""},
        },
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ],
    "stop": ["a", "b"],
    "stream": True,
    "stream_options": {"include_usage": True},
    "logit_bias": {"1": 2},
    "metadata": {"a": "b"},
    "logprobs": True,
    "top_logprobs": 2,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
    },
    "prediction": {"type": "content", "content": "x"},
    "prompt_cache_options": {"mode": "implicit"},
    "modalities": ["text"],
    "paceline": {"seed": 1, "rate": 40.0, "mode": "echo"},
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
        {
            "type": "custom",
            "custom": {
                "name": "c",
                "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}},
            },
        },
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "f"}}],
        },
    },
    "functions": [],
    "function_call": "none",
}
COMPLETION: dict[str, Any] = {
    "model": "m",
    "prompt": [[1, 2], [3]],
    "logprobs": 2,
    "best_of": 2,
    "n": 2,
    "stop": "x",
    "paceline": {"output_tokens": 3},
}
EMBEDDING: dict[str, Any] = {"model": "m", "input": ["a", "b"], "dimensions": 3}

PARSERS: list[tuple[Parser, dict[str, Any], Mapping[str, Any]]] = [
    (chat.parse_chat, CHAT, chat._TABLE),
    (completions.parse_completion, COMPLETION, completions._TABLE),
    (embeddings.parse_embeddings, EMBEDDING, embeddings._TABLE),
]


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places inside a JSON value."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    found = []
    for key, item in items:
        found += [(*at, key), *paths(item, (*at, key))]
    return found


def attempt(parse: Parser, body: Any, headers: Mapping[str, str]) -> None:
    got, error = outcome(parse, body, headers)
    if error is None:
        hash(got)
        assert unknown_header(got.unknown).isprintable()
        return
    assert error.status == 400
    assert error.message
    assert (error.param is not None) == isinstance(body, Mapping)
    assert error.code
    assert json.loads(error.body())["error"]["param"] == error.param


def outcome(parse: Parser, body: Any, headers: Mapping[str, str]) -> tuple[Any, ApiError | None]:
    try:
        return parse(body, headers), None
    except ApiError as error:
        return None, error


@pytest.mark.parametrize(("parse", "valid", "_table"), PARSERS)
def test_the_valid_bodies_are_valid(parse: Parser, valid: Any, _table: Any) -> None:
    assert parse(valid, {}).unknown == ()


@pytest.mark.parametrize(("parse", "_valid", "_table"), PARSERS)
@given(body=JSON)
def test_arbitrary_json(parse: Parser, _valid: Any, _table: Any, body: Any) -> None:
    attempt(parse, body, {})


@pytest.mark.parametrize(("parse", "valid", "table"), PARSERS)
@given(data=st.data())
def test_mutated_bodies(
    parse: Parser, valid: dict[str, Any], table: Mapping[str, Any], data: st.DataObject
) -> None:
    body = copy.deepcopy(valid)
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            body[data.draw(st.sampled_from(sorted(table)))] = data.draw(JSON)
            continue
        *parents, last = data.draw(st.sampled_from(paths(body) or [("x",)]))
        place: Any = body
        for key in parents:
            place = place[key]
        if data.draw(st.booleans()):
            place[last] = data.draw(JSON)
        else:
            del place[last]
    attempt(parse, body, {})


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "x-paceline-rate",
                "X-Paceline-Seed",
                "x-paceline-output-tokens",
                "x-paceline-reasoning-tokens",
                "x-paceline-ttft-ms",
                "x-paceline-mode",
                "x-paceline-",
                "x-paceline-other",
                "",
            ]
        ),
        st.text(max_size=8) | st.integers().map(str) | st.floats().map(str),
        max_size=3,
    )
)
def test_arbitrary_headers(headers: dict[str, str]) -> None:
    attempt(chat.parse_chat, CHAT, headers)
