"""The headers of the API on whatever the web framework answers, errors included."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from paceline.http.respond import Receive, Scope, identity_headers, request_id
from paceline.http.sink import Send


class Stamped:
    """An ASGI application whose every answer has a request id."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the application answer, and add the headers as its answer begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received_s = time.monotonic()
        rid = request_id(scope)

        async def stamped(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and not _has_id(message["headers"]):
                own = identity_headers(rid, time.monotonic() - received_s)
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        await self._app(scope, receive, stamped)


def _has_id(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether an answer, an error say, has its API's own headers already."""
    return any(name.lower() in {b"x-request-id", b"request-id"} for name, _ in headers)
