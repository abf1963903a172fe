"""Limits at the edge of the server: who gets in, and what the others are told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any

import httpx2
import openai
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
            if path == MESSAGES:
                left.append(int(answer.header("anthropic-ratelimit-tokens-remaining") or ""))
                continue
            assert answer.header("x-ratelimit-limit-requests") == "1000"
            assert answer.header("x-ratelimit-limit-tokens") == "2000"
            left.append(int(answer.header("x-ratelimit-remaining-tokens") or ""))
            assert answer.header("x-ratelimit-reset-tokens")
        assert 1900 < left[1] < left[0] < 2000


def anthropic_limits(answer: Answer) -> dict[str, str]:
    start = "anthropic-ratelimit-"
    return {name.removeprefix(start): v for name, v in answer.headers if name.startswith(start)}


@pytest.mark.realtime
def test_messages_have_the_headers_of_anthropic_s_api(limited: Server) -> None:
    wanted = {"paceline": {"output_tokens": 1000}, "max_tokens": 1000}
    asked_s = time.time()
    answer = limited.post(MESSAGES, body(MESSAGES, "instant", **wanted), key("rfc"))
    assert answer.status == 200
    assert not [name for name, _ in answer.headers if name.startswith("x-ratelimit")]
    found = anthropic_limits(answer)
    units = ("requests", "tokens", "input-tokens", "output-tokens")
    assert set(found) == {f"{u}-{what}" for u in units for what in ("limit", "remaining", "reset")}
    assert found["requests-limit"] == "1000"
    assert found["requests-remaining"] == "999"
    for unit in units[1:]:
        assert found[f"{unit}-limit"] == "2000"
        assert 980 <= int(found[f"{unit}-remaining"]) < 1000
        # A thousand and some of two thousand a minute: full in half a minute and a bit.
        reset = datetime.strptime(found[f"{unit}-reset"], "%Y-%m-%dT%H:%M:%S%z").timestamp()
        assert 30 <= reset - asked_s < 33
    refused = limited.post(
        MESSAGES, body(MESSAGES, "instant", **{**wanted, "max_tokens": 1900}), key("rfc")
    )
    assert refused.status == 429
    assert set(anthropic_limits(refused)) == set(found)
    ms, seconds = refused.header("retry-after-ms"), refused.header("retry-after")
    assert ms is not None
    assert seconds == str(-(-int(ms) // 1000))


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


# -- what a key has of its own --------------------------------------------------------------------

OWN = """
[[keys]]
name = "day"
sha256 = "{day}"
rpm = 100
rpd = 3

[[keys]]
name = "tiers"
sha256 = "{tiers}"
rpm = 5
[keys.limits.ultrafast]
rpm = 1

[[keys]]
name = "poor"
sha256 = "{poor}"
budget_usd = 0.003

[[keys]]
name = "plus"
sha256 = "{plus}"
plan_type = "plus"
window_5h_credits = 0.06
window_week_credits = 0.6
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    names = ("day", "tiers", "poor", "plus")
    path.write_text(OWN.format(**{n: sha256(n.encode()).hexdigest() for n in names}))
    with Server("--keys-file", str(path), "--rpm", "50") as running:
        yield running


def sol(**fields: Any) -> dict[str, Any]:
    """A hundred tokens of a model that has a price, at no model's pace."""
    quick = {"output_tokens": 100, "rate": 1e6, "ttft_ms": 0}
    return chat("gpt-5.6-sol", max_tokens=100, paceline=quick, **fields)


@pytest.mark.realtime
def test_requests_a_day(own: Server) -> None:
    asked = chat("instant", max_tokens=1)
    left = []
    for _ in range(3):
        answer = own.post(CHAT, asked, key("day"))
        assert answer.header("x-ratelimit-limit-requests") == "3", "the nearest to empty"
        left.append(answer.header("x-ratelimit-remaining-requests"))
    assert left == ["2", "1", "0"]
    refused = own.post(CHAT, asked, key("day"))
    assert refused.status == 429
    assert (refused.error["type"], refused.error["code"]) == ("requests", "rate_limit_exceeded")
    assert refused.error["message"].startswith(
        "Rate limit reached for instant on requests per day (RPD): Limit 3, Used 3, Requested 1. "
    )
    assert 8 * 3600 - 20 < int(refused.header("retry-after") or "") <= 8 * 3600
    assert (refused.header("x-ratelimit-reset-requests") or "").startswith("23h59m")


@pytest.mark.realtime
def test_a_tier_has_a_bucket_of_its_own(own: Server) -> None:
    fast = sol(service_tier="ultrafast")
    first = own.post(CHAT, fast, key("tiers"))
    assert first.status == 200, first.text
    assert first.object["service_tier"] == "ultrafast"
    assert first.header("x-ratelimit-limit-requests") == "1"
    assert own.post(CHAT, fast, key("tiers")).status == 429
    plain = own.post(CHAT, sol(), key("tiers"))
    assert plain.status == 200
    assert plain.header("x-ratelimit-limit-requests") == "5"
    assert plain.header("x-ratelimit-remaining-requests") == "4"


def test_a_budget_that_is_spent(own: Server) -> None:
    assert own.post(CHAT, sol(), key("poor")).status == 200
    for path in DIALECTS:
        own_fields = {"paceline": {"output_tokens": 100, "rate": 1e6, "ttft_ms": 0}}
        limit = "max_output_tokens" if path == RESPONSES else "max_tokens"
        asked = body(path, "gpt-5.6-sol", **{limit: 100}, **own_fields)
        refused = own.post(path, asked, key("poor"))
        assert refused.header("retry-after") is None
        assert refused.header("x-should-retry") == "false"
        if path == MESSAGES:
            assert refused.status == 400
            error = refused.object["error"]
            assert error["type"] == "invalid_request_error"
            assert error["message"].startswith("Your credit balance is too low")
            assert refused.header("anthropic-ratelimit-requests-limit") == "50"
        else:
            assert refused.status == 429
            assert refused.error["type"] == refused.error["code"] == "insufficient_quota"
            assert "Of the budget: limit $0.003, used $0.002" in refused.error["message"]
            assert refused.header("x-ratelimit-limit-requests") == "50"


@pytest.mark.realtime
def test_a_subscription_s_window(own: Server) -> None:
    before_s = int(time.time())
    first = own.post(CHAT, sol(), key("plus"))
    assert first.status == 200
    assert first.header("x-codex-primary-window-minutes") == "300"
    refused = own.post(CHAT, sol(), key("plus"))
    assert refused.status == 429
    error = refused.object["error"]
    assert error["type"] == error["code"] == "usage_limit_reached"
    assert error["plan_type"] == "plus"
    assert 18_000 <= error["resets_at"] - before_s <= 18_030
    assert 17_970 <= error["resets_in_seconds"] <= 18_000
    assert refused.header("retry-after") is None
    assert refused.header("x-codex-primary-reset-at") == str(error["resets_at"])
    used = float(refused.header("x-codex-primary-used-percent") or "")
    assert 83 < used < 90
    assert used / 10 == pytest.approx(
        float(refused.header("x-codex-secondary-used-percent") or ""), abs=0.02
    )
    assert refused.header("x-codex-limit-name") == "codex"
    assert refused.header("x-codex-credits-has-credits") == "false"
    with pytest.raises(openai.RateLimitError) as caught:
        own.openai(max_retries=5).with_options(api_key="plus").chat.completions.create(
            model="gpt-5.6-sol", max_tokens=100, messages=[{"role": "user", "content": "x"}]
        )
    assert caught.value.code == "usage_limit_reached"
