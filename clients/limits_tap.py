"""What passes between clients and a server under test, with the times: an ASGI application.

It stands around the server's own and changes nothing. A frame of a WebSocket that asks for an
answer is an exchange too, and an error frame is what it was answered with.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]

ANSWERS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
"""The paths whose requests are for an answer; others are a client's own housekeeping."""


@dataclass(slots=True)
class Exchange:
    """A request and how its answer began; times in seconds of the monotonic clock."""

    method: str
    arrived_s: float
    body: bytes = b""
    answered_s: float | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    answer: bytes = b""
    """The answer's body, of refusals only."""

    @property
    def refused(self) -> bool:
        """Whether it was answered with an error."""
        return self.status is not None and self.status >= 400

    @property
    def told_s(self) -> float | None:
        """How long it was told to wait, in seconds; None where it wasn't."""
        for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
            if name in self.headers:
                return float(self.headers[name]) / unit
        return None

    @property
    def error(self) -> dict[str, Any]:
        """The error's object; empty where it had none."""
        try:
            found = json.loads(self.answer).get("error")
        except (ValueError, AttributeError):
            return {}
        return found if isinstance(found, dict) else {}


class Tap:
    """The application around another; `exchanges` are the requests for answers, oldest first."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self.exchanges: list[Exchange] = []

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] not in ("http", "websocket") or scope["path"] not in ANSWERS:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self._websocket(scope, receive, send)

    def clear(self) -> None:
        """Forget what has passed."""
        self.exchanges.clear()

    def _begin(self, method: str, body: bytes = b"") -> Exchange:
        made = Exchange(method, time.monotonic(), body)
        self.exchanges.append(made)
        return made

    async def _http(self, scope: Any, receive: Receive, send: Send) -> None:
        exchange = self._begin(scope["method"])

        async def hear() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                exchange.body += message.get("body", b"")
            return message

        # What is wrapped can be found: a fault that drops the connection has to reach it.
        @wraps(send)
        async def say(message: Message) -> None:
            if message["type"] == "http.response.start":
                _answered(exchange, message["status"], message["headers"])
            elif message["type"] == "http.response.body" and exchange.refused:
                exchange.answer += message.get("body", b"")
            await send(message)

        await self._app(scope, hear, say)

    async def _websocket(self, scope: Any, receive: Receive, send: Send) -> None:
        latest: list[Exchange] = []

        async def hear() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                text = message.get("text") or (message.get("bytes") or b"").decode()
                latest[:] = [self._begin("WEBSOCKET", text.encode())]
            return message

        async def say(message: Message) -> None:
            if message["type"] == "websocket.http.response.start":
                latest[:] = [self._begin("UPGRADE")]
                _answered(latest[0], message["status"], message["headers"])
            elif message["type"] == "websocket.http.response.body" and latest:
                latest[0].answer += message.get("body", b"")
            elif message["type"] == "websocket.send" and latest:
                _framed(latest[0], message)
            await send(message)

        await self._app(scope, hear, say)


def _answered(exchange: Exchange, status: int, headers: Any) -> None:
    exchange.answered_s = time.monotonic()
    exchange.status = status
    exchange.headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in headers}


def _framed(exchange: Exchange, message: Message) -> None:
    """The first frame of an answer is its beginning; an error frame says its status inside."""
    if exchange.status is not None:
        return
    text = message.get("text") or (message.get("bytes") or b"").decode()
    frame = json.loads(text)
    exchange.answered_s = time.monotonic()
    exchange.status = 200
    if frame.get("type") == "error":
        exchange.status = int(frame.get("status") or 500)
        exchange.headers = {k.lower(): str(v) for k, v in (frame.get("headers") or {}).items()}
        exchange.answer = text.encode()
