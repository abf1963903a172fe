"""Limits at the edge of the server: who gets in, and what the others are told."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from websockets.sync.client import connect

from tests.http.broken import DIALECTS, MESSAGES, RESPONSES, body, create, fault, receive
from tests.live import CHAT, Answer, Server, Wire, chat, checked_error, content_of


@pytest.fixture(scope="module")
def limited() -> Iterator[Server]:
    arguments = ("--rpm", "1000", "--tpm", "2000", "--max-streams", "2")
    with Server(*arguments) as running:
        yield running


def key(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


@pytest.mark.realtime
def test_headers_follow_the_bucket(limited: Server) -> None:
    for path in DIALECTS:
        left = []
        for stream in (False, True):
            answer = limited.post(path, body(path, "instant", stream=stream), key(path))
            assert answer.status == 200
            assert answer.header("x-ratelimit-limit-requests") == "1000"
            assert answer.header("x-ratelimit-limit-tokens") == "2000"
            left.append(int(answer.header("x-ratelimit-remaining-tokens") or ""))
            assert answer.header("x-ratelimit-reset-tokens")
        assert 1900 < left[1] < left[0] < 2000


def test_tokens_are_the_prompt_s_and_what_is_asked_for(limited: Server) -> None:
    def ask(max_tokens: int) -> Answer:
        return limited.post(CHAT, chat("instant", max_tokens=max_tokens), key("tokens"))

    refused = ask(1999)
    assert refused.status == 429
    assert (refused.error["type"], refused.error["code"]) == ("tokens", "rate_limit_exceeded")
    assert refused.error["message"].startswith("Request too large for instant on tokens per min")
    assert refused.header("retry-after") is None
    assert refused.header("x-should-retry") == "false"
    assert refused.header("x-ratelimit-remaining-tokens") == "2000"
    own = {"paceline": {"output_tokens": 1500}}
    assert limited.post(CHAT, chat("instant", **own), key("tokens")).status == 200
    refused = ask(1000)
    assert refused.status == 429
    assert "Limit 2000, Used 15" in refused.error["message"]
    ms, seconds = refused.header("retry-after-ms"), refused.header("retry-after")
    assert ms is not None
    assert seconds == str(-(-int(ms) // 1000))
    assert 10_000 < int(ms) < 20_000
    assert ask(100).status == 200, "it wants less"


@pytest.mark.realtime
def test_streams_at_once(limited: Server) -> None:
    asked = chat("slow", stream=True, max_tokens=200, ignore_eos=True)
    with Wire(limited) as one, Wire(limited) as two:
        for wire in (one, two):
            wire.send("POST", CHAT, asked, key("many"))
            assert wire.head().status == 200
        refused = limited.post(CHAT, chat("slow", max_tokens=1), key("many"))
        assert refused.status == 429
        assert refused.error["type"] == "streams"
        assert refused.header("retry-after") == "1"
        assert limited.post(CHAT, chat("slow", max_tokens=1), key("few")).status == 200
    limited.wait_idle("slow")
    assert limited.post(CHAT, chat("slow", max_tokens=1), key("many")).status == 200


def test_refused_requests_hold_nothing(limited: Server) -> None:
    for _ in range(5):
        for asked in ({"paceline": {"fault": "error:500"}}, {"max_tokens": 10**9}):
            assert limited.post(CHAT, chat("quick", **asked), key("held")).status >= 400
        refused = body(RESPONSES, background=True, **fault("drop_after:1"))
        assert limited.post(RESPONSES, refused, key("held")).status == 400
    for _ in range(5):
        answer = limited.post(CHAT, body(CHAT, stream=True, **fault("drop_after:1")), key("held"))
        assert answer.status == 200
        answer = limited.post(CHAT, body(CHAT, **fault("fail_after:1")), key("held"))
        assert answer.status == 500


def test_a_limit_as_messages_and_frames_say_it(limited: Server) -> None:
    wanted = {"paceline": {"output_tokens": 1900}, "max_tokens": 1950}
    assert limited.post(MESSAGES, body(MESSAGES, "instant", **wanted), key("m")).status == 200
    refused = limited.post(MESSAGES, body(MESSAGES, "instant", **wanted), key("m"))
    assert refused.status == 429
    assert refused.object["error"]["type"] == "rate_limit_error"
    assert int(refused.header("retry-after") or "") > 30
    url = f"ws://{limited.host}:{limited.port}/v1/responses"
    with connect(url, proxy=None, additional_headers=key("m")) as connection:
        create(connection, model="instant", max_output_tokens=1900)
        (frame,) = receive(connection)
        assert frame["status"] == 429
        assert int(frame["headers"]["retry-after"]) > 30
        assert frame["headers"]["x-ratelimit-limit-tokens"] == "2000"


def test_without_limits_there_are_no_headers(server: Server) -> None:
    answer = server.post(CHAT, chat("instant", max_tokens=1))
    assert not [name for name, _ in answer.headers if name.startswith("x-ratelimit")]
    with httpx2.Client(base_url=server.url, trust_env=False) as client:
        raw = client.post(CHAT, json=chat("quick", **fault("error:429")))
    checked_error(raw.status_code, raw.headers["content-type"], raw.content)
    assert content_of(answer.object)
