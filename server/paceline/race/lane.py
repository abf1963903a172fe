"""One lane: what has come in, and what that makes. Reads no clock; receipt times are given to it.

All times are seconds on one clock, that of `time.perf_counter()`.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any, Literal

from paceline.client.sse import DONE, Event

State = Literal["waiting", "streaming", "finished", "failed", "stopped"]

_WINDOW_S = 1.0
_SILENCE_S = 0.5


class Lane:
    """A stream as it is received.

    One thread calls `begin`, `receive`, `end` and `fail`; others may read at any time.
    """

    def __init__(self, model: str, max_tokens: int) -> None:
        self.model = model
        self.max_tokens = max_tokens
        self.state: State = "waiting"
        self.error = ""
        self.pieces: list[str] = []
        """The text, as it came."""
        self.tokens = 0
        """Tokens of the answer so far, as the server's usage has them; hidden ones excluded."""
        self.started: float | None = None
        """When the request was sent."""
        self.first: float | None = None
        """When the first token came in."""
        self.last: float | None = None
        """When the last one did."""
        self.ended: float | None = None
        self._finish_reason = ""
        self._window: deque[tuple[float, int]] = deque()

    # --- What comes in ------------------------------------------------------------------

    def begin(self, at: float) -> None:
        """The request was sent."""
        self.started = at

    def receive(self, at: float, events: list[Event]) -> None:
        """Events were read. An error that the server sends in its stream fails the lane."""
        for event in events:
            if event.data == DONE:
                self._finish(at)
                return
            try:
                chunk = json.loads(event.data)
            except ValueError:
                chunk = None
            if not isinstance(chunk, dict):
                self.fail(at, f"a chunk is not a JSON object: {event.data[:80]}")
                return
            if (error := chunk.get("error")) is not None:
                message = error.get("message") if isinstance(error, dict) else None
                self.fail(at, str(message or error))
                return
            self._chunk(at, chunk)

    def end(self, at: float) -> None:
        """No more comes."""
        if self.state in {"waiting", "streaming"}:
            if self._finish_reason:
                self._finish(at)
            else:
                self.fail(at, f"the stream broke off after {self.tokens} tokens")

    def fail(self, at: float, message: str) -> None:
        """Nothing more can be had."""
        if self.state in {"waiting", "streaming"}:
            self.error = message
            self.ended = at
            self.state = "failed"

    def stop(self, at: float) -> None:
        """The race was broken off before this lane's end."""
        if self.state in {"waiting", "streaming"}:
            self.ended = at
            self.state = "stopped"

    def _chunk(self, at: float, chunk: dict[str, Any]) -> None:
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            text = delta.get("content") or delta.get("reasoning_content")
            if text:
                self._token(at, text)
            if choice.get("finish_reason"):
                self._finish_reason = choice["finish_reason"]
        if isinstance(usage := chunk.get("usage"), dict):
            details = usage.get("completion_tokens_details") or {}
            hidden = details.get("reasoning_tokens") or 0
            self.tokens = usage.get("completion_tokens", self.tokens) - hidden
            if self.state == "streaming":
                # The count of this very chunk is better than one a chunk, which _token guessed.
                self._window[-1] = (self._window[-1][0], self.tokens)

    def _token(self, at: float, text: str) -> None:
        self.pieces.append(text)
        self.tokens += 1
        if self.first is None:
            self.first = at
            self.state = "streaming"
        self.last = at
        window = self._window
        window.append((at, self.tokens))
        while at - window[0][0] > _WINDOW_S:
            window.popleft()

    def _finish(self, at: float) -> None:
        if self.first is None:
            self.fail(at, "the answer had no token")
            return
        self.ended = at
        self.state = "finished"

    # --- What it makes --------------------------------------------------------------------

    @property
    def text(self) -> str:
        """All that was streamed."""
        return "".join(self.pieces)

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.state in {"finished", "failed", "stopped"}

    @property
    def progress(self) -> float:
        """The part of the tokens that is here, from 0 to 1; a finished lane is at 1."""
        if self.state == "finished":
            return 1.0
        return min(1.0, self.tokens / self.max_tokens)

    @property
    def ttft_s(self) -> float | None:
        """Time to first token: from the request sent to the first token received."""
        if self.first is None or self.started is None:
            return None
        return self.first - self.started

    def elapsed_s(self, now: float) -> float:
        """From the request sent until now, or for a finished lane until its last token."""
        if self.started is None:
            return 0.0
        if self.state == "finished" and self.last is not None:
            return self.last - self.started
        return (self.ended if self.ended is not None else now) - self.started

    def rate(self) -> float | None:
        """Tokens a second from the first token to the last, so 1 / TPOT.

        TPOT is (last − first) / (tokens − 1). Where all tokens came in one read, they are taken
        over the whole time instead; None before there is anything to divide.
        """
        if self.first is None or self.last is None or self.started is None:
            return None
        if self.tokens > 1 and self.last > self.first:
            return (self.tokens - 1) / (self.last - self.first)
        if self.over and self.last > self.started:
            return self.tokens / (self.last - self.started)
        return None

    def live_rate(self, now: float) -> float | None:
        """Tokens a second over the last second; after the end, the final rate."""
        if self.over or self.last is None:
            return self.rate()
        window = list(self._window)
        if len(window) < 2:
            return None
        (since, before), (last, tokens) = window[0], window[-1]
        # Between two tokens the rate is that of the tokens; only silence brings it down.
        until = last if now - last < _SILENCE_S else now
        return (tokens - before) / (until - since) if until > since else None
