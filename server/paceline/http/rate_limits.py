"""Limits on the common way: letting a request in, or a 429 that says which and how long."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.core.plan import Plan
from paceline.http.sink import Headers
from paceline.runtime.engine import LiveEngine
from paceline.runtime.limits import Account, Admission, Refusal
from paceline.wire.errors import ApiError
from paceline.wire.retry import reset_text, retry_headers, wait_text

_SHORT = {
    "requests": "requests per min (RPM)",
    "tokens": "tokens per min (TPM)",
    "streams": "concurrent requests",
}
_STREAM_WAIT_NS = 1_000_000_000
"""What is told a request too many at once: a guess, since no clock knows when another ends."""


def admit(engine: LiveEngine, plan: Plan, headers: Mapping[str, str]) -> Admission | None:
    """Let a request in; None where nothing is limited. Raises ApiError (429)."""
    if not engine.limits:
        return None
    now_ns = engine.clock.now_ns()
    key_id = headers.get("paceline-key-id", "")
    account = engine.limits.account(key_id, plan.profile.name, now_ns)
    request = plan.request
    used = plan.prompt_tokens + plan.completion_tokens
    most = used
    if request.max_tokens is not None:
        most = max(plan.prompt_tokens + request.max_tokens * len(plan.choices), used)
    refusal = account.refusal(most, now_ns)
    if refusal is not None:
        raise _too_many(refusal, request.model, account, now_ns)
    account.take(used, now_ns)
    return Admission(account)


def limit_headers(account: Account, now_ns: int) -> dict[str, str]:
    """`x-ratelimit-*` as the account stands."""
    made = {}
    for name, bucket in (("requests", account.requests), ("tokens", account.tokens)):
        if bucket is not None:
            made[f"x-ratelimit-limit-{name}"] = str(bucket.limit)
            made[f"x-ratelimit-remaining-{name}"] = str(bucket.remaining(now_ns))
            made[f"x-ratelimit-reset-{name}"] = reset_text(bucket.full_in_ns(now_ns))
    return made


def add_limits(made: Headers, admission: Admission | None, engine: LiveEngine) -> None:
    """Put `x-ratelimit-*` to the headers of an answer that was let in by a limit."""
    if admission is not None:
        found = limit_headers(admission.account, engine.clock.now_ns())
        made += [(key.encode(), value.encode()) for key, value in found.items()]


def _too_many(refusal: Refusal, model: str, account: Account, now_ns: int) -> ApiError:
    name = refusal.limit_name
    wait_ns = refusal.wait_ns
    numbers = f"Limit {refusal.limit}, Used {refusal.used}, Requested {refusal.requested}."
    headers = limit_headers(account, now_ns)
    if refusal.requested > refusal.limit:
        message = f"Request too large for {model[:100]} on {_SHORT[name]}: {numbers}"
        # However long a client waits, it will not fit.
        headers["x-should-retry"] = "false"
    else:
        message = f"Rate limit reached for {model[:100]} on {_SHORT[name]}: {numbers}"
        if wait_ns is None:
            wait_ns = _STREAM_WAIT_NS
        message += f" Please try again in {wait_text(wait_ns)}."
        headers.update(retry_headers(wait_ns))
    return ApiError(429, message, type=name, code="rate_limit_exceeded", headers=headers)
