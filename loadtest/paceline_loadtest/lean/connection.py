"""One HTTP/1.1 connection and the answer that is on its way over it.

The hot path is `data_received` to `body`: a stamp, the parser in C, two appends. Events are read
a few pieces at a time, when the piece that fills a batch comes in or the answer ends.
"""

from __future__ import annotations

import asyncio
from array import array
from time import perf_counter
from typing import Any, cast

import httptools

from paceline_loadtest.errors import body_text, os_text
from paceline_loadtest.lean.cutter import EventCutter
from paceline_loadtest.lean.marks import Marks

_BATCH = 24
"""Pieces that are read at once: some 0.1 ms of work, and a stream's share of it is small."""

_ERROR_PIECES = 64
"""More of a refused request's body is not kept."""


class Exchange:
    """One request's answer, from its first byte to its last."""

    __slots__ = (
        "_at",
        "_cutter",
        "_marks",
        "_pieces",
        "_stream",
        "_whole",
        "done",
        "headers",
        "last_read",
    )

    def __init__(self, marks: Marks, done: asyncio.Future[None], *, stream: bool = True) -> None:
        self.done = done
        self.headers: dict[str, str] = {}
        self.last_read = perf_counter()
        self._marks = marks
        self._stream = stream
        self._cutter = EventCutter()
        self._at = array("d")
        self._pieces: list[bytes] = []
        self._whole: list[bytes] | None = None
        """The pieces of an answer that is no stream."""

    @property
    def started(self) -> bool:
        """Whether anything of the answer has come."""
        return self._marks.call.headers_at is not None

    def head(self, status: int, at: float) -> None:
        """The headers are complete."""
        call = self._marks.call
        call.headers_at = at
        call.status = status
        kind = self.headers.get("content-type", "")
        if status != 200 or not self._stream or not kind.startswith("text/event-stream"):
            self._whole = []

    def body(self, piece: bytes, at: float) -> None:
        """A piece of the body."""
        if self._whole is not None:
            if self._marks.call.status == 200 or len(self._whole) < _ERROR_PIECES:
                self._whole.append(piece)
            return
        self._at.append(at)
        self._pieces.append(piece)
        if len(self._pieces) >= _BATCH:
            self.drain()

    def drain(self) -> None:
        """Read the events of the pieces that have come in."""
        event, feed = self._marks.event, self._cutter.feed
        for at, piece in zip(self._at, self._pieces, strict=True):
            for data in feed(piece):
                event(data, at)
        self._at = array("d")
        self._pieces = []

    def end(self, why: str | None = None) -> None:
        """The answer has ended: as it should, or because of `why`."""
        if self.done.done():
            return
        self.drain()
        whole, self._whole = self._whole, None
        if whole is not None and why is None and self._answers():
            self._marks.whole(b"".join(whole), self.last_read)
        elif whole is not None and self.started:
            self._marks.fail(self._refused(b"".join(whole)))
        elif why is not None and not self._marks.ended:
            self._marks.fail(why)
        self._marks.call.end_at = perf_counter()
        self.done.set_result(None)

    def _answers(self) -> bool:
        """Whether what came in one piece is the answer."""
        return self._marks.call.status == 200 and not self._stream

    def _refused(self, body: bytes) -> str:
        status = self._marks.call.status
        if status == 200 and not self._stream:
            return "the answer broke off"
        if status == 200:
            kind = self.headers.get("content-type", "of no type")
            return f"200, but the answer is {kind}, not a stream of events"
        return f"{status}: {body_text(body) or 'no reason given'}"


class Connection(asyncio.Protocol):
    """A connection; `exchange` is what is under way on it, None where it is idle."""

    __slots__ = (
        "_at",
        "_gave_up",
        "_keep",
        "_parser",
        "closed",
        "exchange",
        "transport",
        "used",
        "why_closed",
    )

    def __init__(self) -> None:
        self.exchange: Exchange | None = None
        self.closed = False
        self.used = False
        """Whether an answer has come over it before."""
        self.why_closed = "the server closed the connection"
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # until it is made
        self._parser: Any = None
        self._keep = False
        self._gave_up = False
        self._at = 0.0

    def send(self, request: bytes, exchange: Exchange) -> float:
        """Send a request; returns when its first byte left."""
        self.exchange = exchange
        self._parser = httptools.HttpResponseParser(self)
        at = perf_counter()
        self.transport.write(request)
        exchange.last_read = at
        return at

    @property
    def reusable(self) -> bool:
        """Whether another request may go over it."""
        return self._keep and self.exchange is None and not self.closed

    @property
    def dropped(self) -> bool:
        """Whether the other end broke it off."""
        return self.closed and not self._gave_up

    def give_up(self, why: str) -> None:
        """Break it off, and say why."""
        self._gave_up = True
        self.why_closed = why
        self.close()

    def close(self) -> None:
        """Break it off."""
        self.closed = True
        if self.transport is not None:
            self.transport.abort()

    # -- asyncio ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        # uvloop's transports have asyncio's methods without being its subclasses.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Stamp what came in, then read its framing."""
        self._at = at = perf_counter()
        exchange = self.exchange
        if exchange is None:
            # Bytes that nobody asked for: the connection can't be trusted any more.
            self.close()
            return
        exchange.last_read = at
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._ended(f"the answer is not HTTP: {error}")
            self.close()

    def eof_received(self) -> None:
        """Nothing more comes; `connection_lost` follows."""

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        if exc is not None:
            self.why_closed = f"the connection broke off: {os_text(exc)}"
        self.closed = True
        self._ended(self.why_closed)

    # -- httptools -------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        if self.exchange is not None:
            self.exchange.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All of them."""
        status = self._parser.get_status_code()
        if self.exchange is not None and status >= 200:
            self.exchange.head(status, self._at)

    def on_body(self, body: bytes) -> None:
        """A piece of the body, without its framing."""
        if self.exchange is not None:
            self.exchange.body(body, self._at)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if self._parser.get_status_code() < 200:
            # An interim answer; the one that counts follows.
            if self.exchange is not None:
                self.exchange.headers.clear()
            return
        self._keep = self._parser.should_keep_alive()
        self.used = True
        self._ended(None)

    def _ended(self, why: str | None) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.end(why)
