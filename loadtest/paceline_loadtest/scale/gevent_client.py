"""A client for load tools that run on gevent, such as Locust: plain sockets, which gevent patches.

The events are read by what the asyncio client reads them with, and stamped as there: right after
the read that brought them, before anything is parsed. A greenlet wakes when the hub gets to it, so
with many busy streams a process its stamps are late by what the others take.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from time import perf_counter
from typing import Any, cast

import httptools

from paceline.client.stream import BaseUrl
from paceline_loadtest.caller import Ask, Reply
from paceline_loadtest.endpoint import PATHS, headers_of, read_headers
from paceline_loadtest.errors import os_text
from paceline_loadtest.lean.connection import Exchange
from paceline_loadtest.lean.marks import marks_of
from paceline_loadtest.model import Call
from paceline_loadtest.retries import Retries, made_again

_READ = 1 << 16


class GeventClient:
    """One agent's connection to a server: a request after another.

    `idle_timeout_s` is how long nothing may come while an answer is on its way.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        retries: Retries | None = None,
        idle_timeout_s: float = 120.0,
    ) -> None:
        """Raises ValueError for an address that is none."""
        self._base = BaseUrl.parse(base_url)
        self._api_key = api_key
        self._retries = retries or Retries()
        self._timeout_s = idle_timeout_s
        self._socket: socket.socket | None = None

    def call(self, ask: Ask, call: Call) -> Reply:
        """Make a request, note in `call` what is seen of it, and say what was answered.

        A failure is noted there too, and raises nothing.
        """
        if ask.dialect == "responses-websocket":
            call.error = "a WebSocket is not for this client: take the dialect responses"
            call.end_at = perf_counter()
            return Reply()
        while True:
            exchange, reply = self._try(ask, call)
            wait_s = None
            if call.error is not None and call.first_at is None:
                wait_s = self._retries.wait_s(call.retries, call.status, exchange.headers)
            if wait_s is None:
                return reply
            began = perf_counter()
            time.sleep(wait_s)
            made_again(call, perf_counter() - began)

    def close(self) -> None:
        """Give the connection back."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _try(self, ask: Ask, call: Call) -> tuple[Exchange, Reply]:
        marks = marks_of(ask.dialect, call)
        while True:
            reused = self._socket is not None
            ended = _Ended()
            exchange = Exchange(marks, cast("Any", ended), stream=ask.stream)
            try:
                self._exchange(ask, call, exchange)
            except TimeoutError:
                exchange.end(f"nothing came for {self._timeout_s:g} s")
                self.close()
            except OSError as error:
                self.close()
                if reused and not exchange.started:
                    # An idle connection that the server had closed already.
                    call.retries += 1
                    continue
                exchange.end(os_text(error))
            except httptools.HttpParserError as error:
                exchange.end(f"the answer is not HTTP: {error}")
                self.close()
            break
        read_headers(call, exchange.headers)
        return exchange, marks.finish()

    def _exchange(self, ask: Ask, call: Call, exchange: Exchange) -> None:
        """Send a request and read its answer to the end. Raises OSError and HttpParserError."""
        connection = self._connected()
        reader = _Reader(exchange)
        parser = reader.parser
        data = self._request(ask)
        at = perf_counter()
        if call.sent_at is None:
            call.sent_at = at
        connection.sendall(data)
        while not exchange.done.done():
            data = connection.recv(_READ)
            reader.at = exchange.last_read = perf_counter()
            if not data:
                raise ConnectionResetError(0, "the server closed the connection")
            parser.feed_data(data)
        if not reader.keep:
            self.close()

    def _connected(self) -> socket.socket:
        if self._socket is None:
            base = self._base
            made = socket.create_connection((base.host, base.port), self._timeout_s)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if base.scheme == "https":
                made = ssl.create_default_context().wrap_socket(made, server_hostname=base.host)
            self._socket = made
        return self._socket

    def _request(self, ask: Ask) -> bytes:
        base = self._base
        body = json.dumps(ask.body, ensure_ascii=False).encode()
        host = f"[{base.host}]" if ":" in base.host else base.host
        lines = [f"POST {base.path}{PATHS[ask.dialect]} HTTP/1.1", f"Host: {host}:{base.port}"]
        named = {**headers_of(ask.dialect, self._api_key), **ask.headers}
        lines += [f"{name}: {value}" for name, value in named.items()]
        lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class _Ended:
    """What an exchange is told its end by, without an event loop."""

    def __init__(self) -> None:
        self._done = False

    def done(self) -> bool:
        return self._done

    def set_result(self, _result: None) -> None:
        self._done = True


class _Reader:
    """Hands what the parser finds to an exchange, with the time of the read."""

    def __init__(self, exchange: Exchange) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.at = 0.0
        self.keep = False
        self._exchange = exchange

    def on_header(self, name: bytes, value: bytes) -> None:
        self._exchange.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status >= 200:
            self._exchange.head(status, self.at)

    def on_body(self, body: bytes) -> None:
        self._exchange.body(body, self.at)

    def on_message_complete(self) -> None:
        if self.parser.get_status_code() < 200:
            self._exchange.headers.clear()
            return
        self.keep = self.parser.should_keep_alive()
        self._exchange.end()
