"""One streamed POST over HTTP/1.1, each piece stamped as it comes in."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from paceline.client.sse import Event, SseParser

_READ_BYTES = 1 << 16
_ERROR_BYTES = 1 << 20
"""More of an error's body than this is not read."""


class StreamError(Exception):
    """A stream that could not be opened, was refused or broke off; the message is for people."""


class RefusedError(StreamError):
    """The server answered, but not with a stream."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status


class Received(NamedTuple):
    """The events that one read completed."""

    at: float
    """`time.perf_counter()` right after the read."""
    events: list[Event]


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """Where an API is, as OpenAI clients are told it: `http://localhost:8000/v1`."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> BaseUrl:
        """Raises ValueError for what isn't an http or https address."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// or https:// address")
        if parts.query or parts.fragment:
            raise ValueError(f"{url!r} has more than a path behind its host")
        # Reading .port raises ValueError for one that can't be.
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


class EventStream:
    """A connection for one request whose answer is a stream of events.

    `open`, `send` and `receive` block and belong to one thread; `close` may be called from any
    and ends them. All of them raise StreamError, `close` excepted.
    """

    def __init__(self, base: BaseUrl, api_key: str, *, timeout_s: float = 120.0) -> None:
        kind = http.client.HTTPSConnection if base.scheme == "https" else http.client.HTTPConnection
        self._base = base
        self._api_key = api_key
        self._connection = kind(base.host, base.port, timeout=timeout_s)
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._response: http.client.HTTPResponse | None = None

    def open(self) -> None:
        """Connect, so that the time this takes is nobody's time to first token."""
        try:
            self._connection.connect()
        except OSError as error:
            raise StreamError(f"{self._base} can't be reached: {_words(error)}") from None
        # http.client lets go of its socket with the headers; close() needs it after that too.
        self._socket = self._connection.sock

    def send(self, path: str, body: dict[str, Any]) -> float:
        """Send the request; returns `time.perf_counter()` right before it left."""
        data = json.dumps(body).encode()
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Authorization": f"Bearer {self._api_key}",
            "Connection": "close",
        }
        with self._broken_off():
            at = time.perf_counter()
            self._connection.request("POST", self._base.path + path, data, headers)
        return at

    def receive(self) -> Iterator[Received]:
        """The answer, a read at a time, until its end; a read that completes no event is none."""
        with self._broken_off():
            response = self._response = self._connection.getresponse()
            kind = response.headers.get_content_type()
            if response.status != 200 or kind != "text/event-stream":
                raise _refused(response, kind)
            parser = SseParser()
            while chunk := response.read1(_READ_BYTES):
                at = time.perf_counter()
                if events := parser.feed(chunk):
                    yield Received(at, events)

    def close(self) -> None:
        """Break the connection off; a thread that waits for it is woken."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        """Give the socket back; for the thread that the stream belongs to, at the end."""
        if self._response is not None:
            self._response.close()
        self._connection.close()

    @contextlib.contextmanager
    def _broken_off(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise StreamError(f"nothing came for {self._timeout_s:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError is what http.client raises when another thread closes it.
            raise StreamError(f"the connection broke off: {_words(error)}") from None


def _refused(response: http.client.HTTPResponse, kind: str) -> RefusedError:
    body = response.read(_ERROR_BYTES)
    if response.status == 200:
        return RefusedError(200, f"the answer is {kind}, not a stream of events")
    return RefusedError(response.status, _error_text(body) or response.reason or "no reason given")


def _error_text(body: bytes) -> str:
    """What an error's body says: OpenAI's envelope, FastAPI's `detail`, or the text itself."""
    text = body.decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
    except ValueError:
        return text[:500]
    match found:
        case {"error": {"message": str(message)}}:
            return message
        case {"error": str(message)} | {"detail": str(message)} | {"message": str(message)}:
            return message
        case _:
            return text[:500]


def _words(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "the server closed it before the end"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
