"""Requests that somebody's server refused, and that must be accepted."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from tests.live import CHAT, COMPLETIONS, EMBEDDINGS, Server, chat, compl

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
USER = {"role": "user", "content": "hi"}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}


def accepted(server: Server, messages: list[dict[str, Any]]) -> None:
    answer = server.post(CHAT, {"model": "quick", "messages": messages})
    assert answer.status == 200, answer.text
    ChatCompletion.model_validate_json(answer.body, strict=True)


def test_e01_null_content_beside_tool_calls(server: Server) -> None:
    accepted(server, [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, RESULT])


def test_e02_no_content_beside_tool_calls(server: Server) -> None:
    accepted(server, [USER, {"role": "assistant", "tool_calls": [CALL]}, RESULT])


def test_e04_a_user_s_message_after_a_tool_s(server: Server) -> None:
    accepted(server, [USER, {"role": "assistant", "tool_calls": [CALL]}, RESULT, USER])


def test_e06_null_max_tokens(server: Server) -> None:
    answer = server.post(COMPLETIONS, compl("quick", max_tokens=None))
    assert answer.status == 200
    assert 1 <= answer.object["usage"]["completion_tokens"] <= 16


# Every optional field of the endpoints.
# fmt: off
SHARED = (
    "n", "stop", "temperature", "top_p", "presence_penalty", "frequency_penalty", "logit_bias",
    "seed", "stream", "stream_options", "user", "service_tier", "max_tokens", "logprobs",
    "min_tokens", "ignore_eos", "paceline", "top_k", "min_p",
)
CHAT_ONLY = (
    "max_completion_tokens", "top_logprobs", "reasoning_effort", "prompt_cache_key",
    "prompt_cache_retention", "safety_identifier", "metadata", "store", "verbosity", "modalities",
    "audio", "tools", "functions", "tool_choice", "function_call", "parallel_tool_calls",
    "prediction", "web_search_options", "response_format",
)
# fmt: on


@pytest.mark.parametrize("name", [*SHARED, *CHAT_ONLY])
def test_e06_null_is_unset_in_a_chat(server: Server, name: str) -> None:
    answer = server.post(CHAT, chat("instant", **{name: None}))
    assert answer.status == 200, answer.text
    assert answer.header("x-paceline-unknown-fields") is None


@pytest.mark.parametrize("name", [*SHARED, "prompt", "suffix", "echo", "best_of"])
def test_e06_null_is_unset_in_a_completion(server: Server, name: str) -> None:
    answer = server.post(COMPLETIONS, {**compl("instant"), name: None})
    assert answer.status == 200, answer.text
    assert answer.header("x-paceline-unknown-fields") is None


@pytest.mark.parametrize("name", ["dimensions", "encoding_format", "user", "paceline"])
def test_e06_null_is_unset_in_an_embedding(server: Server, name: str) -> None:
    body = {"model": "quick", "input": "x", name: None}
    assert server.post(EMBEDDINGS, body).status == 200


@pytest.mark.parametrize("model", ["quick", "instant", "flat-100"])
@pytest.mark.parametrize("prompt", ["x", ["a", "b c"]])
def test_e07_echo_of_a_prompt_and_no_more(server: Server, model: str, prompt: Any) -> None:
    prompts = [prompt] if isinstance(prompt, str) else prompt
    body = compl(model, prompt, echo=True, max_tokens=0)
    answer = server.post(COMPLETIONS, body).object
    assert [choice["text"] for choice in answer["choices"]] == prompts
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["length"] * len(prompts)
    assert answer["usage"]["completion_tokens"] == 0
    chunks = server.post(COMPLETIONS, {**body, "stream": True}).events
    for index, text in enumerate(prompts):
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert "".join(choice["text"] for choice in mine) == text
        assert [c["finish_reason"] for c in mine if c["finish_reason"]] == ["length"]


@pytest.mark.parametrize("older", [None, 2, 9])
def test_e08_max_completion_tokens_wins(server: Server, older: int | None) -> None:
    body = chat("quick", max_completion_tokens=4, max_tokens=older)
    answer = server.post(CHAT, body).object
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["choices"][0]["finish_reason"] == "length"


def test_e10_choices_go_prompt_by_prompt(server: Server) -> None:
    body = compl("quick", ["a", "b"], n=2, echo=True, max_tokens=5, seed=1)
    answer = server.post(COMPLETIONS, body).object
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert [choice["text"][0] for choice in answer["choices"]] == ["a", "a", "b", "b"]
    assert answer["usage"]["prompt_tokens"] == 2
    assert answer["usage"]["completion_tokens"] == 20
    alone = server.post(COMPLETIONS, {**body, "prompt": "b"}).object
    assert [c["text"] for c in alone["choices"]] == [c["text"] for c in answer["choices"][2:]]
    chunks = server.post(COMPLETIONS, {**body, "stream": True}).events
    for index in range(4):
        mine = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
        assert "".join(c["text"] for c in mine) == answer["choices"][index]["text"]


@pytest.mark.parametrize("model", ["quick", "instant", "flat-2000", "thinker"])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_e12_ignore_eos_goes_on_to_the_limit(server: Server, model: str, path: str) -> None:
    body = chat(model) if path == CHAT else compl(model)
    answer = server.post(path, {**body, "ignore_eos": True, "max_tokens": 64}).object
    assert answer["usage"]["completion_tokens"] == 64
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("stream", [False, None])
def test_e13_stream_options_without_a_stream(server: Server, path: str, stream: Any) -> None:
    body = chat("quick") if path == CHAT else compl("quick")
    body |= {"stream": stream, "stream_options": {"include_usage": True}}
    answer = server.post(path, body)
    assert answer.status == 400
    assert answer.error["param"] == "stream_options"
    assert "stream is true" in answer.error["message"]
