"""Server-sent events: LF framing only, every `data` either JSON or exactly `[DONE]`."""

from __future__ import annotations

CONTENT_TYPE = "text/event-stream; charset=utf-8"
"""The charset is named because some clients read Latin-1 without it."""

HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""Keep proxies from storing or buffering a stream."""

BEGIN = b"data: "
END = b"\n\n"
DONE = b"data: [DONE]\n\n"


def event(data: bytes) -> bytes:
    """One event; `data` is JSON without line breaks."""
    return BEGIN + data + END
