"""Limits on the common way: what stands against a request, and the headers that say how it is.

`now_ns` is the engine's clock; `now_us` is Unix time in microseconds, for the headers that name a
moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from paceline.core.ledger import Standing
from paceline.core.plan import Plan
from paceline.runtime.keys import Caller
from paceline.runtime.limits import Account, Bucket, Refusal
from paceline.wire.errors import ApiError
from paceline.wire.quota import US_PER_S, Api, codex_headers
from paceline.wire.retry import reset_text, retry_headers, wait_text

_SHORT = {
    "requests": "requests per min (RPM)",
    "requests_per_day": "requests per day (RPD)",
    "tokens": "tokens per min (TPM)",
    "streams": "concurrent requests",
}
_STREAM_WAIT_NS = 1_000_000_000
"""What is told a request too many at once: a guess, since no clock knows when another ends."""


def tokens_of(plan: Plan) -> tuple[int, int]:
    """What a request's answer will come to, and the most that it might have: prompt and output."""
    used = plan.prompt_tokens + plan.completion_tokens
    asked = plan.request.max_tokens
    if asked is None:
        return used, used
    return used, max(plan.prompt_tokens + asked * len(plan.choices), used)


def headers(
    caller: Caller,
    account: Account | None,
    standing: Standing | None,
    *,
    api: Api,
    now_ns: int,
    now_us: int,
) -> dict[str, str]:
    """Everything that an answer's headers say of a caller's limits and of what it has spent.

    Nothing of a limit that is off, and of a key whose spending nothing bounds.
    """
    made: dict[str, str] = {}
    if account is not None:
        if api == "anthropic":
            made = anthropic_limit_headers(account, now_ns, now_us)
        else:
            made = limit_headers(account, now_ns)
    if standing is not None and api == "openai":
        made.update(codex_headers(standing, caller.plan_type))
    return made


def limit_headers(account: Account, now_ns: int) -> dict[str, str]:
    """`x-ratelimit-*` as the account stands; of two limits of requests the one to say no first."""
    made = {}
    buckets = (("requests", account.requests_left(now_ns)), ("tokens", account.tokens))
    for name, bucket in buckets:
        if bucket is not None:
            made[f"x-ratelimit-limit-{name}"] = str(bucket.limit)
            made[f"x-ratelimit-remaining-{name}"] = str(bucket.remaining(now_ns))
            made[f"x-ratelimit-reset-{name}"] = reset_text(bucket.full_in_ns(now_ns))
    return made


def anthropic_limit_headers(account: Account, now_ns: int, now_us: int) -> dict[str, str]:
    """`anthropic-ratelimit-*` as the account stands.

    Prompt and output share one bucket here, so `input-tokens` and `output-tokens` both say what
    `tokens` says: either of them can take all of it.
    """
    made: dict[str, str] = {}
    buckets: tuple[tuple[str, Bucket | None], ...] = (
        ("requests", account.requests_left(now_ns)),
        *((name, account.tokens) for name in ("tokens", "input-tokens", "output-tokens")),
    )
    for name, bucket in buckets:
        if bucket is not None:
            full_us = now_us + -(-bucket.full_in_ns(now_ns) // 1000)
            made[f"anthropic-ratelimit-{name}-limit"] = str(bucket.limit)
            made[f"anthropic-ratelimit-{name}-remaining"] = str(bucket.remaining(now_ns))
            made[f"anthropic-ratelimit-{name}-reset"] = _moment(-(-full_us // US_PER_S))
    return made


def limit_refusal(refusal: Refusal, model: str, headers: Mapping[str, str]) -> ApiError:
    """429: a limit is reached. `model` is the name that was asked for, `headers` go with it."""
    name = refusal.limit_name
    wait_ns = refusal.wait_ns
    numbers = f"Limit {refusal.limit}, Used {refusal.used}, Requested {refusal.requested}."
    out = dict(headers)
    if refusal.requested > refusal.limit:
        message = f"Request too large for {model[:100]} on {_SHORT[name]}: {numbers}"
        # However long a client waits, it will not fit.
        out["x-should-retry"] = "false"
    else:
        message = f"Rate limit reached for {model[:100]} on {_SHORT[name]}: {numbers}"
        if wait_ns is None:
            wait_ns = _STREAM_WAIT_NS
        message += f" Please try again in {wait_text(wait_ns)}."
        out.update(retry_headers(wait_ns))
    kind = "requests" if name == "requests_per_day" else name
    return ApiError(429, message, type=kind, code="rate_limit_exceeded", headers=out)


def _moment(unix_s: int) -> str:
    """A moment as RFC 3339 has it: `2026-11-30T21:03:00Z`."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
