"""The front door: who is let in; token endpoints directly, everything else through FastAPI.

The table of direct handlers spares them the framework's middleware and routing, which cost a
short request more than its planning does. A path that is here with another method, or not at
all, is FastAPI's affair, and so are its errors. A call from a web page goes by way of the CORS
middleware, which wraps every message of an answer; other callers need not pay for that. It
answers preflights, which carry no key, before anybody is asked for one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive as AsgiReceive
from starlette.types import Scope as AsgiScope
from starlette.types import Send as AsgiSend

from paceline.http.anthropic import STYLE as ANTHROPIC
from paceline.http.anthropic import is_anthropic
from paceline.http.auth import Auth
from paceline.http.respond import (
    OPENAI,
    Receive,
    Scope,
    refuse_upgrade,
    request_id,
    send_error,
)
from paceline.http.sink import Send
from paceline.wire.errors import ApiError

Handler = Callable[[Scope, Receive, Send], Awaitable[None]]

EXPOSED_HEADERS = (
    "x-request-id",
    "openai-processing-ms",
    "openai-version",
    "server-timing",
    "x-paceline-profile",
    "x-paceline-tier",
    "x-paceline-cost-usd",
    "x-paceline-credits",
    "x-paceline-unknown-fields",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    *(
        f"x-ratelimit-{what}-{unit}"
        for what in ("limit", "remaining", "reset")
        for unit in ("requests", "tokens")
    ),
    *(
        f"anthropic-ratelimit-{unit}-{what}"
        for unit in ("requests", "tokens", "input-tokens", "output-tokens")
        for what in ("limit", "remaining", "reset")
    ),
)


class Front:
    """An ASGI application."""

    def __init__(
        self,
        direct: Mapping[tuple[str, str], Handler],
        rest: Handler,
        origins: Sequence[str] = ("*",),
        *,
        auth: Auth | None = None,
        count: Callable[[str, int], None] | None = None,
    ) -> None:
        """`direct` maps method and path to a handler; pages of `origins` may call.

        A WebSocket's method is `WEBSOCKET`. Without `auth` everybody is let in; `count` is told
        the path and status of whoever is not, where the path is a direct handler's.
        """
        self._direct = dict(direct)
        self._paths = frozenset(path for _, path in direct)
        self._rest = rest
        self._auth = auth
        self._count = count
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
        kind = scope["type"]
        if kind == "lifespan":
            await self._rest(scope, receive, send)
            return
        if self._auth is not None:
            error = self._auth.check(scope)
            if error is not None:
                await self._refuse(error, scope, receive, send)
                return
        method = scope["method"] if kind == "http" else "WEBSOCKET"
        handler = self._direct.get((method, scope["path"]), self._rest)
        await handler(scope, receive, send)

    async def _refuse(
        self, error: ApiError, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend
    ) -> None:
        """Answer whoever isn't let in, in the dialect of the path."""
        path, rid = scope["path"], request_id(scope)
        if self._count is not None and path in self._paths:
            self._count(path, error.status)
        if scope["type"] == "websocket":
            if (await receive())["type"] == "websocket.connect":
                await refuse_upgrade(scope, send, error, rid)
            return
        names = {key.decode("latin-1") for key, _ in scope["headers"]}
        style = ANTHROPIC if is_anthropic(path, names) else OPENAI
        await send_error(send, error, rid, 0.0, style=style, head=scope["method"] == "HEAD")
