"""Faults seen in the text of streams."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.runtime.tokenizer import Tokenizer
from tests.live import CHAT, COMPLETIONS, EMBEDDINGS, Server, chat, content_of, contents, finishes

ECHO = {"mode": "echo"}
HARD_TO_CUT = "漢字かな交じり文 👩‍👩‍👧‍👦 🏳️‍🌈 नमस्ते — ẍ́ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U0001f9d1\U0001f3fd‍\U0001f680 ﷽"


@pytest.mark.parametrize("model", ["quick", "instant", "flat-2000"])
@pytest.mark.parametrize("fields", [{}, {"logprobs": True, "top_logprobs": 2}, {"stop": "§"}])
def test_b01_characters_of_several_tokens_come_whole(
    server: Server, model: str, fields: dict[str, Any]
) -> None:
    body = chat(model, HARD_TO_CUT, paceline=ECHO, **fields)
    streamed = server.post(CHAT, {**body, "stream": True}).events
    whole = server.post(CHAT, body).object
    assert content_of(whole) == HARD_TO_CUT
    assert contents(streamed) == HARD_TO_CUT
    for chunk in streamed:
        assert "\ufffd" not in (chunk["choices"][0]["delta"].get("content") or "")


@pytest.mark.parametrize("limit", range(1, 12))
def test_b01_cut_in_the_middle_of_a_character(server: Server, limit: int) -> None:
    body = chat("instant", HARD_TO_CUT, paceline=ECHO, max_tokens=limit)
    streamed = contents(server.post(CHAT, {**body, "stream": True}).events)
    answer = server.post(CHAT, body).object
    assert answer["usage"]["completion_tokens"] == limit
    assert streamed == content_of(answer)
    assert HARD_TO_CUT.startswith(streamed)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_b02_charset_and_line_ends_inside_of_text(server: Server, path: str) -> None:
    said = "✅ a\u0085b\u2028c\u2029d\r\ne"
    body: dict[str, Any] = chat("instant", said) if path == CHAT else {"prompt": said}
    body |= {"model": "instant", "stream": True, "paceline": ECHO}
    answer = server.post(path, body)
    assert answer.header("content-type") == "text/event-stream; charset=utf-8"
    for raw in ("\u0085", "\u2028", "\u2029"):
        assert raw.encode() not in answer.body
    if path == CHAT:
        assert contents(answer.events) == said
    else:
        assert "".join(c["choices"][0]["text"] for c in answer.events) == said
    assert len(answer.text.splitlines()) == 2 * answer.text.count("data: ")


@pytest.mark.parametrize("model", ["quick", "instant"])
@pytest.mark.parametrize("logprobs", [False, True])
def test_b04_nothing_of_a_stop_string_is_sent(server: Server, model: str, logprobs: bool) -> None:
    body = chat(model, "ABCDEFGHIJ", stop=["DEFGHIJ"], paceline=ECHO, logprobs=logprobs)
    streamed = server.post(CHAT, {**body, "stream": True}).events
    whole = server.post(CHAT, body).object
    assert contents(streamed) == "ABC"
    assert finishes(streamed) == [(0, "stop")]
    assert content_of(whole) == "ABC"
    assert whole["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("model", ["quick", "instant"])
def test_b04_what_was_held_back_for_nothing_is_sent(server: Server, model: str) -> None:
    body = chat(model, "ABCDEFGHIJ", stop=["DEFGHIJK", "J!"], paceline=ECHO)
    streamed = server.post(CHAT, {**body, "stream": True}).events
    assert contents(streamed) == "ABCDEFGHIJ"
    assert content_of(server.post(CHAT, body).object) == "ABCDEFGHIJ"


def test_b06_names_of_special_tokens_are_ordinary_text(
    server: Server, tokenizer: Tokenizer
) -> None:
    special = "<|endoftext|><|im_start|>"
    plain = server.post(CHAT, chat("instant", "")).object["usage"]["prompt_tokens"]
    usage = server.post(CHAT, chat("instant", special)).object["usage"]
    assert usage["prompt_tokens"] - plain == tokenizer.count(special) > 2
    answer = server.post(COMPLETIONS, {"model": "instant", "prompt": special})
    assert answer.object["usage"]["prompt_tokens"] == tokenizer.count(special)
    answer = server.post(EMBEDDINGS, {"model": "instant", "input": special})
    assert answer.object["usage"]["prompt_tokens"] == tokenizer.count(special)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS])
@pytest.mark.parametrize(
    "garbage", [b"", b"\xff" * 32, b"\x00", b"{", b'"\\ud800"', b"[" * 100_000]
)
def test_b08_garbage_is_refused_and_the_server_lives(
    server: Server, path: str, garbage: bytes
) -> None:
    answer = server.post(path, garbage)
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
    assert server.ask("GET", "/health").status == 200
