"""What arrived at a server: the requests, for a test to look at."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from paceline.http.respond import public_headers

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(slots=True)
class Received:
    """One request, or one frame of a WebSocket, in the order of arrival.

    `headers` are by lower-case name and without credentials. `status` and `request_id` are known
    when the answer has begun; the id finds its record. A frame has the method
    `WEBSOCKET` and the headers of the handshake.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    status: int | None = None
    request_id: str | None = None

    @property
    def json(self) -> Any:
        """The body as JSON. Raises ValueError where it is none."""
        return json.loads(self.body)


@dataclass(slots=True)
class Recorder:
    """An ASGI application around another that keeps what arrives."""

    app: Callable[[Any, Receive, Send], Awaitable[None]]
    requests: list[Received] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Any, receive: Receive, send: Send) -> None:
        request = _request(scope, scope["method"])
        self.requests.append(request)

        async def hear() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                request.body += message.get("body", b"")
            return message

        # What is wrapped can be found: a fault that drops the connection has to reach it.
        @wraps(send)
        async def say(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                request.request_id = _request_id(message["headers"])
            await send(message)

        await self.app(scope, hear, say)

    async def _websocket(self, scope: Any, receive: Receive, send: Send) -> None:
        async def hear() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                frame = _request(scope, "WEBSOCKET")
                frame.body = message.get("bytes") or (message.get("text") or "").encode()
                self.requests.append(frame)
            return message

        await self.app(scope, hear, send)


def _request(scope: Any, method: str) -> Received:
    query = scope.get("query_string", b"").decode("latin-1")
    return Received(method, scope["path"], query, public_headers(scope))


def _request_id(headers: Any) -> str | None:
    for name, value in headers:
        if name == b"x-request-id":
            return bytes(value).decode("latin-1")
    return None
