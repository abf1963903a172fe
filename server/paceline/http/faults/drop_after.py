"""The connection breaks in the middle: no error, no end of the body, no closing frame."""

from __future__ import annotations

from functools import partial
from typing import Any

from paceline.core.usage import Usage
from paceline.http.faults.after import After
from paceline.runtime.sink import Timing


class DropAfter(After):
    """Closes the client's connection; what was written before it still arrives."""

    def strike(self) -> bool:
        """Break the answer off without a word."""
        self.scene.engine.pacer.abort(self.victim, "error")
        self.scene.drop()
        return False

    def strike_whole(self, usage: Usage, timing: Timing) -> None:
        """The same before anything was said."""
        self.struck = True
        self.victim.record.state = "failed"
        self.scene.drop()


def close_connection(send: Any) -> bool:
    """Close the connection behind an ASGI `send`; whether it could be reached.

    ASGI has no word for it. uvicorn's `send` is a method of what holds the transport, and
    wrappers that say what they wrap can be looked through, as can Starlette's CORS middleware.
    Where that leads nowhere the caller takes what ASGI offers: to leave an answer unfinished,
    which servers log as the application's mistake.
    """
    while True:
        inner = getattr(send, "__wrapped__", None)
        if inner is None and isinstance(send, partial):
            inner = send.keywords.get("send")
        if inner is None:
            break
        send = inner
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    close = getattr(transport, "close", None)
    if close is None:
        return False
    close()
    return True
