"""Where each dialect's requests go, and what every request to it carries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from paceline.client.stream import BaseUrl
from paceline_loadtest.model import Call, Dialect, Target

PATHS: Final[dict[Dialect, str]] = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "responses-websocket": "/responses",
    "messages": "/messages",
}
"""Behind the base URL, which ends in /v1."""

ANTHROPIC_VERSION = "2023-06-01"

_TIMING = re.compile(r"(\w+);dur=([0-9.]+)")


def base_of(target: Target) -> BaseUrl:
    """The target's base URL. Raises ValueError for what is none."""
    return BaseUrl.parse(target.base_url)


def root_of(base: BaseUrl) -> BaseUrl:
    """The server's root: where Anthropic's client begins, and Paceline's own pages are."""
    return BaseUrl(base.scheme, base.host, base.port, base.path.removesuffix("/v1"))


def headers_of(dialect: Dialect, api_key: str) -> dict[str, str]:
    """The headers of a request, credentials included."""
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if dialect == "messages":
        return headers | {"x-api-key": api_key, "anthropic-version": ANTHROPIC_VERSION}
    return headers | {"Authorization": f"Bearer {api_key}"}


def read_headers(call: Call, headers: Mapping[str, str]) -> None:
    """Note what an answer's headers say: its id, the profile, and where the time went.

    Names in lower case. A stream's `Server-Timing` leaves with its first token, so it knows
    nothing of decoding.
    """
    call.request_id = headers.get("x-request-id") or headers.get("request-id") or call.request_id
    server = call.server
    server.profile = headers.get("x-paceline-profile", server.profile)
    server.cost_usd = headers.get("x-paceline-cost-usd", server.cost_usd)
    server.credits = headers.get("x-paceline-credits", server.credits)
    parts = {
        name: float(ms) / 1e3 for name, ms in _TIMING.findall(headers.get("server-timing", ""))
    }
    server.overhead_s = parts.get("overhead", server.overhead_s)
    server.queue_s = parts.get("queue", server.queue_s)
    server.prefill_s = parts.get("prefill", server.prefill_s)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the server says to wait, in seconds; None where it doesn't, or says no number.

    `retry-after-ms` is the finer of the two; where both are given the longer one counts, so that
    nobody comes back too early.
    """
    found = []
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
            found.append(float(text) * unit)
    return max(found, default=None)
