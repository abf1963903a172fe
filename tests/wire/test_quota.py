"""What a key has spent, in headers and in errors."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.ledger import (
    FREE,
    PICO,
    Amount,
    Shortage,
    ShortageName,
    Standing,
    Terms,
    Window,
    WindowState,
)
from paceline.wire.anthropic.errors import error_body, error_status
from paceline.wire.quota import codex_event, codex_headers, shortage_error

NOW_US = 1_700_000_000_500_000


def standing(
    terms: Terms, *, used: int = 0, primary: WindowState | None = None, prepaid: int = 0
) -> Standing:
    return Standing(terms, FREE, Amount(0, prepaid), Amount(0, used), primary)


def test_nothing_is_said_of_a_key_without_windows_or_credits() -> None:
    assert codex_headers(standing(Terms())) == {}
    assert codex_headers(standing(Terms(budget_usd=PICO, prepaid_usd=PICO))) == {}


def test_windows_and_credits_as_codex_reads_them() -> None:
    terms = Terms(
        primary=Window(300, 80 * PICO),
        secondary=Window(10_080, 300 * PICO),
        prepaid_credits=5 * PICO,
    )
    found = Standing(
        terms,
        FREE,
        Amount(0, 125 * PICO // 100),
        FREE,
        WindowState(300, 80 * PICO, 10 * PICO, PICO, 1_700_000_600_000_001),
        WindowState(10_080, 300 * PICO, 0, 0, None),
    )
    assert codex_headers(found, "plus") == {
        "x-codex-plan-type": "plus",
        "x-codex-primary-used-percent": "12.5",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": "1700000601",
        "x-codex-secondary-used-percent": "0",
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-limit-name": "codex",
        "x-codex-credits-has-credits": "true",
        "x-codex-credits-unlimited": "false",
        "x-codex-credits-balance": "3.75",
    }


def test_over_a_websocket_the_same_is_an_event() -> None:
    terms = Terms(primary=Window(300, 80 * PICO), prepaid_credits=5 * PICO)
    window = WindowState(300, 80 * PICO, 10 * PICO, PICO, 1_700_000_600_000_001)
    event = codex_event(standing(terms, primary=window, prepaid=PICO), "plus", "a")
    assert event is not None
    assert json.loads(event) == {
        "type": "codex.rate_limits",
        "plan_type": "plus",
        "metered_limit_name": "codex",
        "rate_limits": {
            "primary": {"used_percent": 12.5, "window_minutes": 300, "reset_at": 1_700_000_601},
            "secondary": None,
        },
        "credits": {"has_credits": True, "unlimited": False, "balance": "4"},
        "stream_id": "a",
    }
    begun = codex_event(standing(terms, primary=WindowState(300, PICO, 0, 0, None)))
    assert begun is not None
    found = json.loads(begun)
    assert found["rate_limits"]["primary"]["reset_at"] is None
    assert found["plan_type"] is None
    assert "stream_id" not in found
    assert codex_event(standing(Terms(budget_usd=1))) is None


@given(st.integers(0, 10**18), st.integers(0, 2 * 10**18))
def test_a_percentage_is_a_number_and_never_says_100_too_early(limit: int, used: int) -> None:
    window = WindowState(300, limit, used, 0, None)
    terms = Terms(primary=Window(300, limit))
    percent = codex_headers(standing(terms, primary=window))["x-codex-primary-used-percent"]
    assert 0.0 <= float(percent) <= 100.0
    assert (percent == "100") is (used >= limit)
    if limit:
        assert float(percent) == pytest.approx(min(100 * used / limit, 100), abs=0.01)


@pytest.mark.parametrize(
    ("terms", "prepaid", "has", "balance"),
    [
        (Terms(prepaid_credits=PICO), 0, "true", "1"),
        (Terms(prepaid_credits=PICO), PICO, "false", "0"),
        (Terms(prepaid_credits=PICO), 3 * PICO, "false", "0"),
        (Terms(prepaid_credits=0), 0, "false", "0"),
        (Terms(prepaid_credits=PICO), PICO - 1, "true", "0.000000000001"),
    ],
)
def test_a_balance_is_exact(terms: Terms, prepaid: int, has: str, balance: str) -> None:
    found = codex_headers(standing(terms, prepaid=prepaid))
    assert found["x-codex-credits-has-credits"] == has
    assert found["x-codex-credits-balance"] == balance


MONEY: list[tuple[ShortageName, str]] = [
    ("budget_usd", "Of the budget: limit $10, used $9.5, requested $1.25."),
    (
        "budget_credits",
        "Of the budget: limit 10 credits, used 9.5 credits, requested",
    ),
    ("prepaid_usd", "Of the prepaid amount: limit $10, used $9.5, requested $1.25."),
    ("prepaid_credits", "Of the prepaid amount: limit 10 credits, used 9.5 credits, requested"),
]


def shortage(name: ShortageName, resets_us: int | None = None) -> Shortage:
    return Shortage(name, 10 * PICO, 95 * PICO // 10, 125 * PICO // 100, resets_us)


@pytest.mark.parametrize(("name", "numbers"), MONEY)
def test_what_can_t_be_paid_gets_insufficient_quota(name: ShortageName, numbers: str) -> None:
    error = shortage_error(shortage(name, NOW_US), now_us=NOW_US, headers={"x-a": "b"})
    inside = json.loads(error.body())["error"]
    assert error.status == 429
    assert inside["type"] == inside["code"] == "insufficient_quota"
    assert inside["message"].startswith("You exceeded your current quota, please check your plan")
    assert numbers in inside["message"]
    assert error.headers == {"x-a": "b", "x-should-retry": "false"}, "and no retry-after"


@pytest.mark.parametrize(("name", "numbers"), MONEY)
def test_anthropic_says_it_with_400_and_words_that_claude_code_knows(
    name: ShortageName, numbers: str
) -> None:
    error = shortage_error(shortage(name), now_us=NOW_US, api="anthropic")
    inside = json.loads(error_body(error, "req_1"))
    assert error_status(error.status) == 400
    assert inside["error"]["type"] == "invalid_request_error"
    assert inside["error"]["message"].startswith("Your credit balance is too low")
    assert numbers in inside["error"]["message"]
    assert error.headers == {"x-should-retry": "false"}


def test_a_used_up_window_tells_when_it_begins_anew() -> None:
    found = shortage("window", 1_700_003_600_000_001)
    error = shortage_error(found, now_us=NOW_US, plan_type="plus")
    assert error.status == 429
    assert error.headers == {"x-should-retry": "false"}
    inside = json.loads(error.body())["error"]
    assert inside == {
        "message": "The usage limit has been reached: limit 10 credits, used 9.5 credits, "
        "requested 1.25 credits.",
        "type": "usage_limit_reached",
        "param": None,
        "code": "usage_limit_reached",
        "plan_type": "plus",
        "resets_at": 1_700_003_601,
        "resets_in_seconds": 3600,
    }
    anthropic = shortage_error(found, now_us=NOW_US, api="anthropic")
    assert json.loads(error_body(anthropic, None))["error"]["type"] == "rate_limit_error"


def test_a_window_that_has_not_begun_has_no_end() -> None:
    error = shortage_error(shortage("window"), now_us=NOW_US)
    inside = json.loads(error.body())["error"]
    assert (inside["plan_type"], inside["resets_at"], inside["resets_in_seconds"]) == (None,) * 3


def test_what_resets_in_a_moment_resets_in_no_less_than_nothing() -> None:
    error = shortage_error(shortage("window", NOW_US - 9_000_000), now_us=NOW_US)
    assert json.loads(error.body())["error"]["resets_in_seconds"] == 0
