"""One request on its way to upstream, and its answer on its way back, noted as they pass."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import Protocol

from paceline.core.percentile import percentile
from paceline.http.faults.drop_after import close_connection
from paceline.http.respond import Receive, Scope
from paceline.http.sink import HandSender, Send
from paceline.recording.document import (
    HOP_BY_HOP,
    Added,
    Chunk,
    End,
    Exchange,
    Headers,
    Request,
    Response,
    decoded,
    without_names,
)
from paceline.recording.redact import Redactor
from paceline.recording.upstream import Connection, Pool, UnreachableError

log = logging.getLogger("paceline")

_NOT_SENT = HOP_BY_HOP | {"host", "accept-encoding", "expect"}


class Keeper(Protocol):
    """Where exchanges go."""

    pool: Pool

    def keep(self, exchange: Exchange, redactor: Redactor) -> None:
        """Have an exchange written."""
        ...


class Passing:
    """One request on its way up, and its answer on its way down. A `Listener`."""

    def __init__(self, recorder: Keeper, scope: Scope, receive: Receive, send: Send) -> None:
        self._arrived_ns = time.monotonic_ns()
        self._recorded_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._recorder = recorder
        self._receive = receive
        self._send = send
        self._sender = HandSender(send)
        self._sender.drained = self._drained
        self._method: str = scope["method"]
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        self._path = recorder.pool.base.resource(raw.decode("latin-1").partition("?")[0])
        self._query = scope["query_string"].decode("latin-1")
        self._headers: Headers = decoded(scope["headers"])
        self._chunked = any(key.lower() == "transfer-encoding" for key, _ in self._headers)
        self._body = bytearray()
        self._connection: Connection | None = None
        self._again: asyncio.Task[None] | None = None
        self._sent_all = False
        self._over = False
        self._hung_up = asyncio.Event()
        """Set when the client's connection should end and could not be ended from here."""
        # What is kept of the answer.
        self._response: Response | None = None
        self._chunks: list[Chunk] = []
        self._first_ns = self._left_ns = self._connect_ns = 0
        self._paused_ns = self._paused_at = 0
        self._added: list[int] = []

    async def run(self) -> None:
        """Hand the request on, and then wait for the end. Raises UnreachableError."""
        pool = self._recorder.pool
        self._connection = pool.idle()
        if self._connection is None:
            self._connection = await self._connect()
        self._begin()
        leaving = asyncio.ensure_future(self._take_request())
        hung_up = asyncio.ensure_future(self._hung_up.wait())
        try:
            await asyncio.wait((leaving, hung_up), return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                leaving.result()
        finally:
            leaving.cancel()
            hung_up.cancel()
        self._end("client_left")

    def break_off(self) -> None:
        """The recorder stops."""
        if not self._over:
            self._end("recorder_stopped")
            self._hang_up()

    # -- the request ---------------------------------------------------------------------------

    async def _take_request(self) -> None:
        """Take the request's body and hand it on; returns when the client has left."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return
            data = message.get("body", b"")
            self._body += data
            connection = self._connection
            if connection is None:
                self._sent_all = not message.get("more_body", False)
                continue
            connection.write(self._framed(data))
            if not message.get("more_body", False):
                self._sent_all = True
                self._finish_request(connection)
            else:
                await connection.drained()

    def _framed(self, data: bytes) -> bytes:
        if not self._chunked or not data:
            return bytes(data)
        return b"%x\r\n%b\r\n" % (len(data), data)

    def _finish_request(self, connection: Connection) -> None:
        if self._chunked:
            connection.write(b"0\r\n\r\n")
        self._left_ns = time.monotonic_ns()

    async def _connect(self) -> Connection:
        begun_ns = time.monotonic_ns()
        connection = await self._recorder.pool.connect()
        self._connect_ns += time.monotonic_ns() - begun_ns
        return connection

    def _begin(self) -> None:
        """Send the head, and of the body what there is."""
        connection = self._connection
        assert connection is not None, "taken by the caller"
        connection.begin(self, head_only=self._method == "HEAD")
        base = self._recorder.pool.base
        target = base.path + self._path + (f"?{self._query}" if self._query else "")
        named = {
            name.strip().lower()
            for key, value in self._headers
            if key.lower() == "connection"
            for name in value.split(",")
        }
        lines = [f"{self._method} {target or '/'} HTTP/1.1", f"Host: {base.authority}"]
        lines += [
            f"{key}: {value}" for key, value in without_names(self._headers, _NOT_SENT | named)
        ]
        lines.append("Accept-Encoding: identity")
        if self._chunked:
            lines.append("Transfer-Encoding: chunked")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        connection.write(head + self._framed(bytes(self._body)))
        self._first_ns = time.monotonic_ns()
        if self._sent_all:
            self._finish_request(connection)

    async def _begin_again(self) -> None:
        """Upstream had closed an idle connection before it saw this request: take a new one."""
        try:
            self._connection = await self._connect()
        except UnreachableError as problem:
            log.warning("%s can't be reached: %s", self._recorder.pool.base, problem)
            self._end("upstream_dropped")
            self._hang_up()
            return
        if self._over:
            self._connection.abort()
            return
        self._begin()

    # -- the answer: a Listener ----------------------------------------------------------------

    def head(self, at_ns: int, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The answer begins."""
        kept = without_names(decoded(headers), HOP_BY_HOP)
        self._response = Response(status, kept, self._since_left(at_ns))
        if status in (204, 304):
            # The server that writes this answer would wait for what the header announces.
            kept = without_names(kept, ("content-length",))
        raw = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in kept]
        self._sender.post({"type": "http.response.start", "status": status, "headers": raw})

    def chunk(self, at_ns: int, data: bytes) -> None:
        """A part of it."""
        sender = self._sender
        sender.post({"type": "http.response.body", "body": data, "more_body": True})
        self._chunks.append(Chunk(self._since_left(at_ns), data))
        if not sender.blocked:
            self._added.append(time.monotonic_ns() - at_ns)
        elif not self._paused_at and self._connection is not None:
            self._paused_at = time.monotonic_ns()
            self._connection.pause()

    def complete(self, at_ns: int) -> None:
        """It has ended."""
        self._end("complete", at_ns)
        self._sender.post({"type": "http.response.body", "body": b"", "more_body": False})

    def dropped(self, at_ns: int) -> None:
        """It has broken off, and so does ours."""
        connection = self._connection
        assert connection is not None, "the one that was dropped"
        if connection.used and not connection.heard:
            self._connection = None
            self._again = asyncio.ensure_future(self._begin_again())
            return
        self._end("upstream_dropped", at_ns)
        self._hang_up()

    # ------------------------------------------------------------------------------------------

    def _since_left(self, at_ns: int) -> int:
        """From when the request's last byte left; 0 for what was there before."""
        return max(at_ns - self._left_ns, 0) if self._left_ns else 0

    def _drained(self) -> None:
        if self._paused_at:
            self._paused_ns += time.monotonic_ns() - self._paused_at
            self._paused_at = 0
        if self._connection is not None:
            self._connection.resume()

    def _hang_up(self) -> None:
        if not close_connection(self._send):
            self._hung_up.set()

    def _end(self, end: End, at_ns: int = 0) -> None:
        if self._over:
            return
        self._over = True
        # No more ours: another exchange may have it before our client has read everything.
        connection, self._connection = self._connection, None
        if self._again is not None and connection is None:
            self._again.cancel()
        if connection is not None:
            if end == "complete" and self._sent_all:
                self._recorder.pool.give_back(connection)
            else:
                connection.abort()
        if not self._first_ns:
            # Nothing had left for upstream.
            return
        recorder = self._recorder
        redactor = Redactor()
        redactor.learn(self._headers, self._query)
        request = Request(self._method, self._path, self._query, self._headers, bytes(self._body))
        exchange = Exchange(
            upstream=str(recorder.pool.base),
            request=request,
            response=self._response,
            chunks=tuple(self._chunks),
            end=end,
            end_ns=self._since_left(at_ns or time.monotonic_ns()),
            recorded_at=self._recorded_at,
            added=Added(
                request_ns=self._first_ns - self._arrived_ns,
                connect_ns=self._connect_ns,
                chunk_ns_p50=round(percentile(sorted(self._added), 50)) if self._added else 0,
                chunk_ns_max=max(self._added, default=0),
                paused_ns=self._paused_ns,
            ),
        )
        recorder.keep(exchange, redactor)
