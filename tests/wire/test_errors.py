from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.errors import PlanError
from paceline.wire import errors, sse
from paceline.wire.chat import CHAT_NAMES
from paceline.wire.fields import unknown_header
from paceline.wire.jsonbytes import inner, json_bytes


@pytest.mark.parametrize(
    ("error", "status", "kind", "param", "code"),
    [
        (errors.invalid("n", "bad"), 400, "invalid_request_error", "n", "invalid_value"),
        (
            errors.unsupported("tools", "no"),
            400,
            "invalid_request_error",
            "tools",
            "unsupported_parameter",
        ),
        (errors.bad_json("line 1"), 400, "invalid_request_error", None, "invalid_json"),
        (errors.model_not_found("x"), 404, "invalid_request_error", "model", "model_not_found"),
        (errors.not_found("/v1/x"), 404, "invalid_request_error", None, "not_found"),
        (
            errors.method_not_allowed("PUT", "/v1/x", "GET, HEAD"),
            405,
            "invalid_request_error",
            None,
            "method_not_allowed",
        ),
        (errors.too_large(10), 413, "invalid_request_error", None, "request_too_large"),
        (errors.ApiError(415, "what", code="x"), 415, "invalid_request_error", None, "x"),
        (errors.server_error(), 500, "server_error", None, "server_error"),
        (errors.ApiError(429, "slow", code="x"), 429, "rate_limit_error", None, "x"),
        (errors.ApiError(401, "who", code="x"), 401, "authentication_error", None, "x"),
    ],
)
def test_every_error_is_the_envelope(
    error: errors.ApiError, status: int, kind: str, param: str | None, code: str
) -> None:
    assert error.status == status
    assert json.loads(error.body()) == {
        "error": {"message": error.message, "type": kind, "param": param, "code": code}
    }
    assert error.message


def test_405_says_what_is_allowed() -> None:
    assert errors.method_not_allowed("PUT", "/", "GET").headers == {"Allow": "GET"}


def test_a_refusal_of_the_core_keeps_its_words_but_for_the_dialects_name() -> None:
    refusal = PlanError("Too long.", "prompt", "context_length_exceeded")
    error = errors.from_refusal(refusal, CHAT_NAMES)
    assert (error.status, error.message, error.param, error.code) == (
        400,
        "Too long.",
        "messages",
        "context_length_exceeded",
    )
    assert errors.from_refusal(refusal).param == "prompt"


@given(st.text())
def test_json_is_one_line_for_every_line_reader(text: str) -> None:
    data = json_bytes({"t": text})
    assert json.loads(data) == {"t": text}
    assert len(data.decode().splitlines()) == 1
    assert json.loads(b'"' + inner(text) + b'"') == text
    assert sse.event(data) == b"data: " + data + b"\n\n"


def test_a_lone_surrogate_can_be_quoted_and_sent() -> None:
    error = errors.model_not_found("a\ud800")
    assert "\\ud800" in error.message
    assert json.loads(error.body())["error"]["message"] == error.message
    assert json.loads(json_bytes("\ud800")) == "\ud800"


def test_a_long_value_is_quoted_in_part() -> None:
    assert len(errors.model_not_found("x" * 10_000).message) < 300


def test_unknown_names_make_a_safe_header() -> None:
    assert unknown_header(("top", "messages[].mood")) == "top, messages[].mood"
    assert unknown_header(("a\r\nSet-Cookie: x", "é")) == "a??Set-Cookie??x, ?"
    assert len(unknown_header(tuple("x" * 100 for _ in range(100)))) == 1024


def test_the_stream_names_its_charset() -> None:
    assert sse.CONTENT_TYPE == "text/event-stream; charset=utf-8"
    assert sse.HEADERS == {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
