"""The front door: token endpoints directly, everything else through FastAPI.

The table of direct handlers spares them the framework's middleware and routing, which cost a
short request more than its planning does. A path that is here with another method, or not at
all, is FastAPI's affair, and so are its errors. A call from a web page goes by way of the CORS
middleware, which wraps every message of an answer; other callers need not pay for that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive as AsgiReceive
from starlette.types import Scope as AsgiScope
from starlette.types import Send as AsgiSend

from paceline.http.respond import Receive, Scope
from paceline.http.sink import Send

Handler = Callable[[Scope, Receive, Send], Awaitable[None]]

EXPOSED_HEADERS = (
    "x-request-id",
    "openai-processing-ms",
    "openai-version",
    "server-timing",
    "x-paceline-profile",
    "x-paceline-unknown-fields",
    "retry-after",
    "retry-after-ms",
    *(
        f"x-ratelimit-{what}-{unit}"
        for what in ("limit", "remaining", "reset")
        for unit in ("requests", "tokens")
    ),
)


class Front:
    """An ASGI application."""

    def __init__(
        self,
        direct: Mapping[tuple[str, str], Handler],
        rest: Handler,
        origins: Sequence[str] = ("*",),
    ) -> None:
        """`direct` maps method and path to a handler; pages of `origins` may call.

        A WebSocket's method is `WEBSOCKET`.
        """
        self._direct = dict(direct)
        self._rest = rest
        self._for_pages = CORSMiddleware(
            self._route,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=EXPOSED_HEADERS,
            max_age=86_400,
        )

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Hand a request to whom it's for."""
        if scope["type"] == "http" and any(key == b"origin" for key, _ in scope["headers"]):
            await self._for_pages(scope, receive, send)
        else:
            await self._route(scope, receive, send)

    async def _route(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] == "http":
            handler = self._direct.get((scope["method"], scope["path"]))
            if handler is not None:
                await handler(scope, receive, send)
                return
        elif scope["type"] == "websocket":
            handler = self._direct.get(("WEBSOCKET", scope["path"]))
            if handler is not None:
                await handler(scope, receive, send)
                return
        await self._rest(scope, receive, send)
