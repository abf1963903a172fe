"""Responses over a WebSocket: a connection an agent, one request after another on it."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from time import perf_counter
from typing import Any, cast

import orjson

from paceline.client.stream import BaseUrl
from paceline_loadtest.caller import Ask, Reply
from paceline_loadtest.clock import IdleWatch
from paceline_loadtest.endpoint import PATHS, read_headers
from paceline_loadtest.errors import body_text, os_text
from paceline_loadtest.lean.frames import (
    CLOSE,
    PING,
    PONG,
    TEXT,
    FrameError,
    FrameReader,
    frame,
)
from paceline_loadtest.lean.marks import RESPONSE_ENDS, Marks, marks_of
from paceline_loadtest.model import Call
from paceline_loadtest.retries import Retries, wait_again

_HEAD_END = b"\r\n\r\n"
_MOST_HEAD = 1 << 16


class HandshakeError(Exception):
    """The server didn't take the connection up."""

    def __init__(self, why: str, status: int | None = None, headers: Any = None) -> None:
        super().__init__(why)
        self.status = status
        self.headers: dict[str, str] = headers or {}


class Socket(asyncio.Protocol):
    """One WebSocket; `marks` is the call under way."""

    def __init__(self) -> None:
        self.closed = False
        self.why_closed = "the server closed the connection"
        self.headers: dict[str, str] = {}
        self.error_headers: dict[str, str] = {}
        self.last_read = perf_counter()
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # until it is made
        self._marks: Marks | None = None
        self._done: asyncio.Future[None] | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = b""
        self._reader: FrameReader | None = None

    async def open(self, request: bytes) -> None:
        """Ask for the upgrade. Raises HandshakeError."""
        self.transport.write(request)
        await self._opened

    async def ask(self, data: bytes, marks: Marks) -> None:
        """Send a request and wait for the end of its answer."""
        self._marks = marks
        self._done = asyncio.get_running_loop().create_future()
        self.error_headers = {}
        at = self.last_read = perf_counter()
        if self.closed:
            self._end(self.why_closed)
        else:
            self.transport.write(frame(TEXT, data))
            if marks.call.sent_at is None:
                marks.call.sent_at = at
        try:
            await self._done
        finally:
            self._marks = self._done = None

    def close(self, why: str | None = None) -> None:
        """Break it off."""
        self.closed = True
        if why is not None:
            self.why_closed = why
        if self.transport is not None:
            self.transport.abort()

    # -- asyncio ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        # uvloop's transports have asyncio's methods without being its subclasses.
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Stamp what came in, then take it apart."""
        at = self.last_read = perf_counter()
        if self._reader is None:
            data = self._upgrade(data)
            if self._reader is None:
                return
        try:
            messages = self._reader.feed(data)
        except FrameError as error:
            self.close(f"the server sent what is no WebSocket frame: {error}")
            return
        for kind, payload in messages:
            if kind == TEXT:
                self._event(payload, at)
            elif kind == PING:
                self.transport.write(frame(PONG, payload))
            elif kind == CLOSE:
                code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
                said = payload[2:].decode("utf-8", "replace")
                self.why_closed = f"the server closed the WebSocket: {code} {said}".rstrip()
                self.transport.write(frame(CLOSE, payload[:2]))
                self.transport.close()

    def eof_received(self) -> None:
        """Nothing more comes; `connection_lost` follows."""

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        if exc is not None:
            self.why_closed = f"the connection broke off: {os_text(exc)}"
        self.closed = True
        if not self._opened.done():
            self._opened.set_exception(self._refused())
        self._end(self.why_closed)

    # -- what came in ----------------------------------------------------------------------------

    def _upgrade(self, data: bytes) -> bytes:
        """The answer to the handshake; returns what is behind it."""
        self._head += data
        head, found, rest = self._head.partition(_HEAD_END)
        if not found:
            if len(self._head) > _MOST_HEAD:
                self.close("the answer to the upgrade is not HTTP")
            return b""
        lines = head.decode("latin-1").split("\r\n")
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        if lines[0].split(" ")[1:2] == ["101"]:
            self._reader = FrameReader()
            self._opened.set_result(None)
            return rest
        length = self.headers.get("content-length", "0")
        if length.isdigit() and len(rest) >= int(length):
            self.transport.close()
        return b""

    def _refused(self) -> HandshakeError:
        head, _, body = self._head.partition(_HEAD_END)
        first = head.split(b"\r\n")[0].split(b" ")
        if len(first) < 2 or not first[1].isdigit():
            return HandshakeError(self.why_closed)
        status = int(first[1])
        why = f"{status}: {body_text(body) or 'the upgrade was refused'}"
        return HandshakeError(why, status, self.headers)

    def _event(self, payload: bytes, at: float) -> None:
        marks = self._marks
        if marks is None:
            return
        call = marks.call
        if call.headers_at is None:
            # There are no headers; the first event is what says that the request was taken.
            call.headers_at = at
        marks.event(payload, at)
        if marks.ended:
            if call.error is not None:
                self._failed(payload, call)
            self._end(None)

    def _failed(self, payload: bytes, call: Call) -> None:
        """An error frame has a status and headers of its own.

        Behind an event that can't be read the rest of its response may follow, which the next
        request would take for its own: that connection is broken off.
        """
        try:
            found = orjson.loads(payload)
        except ValueError:
            found = None
        if not isinstance(found, dict) or found.get("type") not in RESPONSE_ENDS:
            self.close()
        elif found["type"] == "error":
            status, headers = found.get("status"), found.get("headers")
            if isinstance(status, int):
                call.status = status
            if isinstance(headers, dict):
                self.error_headers = {str(k).lower(): str(v) for k, v in headers.items()}

    def _end(self, why: str | None) -> None:
        if self._done is None or self._done.done() or self._marks is None:
            return
        if why is not None and not self._marks.ended:
            self._marks.fail(why)
        self._marks.call.end_at = perf_counter()
        self._done.set_result(None)


class Sockets:
    """The WebSockets of one server's agents, by thread."""

    def __init__(
        self, base: BaseUrl, api_key: str, *, idle_timeout_s: float, connect_timeout_s: float
    ) -> None:
        self._base = base
        self._api_key = api_key
        self._idle_timeout_s = idle_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._sockets: dict[str, Socket] = {}
        self._tls = ssl.create_default_context() if base.scheme == "https" else None

    async def call(self, ask: Ask, call: Call, retries: Retries) -> Reply:
        """One request on its agent's connection, which is made where there is none."""
        data = orjson.dumps({"type": "response.create", **ask.body})
        while True:
            marks = marks_of(ask.dialect, call)
            headers = await self._attempt(ask, data, marks)
            wait_s = None
            if call.error is not None and call.first_at is None:
                wait_s = retries.wait_s(call.retries, call.status, headers)
            if wait_s is None:
                if call.error is None:
                    call.status = 200
                return marks.finish()
            await wait_again(call, wait_s)

    async def end(self, thread: str) -> None:
        """Close an agent's connection."""
        socket = self._sockets.pop(thread, None)
        if socket is not None:
            socket.close()

    async def close(self) -> None:
        """Close all of them."""
        for thread in list(self._sockets):
            await self.end(thread)
        await asyncio.sleep(0)

    async def _attempt(self, ask: Ask, data: bytes, marks: Marks) -> dict[str, str]:
        socket = self._sockets.get(ask.thread)
        if socket is None or socket.closed:
            try:
                socket = await self._connect(ask)
            except HandshakeError as error:
                marks.fail(str(error))
                marks.call.status = error.status
                marks.call.end_at = perf_counter()
                return error.headers
            self._sockets[ask.thread] = socket
        watch = IdleWatch(self._idle_timeout_s, lambda: socket.last_read, socket.close)
        try:
            await socket.ask(data, marks)
        except asyncio.CancelledError:
            await self.end(ask.thread)
            raise
        finally:
            watch.cancel()
        read_headers(marks.call, socket.headers)
        # One id for all that a connection carries tells no request from another.
        marks.call.request_id = None
        return socket.error_headers

    async def _connect(self, ask: Ask) -> Socket:
        base = self._base
        host = f"[{base.host}]" if ":" in base.host else base.host
        lines = [
            f"GET {base.path}{PATHS[ask.dialect]} HTTP/1.1",
            f"Host: {host}:{base.port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            f"Authorization: Bearer {self._api_key}",
            *(f"{name}: {value}" for name, value in ask.headers.items()),
        ]
        request = "\r\n".join([*lines, "", ""]).encode("latin-1")
        socket: Socket | None = None
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, socket = await asyncio.get_running_loop().create_connection(
                    Socket,
                    base.host,
                    base.port,
                    ssl=self._tls,
                    server_hostname=base.host if self._tls else None,
                )
                await socket.open(request)
                opened, socket = socket, None
                return opened
        except TimeoutError:
            raise HandshakeError(
                f"{base} can't be reached: no answer in {self._connect_timeout_s:g} s"
            ) from None
        except OSError as error:
            raise HandshakeError(f"{base} can't be reached: {os_text(error)}") from None
        finally:
            if socket is not None:
                # It was reached, but never taken up.
                socket.close()
