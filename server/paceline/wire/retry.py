"""How a wait is told: in headers, and in words that clients read."""

from __future__ import annotations

NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000


def retry_headers(wait_ns: int) -> dict[str, str]:
    """`Retry-After` in whole seconds and `retry-after-ms`, both rounded up.

    A fraction in the first makes Codex give up, and a client that comes too early is refused again.
    """
    return {
        "Retry-After": str(-(-wait_ns // NS_PER_S)),
        "retry-after-ms": str(-(-wait_ns // _NS_PER_MS)),
    }


def wait_text(wait_ns: int) -> str:
    """A wait for an error's message: `12ms`, `1.2s`, `75s`; rounded up, without minutes.

    Codex reads it from there (`try again in 1.5s`), and knows only seconds and milliseconds.
    """
    ms = -(-wait_ns // _NS_PER_MS)
    return f"{ms}ms" if ms < 1000 else f"{_seconds(ms)}s"


def reset_text(wait_ns: int) -> str:
    """A wait as `x-ratelimit-reset-*` has it: `12ms`, `1.2s`, `6m0s`, `1h0m3s`; rounded up."""
    ms = -(-wait_ns // _NS_PER_MS)
    if ms < 60_000:
        return f"{ms}ms" if ms < 1000 else f"{_seconds(ms)}s"
    minutes, ms = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{_seconds(ms)}s" if hours else f"{minutes}m{_seconds(ms)}s"


def _seconds(ms: int) -> str:
    whole, rest = divmod(ms, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)
