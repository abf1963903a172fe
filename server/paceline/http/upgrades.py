"""uvicorn's side of a connection, for clients that would rather speak HTTP/2, or don't wait.

Java's own HTTP client, and much that is built on it, sends each first request over plain HTTP
with an offer to go on in HTTP/2 (`Upgrade: h2c`). A server may pass that over (RFC 9110, 7.8).
uvicorn does, but its parser takes whatever follows the head for the other protocol's, and so the
request loses its body. Here the request is parsed once more, without the offer.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_OFFER = frozenset({b"upgrade", b"http2-settings"})

_RELIED_ON = ("_get_upgrade", "_start_asgi_task", "on_response_complete", "connection_lost")
"""What uvicorn's class has and promises nobody."""


def protocol() -> type[asyncio.Protocol] | Literal["httptools"]:
    """What `uvicorn.Config` takes as `http`: ours, or uvicorn's own where that has changed."""
    if all(hasattr(HttpToolsProtocol, name) for name in _RELIED_ON):
        return Connection
    return "httptools"


class _Parser(httptools.HttpRequestParser):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        # As uvicorn sets it for its own parser; older versions of httptools don't know it.
        with contextlib.suppress(AttributeError):
            self.set_dangerous_leniencies(lenient_data_after_close=True)
        self._connection = connection

    def feed_data(self, data: Any) -> None:
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            connection = self._connection
            if not connection.offered():
                raise
            plain = connection.without_offer()
            connection.parser = _Parser(connection)
            connection.parser.feed_data(plain + bytes(data[offer.args[0] :]))


class Connection(HttpToolsProtocol):
    """uvicorn's own, but that offers of other protocols than WebSocket are passed over."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Called by asyncio."""
        super().connection_made(transport)
        self.parser = _Parser(self)
        self._answering: RequestResponseCycle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: tells the request that is being answered.

        uvicorn tells the latest that has come, which may wait for its turn behind that one.
        """
        self.pipeline.clear()
        cycle = self._answering
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def offered(self) -> bool:
        """Whether the request comes with an offer that is passed over."""
        return self.parser.should_upgrade() and self._get_upgrade() not in (None, b"websocket")

    def without_offer(self) -> bytes:
        """The request's head once more, as it would be without the offer."""
        version = self.parser.get_http_version().encode()
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                rest = [token for token in tokens if token.lower() not in _OFFER]
                lines.append(b"connection: " + b", ".join(rest))
            elif name not in _OFFER:
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    # -- the parser's callbacks ----------------------------------------------------------------

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        if not self.offered():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if not self.offered():
            super().on_message_complete()

    # -- requests that came before their turn --------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Called when an answer is over: takes up the next request, and reads on behind the last.

        uvicorn reads on behind each, and so lets a client that reads nothing pile up requests
        without end.
        """
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()
