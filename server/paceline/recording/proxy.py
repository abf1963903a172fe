"""The recorder: an ASGI application that hands everything on to one upstream and keeps it.

Bytes leave as they come, both ways; nothing is unpacked, joined or held back. Credentials pass
and aren't kept. What was exchanged is written when it is over, by a thread, one after another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from paceline.core.percentile import percentile
from paceline.http.faults.drop_after import close_connection
from paceline.http.respond import Receive, Scope, request_id, send_error
from paceline.http.sink import HandSender, Send
from paceline.recording.document import (
    Added,
    Chunk,
    End,
    Exchange,
    Headers,
    Request,
    Response,
    without_names,
)
from paceline.recording.files import Writer
from paceline.recording.redact import Redactor
from paceline.recording.upstream import HOP_BY_HOP, Base, Connection, Pool, UnreachableError
from paceline.wire.errors import ApiError

log = logging.getLogger("paceline")

_NOT_SENT = HOP_BY_HOP | {"host", "accept-encoding", "expect"}


class Recorder:
    """The application. Lives on one event loop."""

    def __init__(self, base: Base, writer: Writer, pool: Pool | None = None) -> None:
        self.base = base
        self.pool = pool or Pool(base)
        self.kept = 0
        """Exchanges on the disk."""
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, "recording")
        self._passing: set[_Passing] = set()
        self._stopped = False

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            # Imported when it is needed: a client library of its own.
            from paceline.recording.sockets import pass_socket  # noqa: PLC0415

            await pass_socket(self, scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    def stop(self) -> None:
        """End what is under way, and keep what there is of it."""
        self._stopped = True
        for passing in list(self._passing):
            passing.break_off()

    def keep(self, exchange: Exchange, redactor: Redactor) -> None:
        """Have an exchange written."""
        self._thread.submit(self._write, exchange, redactor)

    def close(self) -> None:
        """Wait until all is written."""
        self.stop()
        self.pool.close()
        self._thread.shutdown(wait=True)
        self._writer.close()
        log.info("%d exchanges recorded", self.kept)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._stopped:
            error = ApiError(503, "The recorder is shutting down.", code="server_shutting_down")
            await send_error(send, error, request_id(scope), 0.0)
            return
        passing = _Passing(self, scope, receive, send)
        self._passing.add(passing)
        try:
            await passing.run()
        except UnreachableError as problem:
            log.warning("%s can't be reached: %s", self.base, problem)
            error = ApiError(
                502, f"{self.base} can't be reached: {problem}", code="upstream_unreachable"
            )
            await send_error(send, error, request_id(scope), 0.0)
        finally:
            self._passing.discard(passing)
            passing.break_off()

    def _write(self, exchange: Exchange, redactor: Redactor) -> None:
        try:
            where = self._writer.write(clean(exchange, redactor))
        except OSError as error:
            log.error("an exchange could not be written: %s", error)
            return
        except Exception:
            log.exception("an exchange could not be written")
            return
        self.kept += 1
        request, response = exchange.request, exchange.response
        log.info(
            "%s %s %s, %d chunks, %s: %s",
            request.method,
            redactor.text(request.path),
            response.status if response else "no answer",
            len(exchange.chunks),
            exchange.end.replace("_", " "),
            where,
        )

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.get_running_loop().run_in_executor(None, self.close)
        await send({"type": "lifespan.shutdown.complete"})


class _Passing:
    """One request on its way up, and its answer on its way down. A `Listener`."""

    def __init__(self, recorder: Recorder, scope: Scope, receive: Receive, send: Send) -> None:
        self._arrived_ns = time.monotonic_ns()
        self._recorded_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._recorder = recorder
        self._receive = receive
        self._send = send
        self._sender = HandSender(send)
        self._sender.drained = self._drained
        self._method: str = scope["method"]
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        self._path = recorder.base.resource(raw.decode("latin-1").partition("?")[0])
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
        base = self._recorder.base
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
            log.warning("%s can't be reached: %s", self._recorder.base, problem)
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
        connection = self._connection
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
            upstream=str(recorder.base),
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


def decoded(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers as text."""
    return tuple((key.decode("latin-1"), value.decode("latin-1")) for key, value in headers)


def clean(exchange: Exchange, redactor: Redactor) -> Exchange:
    """An exchange without its credentials, as it is kept."""
    asked, response = exchange.request, exchange.response
    body = redactor.request_body(asked.body)
    query = redactor.query(asked.query)
    request = Request(
        asked.method,
        redactor.text(asked.path),
        query,
        redactor.headers(without_names(asked.headers, HOP_BY_HOP)),
        body,
    )
    chunks = exchange.chunks
    if response is not None:
        redactor.learn(response.headers)
        kept = tuple((k, v) for k, v in response.headers if k.lower() != "set-cookie")
        encoding = next((v.lower() for k, v in kept if k.lower() == "content-encoding"), "")
        parts = [chunk.data for chunk in chunks]
        unpacked = redactor.hidden_in(parts, encoding)
        if unpacked is not None:
            # Starred out in its packed form it would be no answer any more.
            kept = without_names(kept, ("content-encoding", "content-length"))
            chunks = (Chunk(chunks[-1].at_ns, unpacked),)
        else:
            chunks = tuple(
                Chunk(c.at_ns, data, c.sender, c.binary)
                for c, data in zip(chunks, redactor.response(parts), strict=True)
            )
        response = Response(response.status, redactor.headers(kept), response.head_ns)
    close = exchange.close
    return Exchange(
        exchange.upstream,
        request,
        response,
        chunks,
        exchange.end,
        exchange.end_ns,
        exchange.recorded_at,
        exchange.added,
        close if close is None else (close[0], redactor.text(close[1])),
    )
