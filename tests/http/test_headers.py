"""Headers of requests and answers, and what browsers need."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.live import CHAT, COMPLETIONS, EMBEDDINGS, Server, Wire, chat, compl, content_of

BODIES: list[tuple[str, dict[str, Any]]] = [
    (CHAT, chat("quick")),
    (CHAT, chat("quick", stream=True)),
    (CHAT, chat("instant", stream=True)),
    (COMPLETIONS, compl("flat-500")),
    (EMBEDDINGS, {"model": "quick", "input": "x"}),
    (CHAT, chat("nope")),
    (CHAT, {}),
]


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_the_caller_s_request_id_is_kept(server: Server, path: str, body: dict[str, Any]) -> None:
    answer = server.post(path, body, {"X-Request-Id": "mine-1"})
    assert answer.header("x-request-id") == "mine-1"


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_without_one_each_gets_its_own(server: Server, path: str, body: dict[str, Any]) -> None:
    ids = {server.post(path, body).header("x-request-id") for _ in range(5)}
    assert len(ids) == 5
    assert all(re.fullmatch(r"req_[0-9a-f]{32}", found or "") for found in ids)


@pytest.mark.parametrize("bad", ["", " ", "x" * 129, "caf\xe9", "a b"])
@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/nope"])
def test_an_unusable_id_is_replaced(server: Server, bad: str, path: str) -> None:
    method = "POST" if path == CHAT else "GET"
    body = chat("instant") if path == CHAT else None
    answer = server.ask(method, path, body, {"X-Request-Id": bad})
    assert re.fullmatch(r"req_[0-9a-f]{32}", answer.header("x-request-id") or "")


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics", "/nope", CHAT])
def test_every_answer_has_the_api_s_headers(server: Server, path: str) -> None:
    answer = server.ask("GET", path)
    assert answer.header("x-request-id")
    assert answer.header("openai-version") == "2020-10-01"
    assert int(answer.header("openai-processing-ms") or "") >= 0


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", ["reader", "instant", "flat-200"])
def test_server_timing_says_where_the_time_went(server: Server, model: str, stream: bool) -> None:
    answer = server.post(CHAT, chat(model, "word " * 40, stream=stream, max_tokens=5))
    parts = dict(re.findall(r"(\w+);dur=([0-9]+\.[0-9]{3})", answer.header("server-timing") or ""))
    assert set(parts) == {"overhead", "queue", "prefill", "ttft", "decode", "total"}
    spent = {key: float(value) for key, value in parts.items()}
    prompt_tokens = server.record(answer.header("x-request-id") or "")["prompt_tokens"]
    if model == "reader":
        assert spent["prefill"] == pytest.approx(prompt_tokens + 4, abs=0.01)
    assert spent["ttft"] >= spent["overhead"] + spent["queue"] + spent["prefill"] - 0.01
    assert spent["total"] >= spent["ttft"] - 0.01
    assert int(answer.header("openai-processing-ms") or "") == round(spent["total"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, chat("quick")),
        (CHAT, chat("quick", stream=True)),
        (CHAT, chat("instant", stream=True)),
        (COMPLETIONS, compl("quick")),
        (EMBEDDINGS, {"model": "quick", "input": "x"}),
    ],
)
def test_unknown_fields_are_taken_and_named(
    server: Server, path: str, body: dict[str, Any]
) -> None:
    assert server.post(path, body).header("x-paceline-unknown-fields") is None
    answer = server.post(path, {**body, "thinking_budget": 5, "ünï\r\nX-Evil: 1": {"a": []}})
    assert answer.status == 200
    named = answer.header("x-paceline-unknown-fields") or ""
    assert named.startswith("thinking_budget, ")
    assert answer.header("x-evil") is None
    answer = server.post(path, {**body, **{f"field_{i}": 1 for i in range(2000)}})
    assert answer.status == 200
    assert len(answer.header("x-paceline-unknown-fields") or "") <= 1024


def test_unknown_fields_of_messages_are_named(server: Server) -> None:
    body = {"model": "quick", "messages": [{"role": "user", "content": "hi", "mood": "good"}]}
    answer = server.post(CHAT, body)
    assert answer.header("x-paceline-unknown-fields") == "messages[].mood"


def test_requests_from_pages_may_read_the_headers(server: Server) -> None:
    for body in (chat("quick"), chat("quick", stream=True), chat("nope")):
        answer = server.post(CHAT, body, {"Origin": "http://page.test"})
        assert answer.header("access-control-allow-origin") == "*"
        exposed = (answer.header("access-control-expose-headers") or "").split(", ")
        assert {"x-request-id", "server-timing", "x-paceline-profile"} <= set(exposed)


def test_other_origins_can_be_shut_out() -> None:
    with Server("--cors-origins", "http://good.test") as server:
        good = server.post(CHAT, chat("instant"), {"Origin": "http://good.test"})
        assert good.header("access-control-allow-origin") == "http://good.test"
        bad = server.post(CHAT, chat("instant"), {"Origin": "http://bad.test"})
        assert bad.header("access-control-allow-origin") is None
        preflight = server.ask(
            "OPTIONS",
            CHAT,
            headers={"Origin": "http://bad.test", "Access-Control-Request-Method": "POST"},
        )
        assert preflight.status == 400
        assert preflight.header("access-control-allow-origin") is None


@pytest.mark.parametrize(
    "named",
    [
        "x-stainless-arch,x-stainless-async,x-stainless-lang,x-stainless-os",
        "x-stainless-package-version,x-stainless-read-timeout,x-stainless-retry-count",
        "authorization,content-type,openai-organization,openai-project,x-paceline-rate",
    ],
)
def test_preflights_of_every_header_the_sdk_sends(server: Server, named: str) -> None:
    headers = {
        "Origin": "null",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": named,
    }
    answer = server.ask("OPTIONS", CHAT, headers=headers)
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == "*"
    allowed = {
        h.strip().lower() for h in str(answer.header("access-control-allow-headers")).split(",")
    }
    assert set(named.split(",")) <= allowed
    assert int(answer.header("access-control-max-age") or 0) >= 600


def test_options_without_a_page_is_a_method_like_others(server: Server) -> None:
    answer = server.ask("OPTIONS", CHAT)
    assert answer.status == 405
    assert answer.header("allow") == "POST"


def test_any_key_and_none_are_welcome(server: Server) -> None:
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "nonsense"}):
        assert server.post(CHAT, chat("quick"), headers).status == 200


def test_expect_100_continue(server: Server) -> None:
    """curl sends it with bodies of a megabyte and more."""
    with Wire(server) as wire:
        wire.send("POST", CHAT, chat("quick"), {"Expect": "100-continue"})
        assert content_of(wire.read().object)


def test_http_1_0(server: Server) -> None:
    with Wire(server) as wire:
        wire.socket.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        answer = wire.head()
        assert answer.status == 200
        assert wire.more() == b'{"status":"ok"}'
