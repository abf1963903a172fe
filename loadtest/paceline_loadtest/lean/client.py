"""The lean client: one call at a time from its request to its last event, many side by side."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import perf_counter

import orjson

from paceline.client.stream import BaseUrl
from paceline_loadtest.caller import Ask, Reply
from paceline_loadtest.clock import IdleWatch
from paceline_loadtest.endpoint import PATHS, headers_of, read_headers
from paceline_loadtest.lean.connection import Connection, Exchange
from paceline_loadtest.lean.marks import Marks, marks_of
from paceline_loadtest.lean.pool import ConnectError, Pool
from paceline_loadtest.lean.socket import Sockets
from paceline_loadtest.model import Call, Dialect
from paceline_loadtest.retries import Retries, wait_again


class LeanClient:
    """A client of one server. See `Caller`.

    `idle_timeout_s` is how long nothing may come while an answer is on its way. What is asked for
    at once is under way at once: there is no cap.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        retries: Retries | None = None,
        idle_timeout_s: float = 120.0,
        connect_timeout_s: float = 10.0,
    ) -> None:
        self._base = BaseUrl.parse(base_url)
        self._api_key = api_key
        self._retries = retries or Retries()
        self._idle_timeout_s = idle_timeout_s
        self._pool = Pool(self._base, connect_timeout_s=connect_timeout_s)
        self._sockets = Sockets(
            self._base, api_key, idle_timeout_s=idle_timeout_s, connect_timeout_s=connect_timeout_s
        )
        self._heads: dict[Dialect, bytes] = {}

    async def warm(self, count: int) -> None:
        """See `Caller`."""
        # Whoever calls is told that the server can't be reached.
        with suppress(ConnectError):
            await self._pool.warm(count)

    async def call(self, ask: Ask, call: Call) -> Reply:
        """See `Caller`."""
        if ask.dialect == "responses-websocket":
            return await self._sockets.call(ask, call, self._retries)
        request = self._request(ask)
        while True:
            marks = marks_of(ask.dialect, call)
            headers = await self._attempt(request, marks, stream=ask.stream)
            wait_s = None
            if call.error is not None and call.first_at is None:
                wait_s = self._retries.wait_s(call.retries, call.status, headers)
            if wait_s is None:
                return marks.finish()
            await wait_again(call, wait_s)

    async def end_thread(self, thread: str) -> None:
        """See `Caller`."""
        await self._sockets.end(thread)

    async def aclose(self) -> None:
        """See `Caller`."""
        await self._sockets.close()
        await self._pool.close()

    async def _attempt(self, request: bytes, marks: Marks, *, stream: bool) -> dict[str, str]:
        """Send once and read the answer; gives its headers."""
        call = marks.call
        fresh = False
        while True:
            try:
                connection = await self._pool.take(fresh=fresh)
            except ConnectError as error:
                marks.fail(str(error))
                call.end_at = perf_counter()
                return {}
            reused = connection.used
            exchange = await self._exchange(connection, request, marks, stream=stream)
            if fresh or not (reused and connection.dropped and not exchange.started):
                break
            # An idle connection that the server had closed already: nothing was asked yet. It is
            # still told, as a retry.
            fresh = True
            call.retries += 1
            call.error, marks.ended = None, False
        read_headers(call, exchange.headers)
        return exchange.headers

    async def _exchange(
        self, connection: Connection, request: bytes, marks: Marks, *, stream: bool
    ) -> Exchange:
        exchange = Exchange(marks, asyncio.get_running_loop().create_future(), stream=stream)
        sent_at = connection.send(request, exchange)
        if marks.call.sent_at is None:
            marks.call.sent_at = sent_at
        watch = IdleWatch(self._idle_timeout_s, lambda: exchange.last_read, connection.give_up)
        try:
            await exchange.done
        except asyncio.CancelledError:
            exchange.drain()
            connection.exchange = None
            connection.close()
            raise
        finally:
            watch.cancel()
            self._pool.give(connection)
        return exchange

    def _request(self, ask: Ask) -> bytes:
        body = orjson.dumps(ask.body)
        head = self._heads.get(ask.dialect)
        if head is None:
            base = self._base
            host = f"[{base.host}]" if ":" in base.host else base.host
            lines = [f"POST {base.path}{PATHS[ask.dialect]} HTTP/1.1", f"Host: {host}:{base.port}"]
            headers = headers_of(ask.dialect, self._api_key)
            lines += [f"{name}: {value}" for name, value in headers.items()]
            head = self._heads[ask.dialect] = "\r\n".join(lines).encode("latin-1")
        own = "".join(f"\r\n{name}: {value}" for name, value in ask.headers.items())
        return b"%b%b\r\nContent-Length: %d\r\n\r\n%b" % (
            head,
            own.encode("latin-1"),
            len(body),
            body,
        )
