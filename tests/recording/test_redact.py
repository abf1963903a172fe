from __future__ import annotations

import base64
import gzip
import json

import pytest

from paceline.recording.redact import MARK, Redactor, is_credential

KEY = "a-key-without-a-known-form-1"


@pytest.mark.parametrize(
    "name",
    [
        "Authorization", "x-api-key", "api-key", "Cookie", "Set-Cookie", "X-Goog-Api-Key",
        "proxy-authorization", "x-amz-security-token", "X-Auth-Token", "api_key", "sig",
    ],
)  # fmt: skip
def test_names_of_credentials(name: str) -> None:
    assert is_credential(name)


@pytest.mark.parametrize(
    "name",
    [
        "content-type", "x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-limit",
        "openai-organization", "x-request-id", "www-authenticate", "starting_after",
    ],
)  # fmt: skip
def test_names_of_what_is_none(name: str) -> None:
    assert not is_credential(name)


def told(**headers: str) -> Redactor:
    redactor = Redactor()
    redactor.learn((name.replace("_", "-"), value) for name, value in headers.items())
    return redactor


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": KEY},
        {"x_api_key": KEY},
        {"cookie": f"theme=dark; session={KEY}"},
        {"authorization": "Basic " + base64.b64encode(f"me:{KEY}".encode()).decode()},
    ],
)
def test_a_headers_credential_goes_wherever_it_shows(headers: dict[str, str]) -> None:
    redactor = told(**headers)
    for name, value in redactor.headers(
        tuple((k.replace("_", "-"), v) for k, v in headers.items())
    ):
        assert is_credential(name)
        assert value == MARK
    assert redactor.request_body(f"my {KEY}!".encode()) == f"my {MARK}!".encode()
    assert redactor.text(f"/files/{KEY}") == f"/files/{MARK}"
    assert KEY.encode() not in b"".join(redactor.response([f"not {KEY}".encode()]))


def test_a_query_keeps_its_shape() -> None:
    redactor = Redactor()
    redactor.learn((), f"limit=2&api_key={KEY}&after=x")
    assert redactor.query(f"limit=2&api_key={KEY}&after=x") == f"limit=2&api_key={MARK}&after=x"
    assert redactor.text(f"told {KEY}") == f"told {MARK}"


def test_fields_of_a_body_and_what_they_teach() -> None:
    body = {
        "prompt_cache_key": "user-1",
        "tools": [{"type": "mcp", "authorization": f"Bearer {KEY}", "headers": {"X-Api-Key": "k"}}],
        "input": f"use {KEY}",
        "schema": {"password": {"type": "string"}},
    }
    redactor = Redactor()
    clean = json.loads(redactor.request_body(json.dumps(body).encode()))
    assert clean == {
        "prompt_cache_key": "user-1",
        "tools": [{"type": "mcp", "authorization": MARK, "headers": {"X-Api-Key": MARK}}],
        "input": f"use {MARK}",
        "schema": {"password": {"type": "string"}},
    }
    assert redactor.response([KEY.encode()]) == [b"*" * len(KEY)]


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdefghijklmnop", "sk_live_abcdefghijklmnop", "sk-ant-api03-abcdefghijklmnop",
        "gsk_abcdefghijklmnopqrst", "xai-abcdefghijklmnopqrst", "hf_abcdefghijklmnopqrst",
        "AIza" + "a" * 35, "AKIAABCDEFGHIJKLMNOP", "ghp_" + "a" * 36,
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    ],
)  # fmt: skip
def test_keys_of_a_known_form_need_no_telling(key: str) -> None:
    assert Redactor().text(f"key: {key}.") == f"key: {MARK}."


@pytest.mark.parametrize(
    "text", ["ask-me-anything-you-like-today", "chatcmpl-0123456789abcdef0123", "any", "sk-short"]
)
def test_ordinary_words_stay(text: str) -> None:
    redactor = told(authorization="Bearer any")
    assert redactor.text(text) == text
    assert redactor.request_body(text.encode()) == text.encode()


def test_a_credential_cut_between_chunks_is_starred_out_in_place() -> None:
    redactor = told(authorization=f"Bearer {KEY}")
    whole = f'data: {{"echo":"{KEY}"}}\n\n'.encode()
    for cut in range(len(whole)):
        parts = redactor.response([whole[:cut], b"", whole[cut:]])
        assert [len(part) for part in parts] == [cut, 0, len(whole) - cut]
        assert b"".join(parts) == whole.replace(KEY.encode(), b"*" * len(KEY))


def test_a_credential_is_known_escaped_and_quoted() -> None:
    key = 'a/key+with"signs='
    redactor = told(x_api_key=key)
    assert redactor.text("?k=a%2Fkey%2Bwith%22signs%3D") == f"?k={MARK}"
    assert (
        redactor.request_body(json.dumps({"x": key}).encode()) == b'{"x": "' + MARK.encode() + b'"}'
    )


def test_a_packed_answer_is_looked_into() -> None:
    redactor = told(authorization=f"Bearer {KEY}")
    hidden = gzip.compress(f"echo {KEY}".encode())
    assert redactor.hidden_in([hidden[:9], hidden[9:]], "gzip") == b"echo " + b"*" * len(KEY)
    assert redactor.hidden_in([gzip.compress(b"nothing")], "gzip") is None
    assert redactor.hidden_in([b"not packed at all"], "gzip") is None


def test_a_body_that_isnt_json_is_searched_as_it_is() -> None:
    redactor = told(authorization=f"Bearer {KEY}")
    assert (
        redactor.request_body(b"\xff" + KEY.encode() + b"\xff") == b"\xff" + MARK.encode() + b"\xff"
    )
    assert redactor.request_body(b"{" * 100_000) == b"{" * 100_000
