"""The way to the endpoint that is recorded: HTTP/1.1 connections, every read stamped.

A listener is called from within the read itself, so that nothing waits between the socket that
brings bytes and the one that takes them on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

import httptools

_CONNECT_S = 15.0
_MOST_IDLE = 64
_HIGHEST_STATUS = 599
"""Of those that HTTP has classes for (RFC 9110, 15); a server can't send another."""


class UnreachableError(Exception):
    """No connection to upstream; the message says why."""


@dataclass(frozen=True, slots=True)
class Base:
    """An upstream's base address, as clients are told it."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Base:
        """Raises ValueError for what isn't an http or https address of a server."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// or https:// address")
        if parts.query or parts.fragment or parts.username or parts.password:
            raise ValueError(f"{url!r} has more than a host and a path")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """The Host header's value."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"

    def resource(self, path: str) -> str:
        """What a client's path names below the base, whether or not it begins with the base's."""
        if self.path and path.startswith(self.path + "/"):
            return path.removeprefix(self.path)
        return path


class Listener(Protocol):
    """Who hears an answer. Times are CLOCK_MONOTONIC's, in ns."""

    def head(self, at_ns: int, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The answer begins; names are in lower case."""
        ...

    def chunk(self, at_ns: int, data: bytes) -> None:
        """What one read brought of its body."""
        ...

    def complete(self, at_ns: int) -> None:
        """It has ended as it should."""
        ...

    def dropped(self, at_ns: int) -> None:
        """The connection has ended before it."""
        ...


class Connection(asyncio.Protocol):
    """One connection, for one exchange at a time."""

    def __init__(self) -> None:
        self.used = False
        """Whether it has served an exchange before the present one."""
        self.heard = False
        """Whether anything of the present answer has come."""
        self.closed = False
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._parser: Any = None
        self._listener: Listener | None = None
        self._head_only = False
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._begun = self._to_eof = self._complete = self._keep_alive = False

    # -- for whoever asks ----------------------------------------------------------------------

    def begin(self, listener: Listener, *, head_only: bool) -> None:
        """Take an exchange; `head_only` for a request whose answer has no body."""
        self._listener = listener
        self._head_only = head_only
        self.heard = self._begun = self._to_eof = self._complete = self._keep_alive = False
        self._status = 0
        self._parser = httptools.HttpResponseParser(self)

    def write(self, data: bytes) -> None:
        """Send; nothing happens on a closed connection."""
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    async def drained(self) -> None:
        """Wait until upstream has taken most of what was written."""
        await self._writable.wait()

    def pause(self) -> None:
        """Read no more for now."""
        if self._transport is not None and not self.closed:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()

    def abort(self) -> None:
        """End it now; the listener hears nothing more."""
        self._listener = None
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def reusable(self) -> bool:
        """Whether it can take another exchange."""
        return not self.closed and self._complete

    # -- asyncio's protocol --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        at_ns = time.monotonic_ns()
        if self._listener is None or self._complete:
            # Nobody asked for this.
            self.abort()
            return
        self.heard = True
        broken = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            broken = True
        self._tell(at_ns, self._listener, broken=broken)

    def _tell(self, at_ns: int, listener: Listener, *, broken: bool) -> None:
        """Pass on what one read has brought; `broken` where it is not HTTP to its end."""
        if self._status:
            listener.head(at_ns, self._status, self._headers)
            self._status = 0
        if self._parts:
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts.clear()
            listener.chunk(at_ns, body)
        if self._complete:
            self._keep_alive = self._keep_alive and not broken
            self._end_well(at_ns)
        elif broken:
            self._end_badly(at_ns)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.closed = True
        self._writable.set()
        at_ns = time.monotonic_ns()
        if self._listener is None:
            return
        if self._begun and self._to_eof and exc is None:
            self._end_well(at_ns)
        else:
            self._end_badly(at_ns)

    def pause_writing(self) -> None:
        """Called by asyncio."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by asyncio."""
        self._writable.set()

    # -- httptools' parser ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Called by the parser."""
        if self._complete:
            # A second answer, that nobody asked for.
            raise httptools.HttpParserError("more than one answer")
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        if not self._begun:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        status = self._parser.get_status_code()
        if status < 200:
            return
        if status > _HIGHEST_STATUS:
            raise httptools.HttpParserError(f"{status} is no status")
        self._status, self._begun = status, True
        names = {name for name, _ in self._headers}
        self._to_eof = not names & {b"content-length", b"transfer-encoding"}
        if self._head_only:
            self._complete = True

    def on_body(self, data: bytes) -> None:
        """Called by the parser."""
        # After a HEAD there is none, and what came all the same has no place in the answer.
        if not self._head_only:
            self._parts.append(data)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if self._begun:
            self._complete = True
            self._keep_alive = self._parser.should_keep_alive()

    # ------------------------------------------------------------------------------------------

    def _end_well(self, at_ns: int) -> None:
        listener, self._listener = self._listener, None
        if self._head_only or not self._keep_alive:
            # What a HEAD's Content-Length announces never comes, which the parser can't know.
            self._close()
        if listener is not None:
            listener.complete(at_ns)

    def _end_badly(self, at_ns: int) -> None:
        listener, self._listener = self._listener, None
        self._close()
        if listener is not None:
            listener.dropped(at_ns)

    def _close(self) -> None:
        if not self.closed and self._transport is not None:
            self.closed = True
            self._transport.close()


class Pool:
    """Connections to one upstream; those that are idle serve again."""

    def __init__(self, base: Base, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is for https; the system's trust where it is None."""
        self.base = base
        self._tls = tls
        self._idle: list[Connection] = []

    def idle(self) -> Connection | None:
        """A connection that is there already."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                connection.used = True
                return connection
        return None

    async def connect(self) -> Connection:
        """A new connection. Raises UnreachableError."""
        base = self.base
        tls = None
        if base.scheme == "https":
            if self._tls is None:
                self._tls = ssl.create_default_context()
            tls = self._tls
        connecting = asyncio.get_running_loop().create_connection(
            Connection, base.host, base.port, ssl=tls
        )
        try:
            _, connection = await asyncio.wait_for(connecting, _CONNECT_S)
        except TimeoutError:
            raise UnreachableError(f"no connection within {_CONNECT_S:g} s") from None
        except OSError as error:
            raise UnreachableError(error.strerror or str(error)) from None
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose exchange has ended."""
        if connection.reusable and len(self._idle) < _MOST_IDLE:
            # The client that it was paused for may read the last of its answer for long.
            connection.resume()
            self._idle.append(connection)
        else:
            connection.abort()

    def close(self) -> None:
        """End the idle ones."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().abort()
