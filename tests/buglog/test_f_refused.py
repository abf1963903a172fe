"""Requests that must be refused, and how."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.live import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    Answer,
    Server,
    chat,
    compl,
    contents,
    finishes,
)


def refused(answer: Answer, status: int, param: str | None, code: str | None = None) -> None:
    assert answer.status == status, answer.text
    error = answer.error
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    if code is not None:
        assert error["code"] == code


@pytest.mark.parametrize("stream", [True, False])
def test_f01_wrong_types_get_the_envelope(server: Server, stream: bool) -> None:
    body = {"model": "quick", "messages": {}, "stream": stream}
    refused(server.post(CHAT, body), 400, "messages", "invalid_type")
    refused(server.post(CHAT, {"model": 5, "messages": []}), 400, "model", "invalid_type")
    refused(server.post(CHAT, []), 400, None)


@pytest.mark.parametrize("stream", [True, False])
def test_f01_f02_unknown_model(server: Server, stream: bool) -> None:
    for path, body in ((CHAT, chat("nope")), (COMPLETIONS, compl("nope"))):
        answer = server.post(path, {**body, "stream": stream})
        refused(answer, 404, "model", "model_not_found")
    answer = server.post(EMBEDDINGS, {"model": "nope", "input": "x"})
    refused(answer, 404, "model", "model_not_found")
    refused(server.ask("GET", "/v1/models/nope"), 404, "model", "model_not_found")


def test_f02_unless_the_server_is_told_to_take_any_model() -> None:
    with Server("--accept-any-model", "quick") as server:
        answer = server.post(CHAT, chat("nope"))
        assert answer.status == 200
        assert answer.object["model"] == "nope"
        assert answer.header("x-paceline-profile") == "quick"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"temperature": -1}, "temperature"),
        ({"n": 0}, "n"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"frequency_penalty": 3}, "frequency_penalty"),
        ({"logit_bias": {"1": 101}}, "logit_bias.1"),
        ({"tools": {}}, "tools"),
        ({"response_format": {"type": "prose"}}, "response_format.type"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_f04_wrong_values_are_named(
    server: Server, fields: dict[str, Any], param: str, stream: bool
) -> None:
    refused(server.post(CHAT, chat("quick", stream=stream, **fields)), 400, param)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", ["quick", "slow"])
def test_f05_too_long_a_prompt_is_refused_before_any_byte(
    server: Server, model: str, stream: bool
) -> None:
    long = "word " * 5000
    answer = server.post(CHAT, chat(model, long, stream=stream))
    assert answer.header("content-type") == "application/json"
    refused(answer, 400, "messages", "context_length_exceeded")
    answer = server.post(COMPLETIONS, compl(model, long, stream=stream))
    refused(answer, 400, "prompt", "context_length_exceeded")
    # A prompt that fits, but not with what was asked of the answer.
    answer = server.post(CHAT, chat(model, "word " * 4000, max_tokens=500, stream=stream))
    refused(answer, 400, "messages", "context_length_exceeded")


def test_f07_never_more_than_max_tokens(server: Server) -> None:
    def ask(number: int) -> tuple[int, int]:
        limit = number % 5 + 1
        with server.http() as client:
            body = chat("quick", f"Say something about {number}.", max_tokens=limit)
            usage = client.post(CHAT, json=body).json()["usage"]
        return limit, usage["completion_tokens"]

    with ThreadPoolExecutor(8) as pool:
        for limit, tokens in pool.map(ask, range(100)):
            assert 1 <= tokens <= limit


@pytest.mark.parametrize("model", ["quick", "instant"])
def test_f08_an_answer_that_is_cut_says_so(server: Server, model: str) -> None:
    body = chat(model, seed=1)
    whole = server.post(CHAT, body).object["choices"][0]["message"]["content"]
    answer = server.post(CHAT, {**body, "max_tokens": 2}).object
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 2
    chunks = server.post(CHAT, {**body, "max_tokens": 2, "stream": True}).events
    assert finishes(chunks) == [(0, "length")]
    assert contents(chunks) == answer["choices"][0]["message"]["content"]
    assert whole.startswith(contents(chunks))
    # The last of the two tokens is in the last chunk that has any text.
    spoken = [c["choices"][0]["delta"].get("content") for c in chunks]
    assert len([text for text in spoken if text]) == 2


def test_f10_unknown_role(server: Server) -> None:
    body = {"model": "quick", "messages": [{"role": "bot", "content": "hi"}]}
    refused(server.post(CHAT, body), 400, "messages[0].role", "invalid_value")


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS, "/v1/models"])
def test_f12_preflight_allows_what_the_sdk_sends(server: Server, path: str) -> None:
    wanted = "authorization,content-type,x-stainless-os,x-stainless-retry-count"
    answer = server.ask(
        "OPTIONS",
        path,
        headers={
            "Origin": "http://localhost:3000",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": wanted,
        },
    )
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == "*"
    allowed = (answer.header("access-control-allow-headers") or "").replace(" ", "").lower()
    assert set(wanted.split(",")) <= set(allowed.split(","))
    assert "POST" in (answer.header("access-control-allow-methods") or "")
