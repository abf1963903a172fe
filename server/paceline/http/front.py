"""The front door: token endpoints directly, everything else through FastAPI.

The table of direct handlers spares them the framework's middleware and routing, which cost a
short request more than its planning does. A path that is here with another method, or not at
all, is FastAPI's affair, and so are its errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from paceline.http.respond import Receive, Scope
from paceline.http.sink import Send

Handler = Callable[[Scope, Receive, Send], Awaitable[None]]


class Front:
    """An ASGI application."""

    def __init__(self, direct: Mapping[tuple[str, str], Handler], rest: Handler) -> None:
        """`direct` maps method and path to a handler."""
        self._direct = dict(direct)
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to whom it's for."""
        if scope["type"] == "http":
            handler = self._direct.get((scope["method"], scope["path"]))
            if handler is not None:
                await handler(scope, receive, send)
                return
        await self._rest(scope, receive, send)
