"""A tap on the SDKs' transport: stamps on receipt, before an SDK has parsed anything.

It reads the same bytes as the SDK does, by the same rules as the lean client, so that both clients
mean the same by a first token. It sees every attempt that an SDK makes by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from time import perf_counter

import httpx2

from paceline_loadtest.caller import Ask, Reply
from paceline_loadtest.endpoint import read_headers
from paceline_loadtest.lean.cutter import EventCutter
from paceline_loadtest.lean.marks import Marks, marks_of
from paceline_loadtest.model import Call

current: ContextVar[Tap | None] = ContextVar("current", default=None)
"""The tap of the call that a task makes; its requests are sent in the same task."""


class Tap:
    """What passes by of one call, over all its attempts."""

    def __init__(self, ask: Ask, call: Call) -> None:
        self.ask = ask
        self.call = call
        self.marks: Marks = marks_of(ask.dialect, call)
        self._cutter = EventCutter()
        self._whole: list[bytes] = []
        self._refused_at: float | None = None

    def sent(self, at: float) -> None:
        """An attempt begins."""
        call = self.call
        if call.sent_at is None:
            call.sent_at = at
        else:
            call.retries += 1
            if self._refused_at is not None:
                call.waited_s += at - self._refused_at
            call.status = call.headers_at = call.error = None
        self.marks = marks_of(self.ask.dialect, call)
        self._cutter = EventCutter()
        self._whole = []
        # Until an answer says otherwise, what fails has failed by now.
        self._refused_at = at

    def head(self, response: httpx2.Response, at: float) -> None:
        """The headers are complete."""
        self.call.headers_at = at
        self.call.status = response.status_code
        self._refused_at = at
        read_headers(self.call, {k.lower(): v for k, v in response.headers.items()})

    def piece(self, data: bytes, at: float) -> None:
        """A piece of the body."""
        if self.call.status == 200 and self.ask.stream:
            for event in self._cutter.feed(data):
                self.marks.event(event, at)
        elif self.call.status == 200:
            self._whole.append(data)

    def failed(self, at: float) -> None:
        """The attempt broke off."""
        self._refused_at = at

    def finish(self, at: float, why: str | None = None) -> Reply:
        """The call is over; `why` is what the SDK says was wrong."""
        call = self.call
        if call.error is None and why is None and self._whole:
            self.marks.whole(b"".join(self._whole), at)
        if why is not None and call.error is None:
            self.marks.fail(why)
        call.end_at = at
        return self.marks.finish()


class TappedTransport(httpx2.AsyncBaseTransport):
    """A transport that tells the task's tap what passes through it."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See httpx2."""
        tap = current.get()
        if tap is None:
            return await self._inner.handle_async_request(request)
        tap.sent(perf_counter())
        try:
            response = await self._inner.handle_async_request(request)
        except BaseException:
            tap.failed(perf_counter())
            raise
        at = perf_counter()
        tap.head(response, at)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _TappedStream(response.stream, tap.piece, at)
        return response

    async def aclose(self) -> None:
        """See httpx2."""
        await self._inner.aclose()


class _TappedStream(httpx2.AsyncByteStream):
    """A body whose pieces are stamped; `head_at` is when its headers were complete."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, piece: Callable[[bytes, float], None], head_at: float
    ) -> None:
        self._inner = inner
        self._piece = piece
        self._head_at = head_at

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # What is there before the event loop has had a turn was read together with the headers;
        # since then an SDK has gone through them, which would make a first token late.
        waited = asyncio.Event()
        asyncio.get_running_loop().call_soon(waited.set)
        async for data in self._inner:
            self._piece(data, perf_counter() if waited.is_set() else self._head_at)
            yield data

    async def aclose(self) -> None:
        await self._inner.aclose()
