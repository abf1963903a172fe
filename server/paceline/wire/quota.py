"""What a key has spent, as clients read it: headers of a standing, and errors of a shortage.

`now_us` is Unix time in microseconds. Amounts are pico, as everywhere in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from paceline.core.ledger import PICO, Shortage, Standing, WindowState
from paceline.core.money import digits
from paceline.wire.errors import ApiError
from paceline.wire.jsonbytes import json_bytes

Api = Literal["openai", "anthropic"]
"""Whose API an answer is of."""

US_PER_S = 1_000_000

_SPENT = "You exceeded your current quota, please check your plan and billing details."
_SPENT_ANTHROPIC = (
    "Your credit balance is too low to access the Anthropic API. "
    "Please go to Plans & Billing to upgrade or purchase credits."
)
_USED_UP = "The usage limit has been reached: "
_OF = {
    "budget_usd": "Of the budget: ",
    "budget_credits": "Of the budget: ",
    "prepaid_usd": "Of the prepaid amount: ",
    "prepaid_credits": "Of the prepaid amount: ",
    "window": "",
}
_NO_RETRY = {"x-should-retry": "false"}


def codex_headers(standing: Standing, plan_type: str | None = None) -> dict[str, str]:
    """What Codex shows of a plan, for a key that has windows or prepaid credits; else nothing.

    Percentages count what was settled, not what is only held. The limit's name is the plain one:
    by any other Codex takes it for a limit of one model, and doesn't say when it ends.
    """
    terms = standing.terms
    made: dict[str, str] = {}
    for name, window in (("primary", standing.primary), ("secondary", standing.secondary)):
        if window is not None:
            made.update(_window_headers(f"x-codex-{name}", window))
    if made:
        made["x-codex-limit-name"] = "codex"
    if made or terms.prepaid_credits is not None:
        if plan_type is not None:
            made["x-codex-plan-type"] = plan_type
        left = max((terms.prepaid_credits or 0) - (standing.prepaid_used.credits or 0), 0)
        made["x-codex-credits-has-credits"] = "true" if left else "false"
        made["x-codex-credits-unlimited"] = "false"
        made["x-codex-credits-balance"] = digits(left)
    return made


def codex_event(
    standing: Standing, plan_type: str | None = None, stream_id: str | None = None
) -> bytes | None:
    """The same as an event, for a WebSocket, whose answers have no headers; None for nothing.

    Codex reads it wherever it comes; OpenAI's own comes before the first of the response's.
    """
    told = codex_headers(standing)
    if not told:
        return None
    prepaid = {
        "has_credits": told["x-codex-credits-has-credits"] == "true",
        "unlimited": False,
        "balance": told["x-codex-credits-balance"],
    }
    event: dict[str, object] = {
        "type": "codex.rate_limits",
        "plan_type": plan_type,
        "metered_limit_name": "codex",
        "rate_limits": {
            name: None if window is None else _window_object(f"x-codex-{name}", told)
            for name, window in (("primary", standing.primary), ("secondary", standing.secondary))
        },
        "credits": prepaid,
    }
    if stream_id is not None:
        event["stream_id"] = stream_id
    return json_bytes(event)


def _window_object(prefix: str, told: Mapping[str, str]) -> dict[str, float | int | None]:
    resets_s = told.get(f"{prefix}-reset-at")
    return {
        "used_percent": float(told[f"{prefix}-used-percent"]),
        "window_minutes": int(told[f"{prefix}-window-minutes"]),
        "reset_at": None if resets_s is None else int(resets_s),
    }


def _window_headers(prefix: str, window: WindowState) -> dict[str, str]:
    # Hundredths of a percent, in whole numbers; only a window that is used up says 100.
    hundredths = min(10_000 * window.used // window.limit, 10_000) if window.limit else 10_000
    made = {
        f"{prefix}-used-percent": digits(hundredths * PICO // 100),
        f"{prefix}-window-minutes": str(window.minutes),
    }
    if window.resets_us is not None:
        made[f"{prefix}-reset-at"] = str(_whole_s(window.resets_us))
    return made


def shortage_error(
    shortage: Shortage,
    *,
    now_us: int,
    api: Api = "openai",
    plan_type: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> ApiError:
    """The answer to a request that can't be paid; `headers` go with it.

    OpenAI's API says 429 with `insufficient_quota`, or `usage_limit_reached` for a subscription's
    window. Anthropic's says 400 for spent credit, by words that Claude Code knows it by, and 429
    for a window. None of them is worth an automatic retry.
    """
    out = {**(headers or {}), **_NO_RETRY}
    numbers = _numbers(shortage)
    if shortage.name == "window":
        if api == "anthropic":
            return ApiError(429, _USED_UP + numbers, headers=out)
        kind = "usage_limit_reached"
        resets_us = shortage.resets_us
        resets_s = None if resets_us is None else _whole_s(resets_us)
        wait_s = None if resets_us is None else max(_whole_s(resets_us - now_us), 0)
        return ApiError(
            429,
            _USED_UP + numbers,
            type=kind,
            code=kind,
            headers=out,
            extra={"plan_type": plan_type, "resets_at": resets_s, "resets_in_seconds": wait_s},
        )
    if api == "anthropic":
        return ApiError(400, f"{_SPENT_ANTHROPIC} {numbers}", headers=out)
    kind = "insufficient_quota"
    return ApiError(429, f"{_SPENT} {numbers}", type=kind, code=kind, headers=out)


def _numbers(shortage: Shortage) -> str:
    amounts = (shortage.limit, shortage.used, shortage.requested)
    if shortage.name.endswith("_usd"):
        limit, used, requested = (f"${digits(pico)}" for pico in amounts)
    else:
        limit, used, requested = (f"{digits(pico)} credits" for pico in amounts)
    return f"{_OF[shortage.name]}limit {limit}, used {used}, requested {requested}."


def _whole_s(us: int) -> int:
    """Whole seconds, rounded up: at that time it has happened."""
    return -(-us // US_PER_S)
