"""WebSockets through the recorder: each frame handed on as it comes, and kept with its time.

What a client's frame asks and what the server's frames answer stand in one exchange, in the order
in which they passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from paceline.http.respond import Receive, Scope
from paceline.http.sink import Send
from paceline.recording.document import (
    HOP_BY_HOP,
    WEBSOCKET,
    Chunk,
    End,
    Exchange,
    Headers,
    Request,
    Response,
    decoded,
    without_names,
)
from paceline.recording.passing import Keeper
from paceline.recording.redact import Redactor
from paceline.wire.errors import ApiError

_NORMAL = 1000
_ABNORMAL = 1006
_BROKEN = 1011

_HANDSHAKE = (
    *HOP_BY_HOP, "host", "accept-encoding", "sec-websocket-accept", "sec-websocket-extensions",
    "sec-websocket-key", "sec-websocket-protocol", "sec-websocket-version",
)  # fmt: skip


class _Tape:
    """What has passed on one connection."""

    def __init__(self, keeper: Keeper, request: Request) -> None:
        self._keeper = keeper
        self._request = request
        self._recorded_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._begun_ns = time.monotonic_ns()
        self.chunks: list[Chunk] = []
        self.response: Response | None = None
        self.close: tuple[int, str] | None = None

    def accepted(self, status: int, headers: Headers) -> None:
        self._begun_ns = time.monotonic_ns()
        self.response = Response(status, headers, 0)

    def frame(self, data: str | bytes, *, client: bool) -> None:
        at_ns = time.monotonic_ns() - self._begun_ns
        raw = data.encode() if isinstance(data, str) else data
        binary = isinstance(data, bytes)
        self.chunks.append(Chunk(at_ns, raw, "client" if client else "server", binary))

    def end(self, how: End) -> None:
        redactor = Redactor()
        redactor.learn(self._request.headers, self._request.query)
        exchange = Exchange(
            upstream=str(self._keeper.pool.base),
            request=self._request,
            response=self.response,
            chunks=tuple(self.chunks),
            end=how,
            end_ns=time.monotonic_ns() - self._begun_ns,
            recorded_at=self._recorded_at,
            close=self.close,
        )
        self._keeper.keep(exchange, redactor)


async def pass_socket(keeper: Keeper, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve one client's WebSocket by one of upstream's."""
    base = keeper.pool.base
    path = base.resource(scope["path"])
    query = scope["query_string"].decode("latin-1")
    headers = decoded(scope["headers"])
    tape = _Tape(keeper, Request(WEBSOCKET, path, query, headers))
    await receive()
    scheme = "wss" if base.scheme == "https" else "ws"
    url = f"{scheme}://{base.authority}{base.path}{path}" + (f"?{query}" if query else "")
    try:
        upstream = await connect(
            url,
            additional_headers=without_names(headers, (*_HANDSHAKE, "user-agent")),
            user_agent_header=next((v for k, v in headers if k.lower() == "user-agent"), None),
            subprotocols=[Subprotocol(name) for name in scope.get("subprotocols", ())] or None,
            compression=None,
            max_size=None,
            ping_interval=None,
            proxy=None,
        )
    except InvalidStatus as refusal:
        answer = refusal.response
        kept = without_names(tuple(answer.headers.raw_items()), (*_HANDSHAKE, "content-length"))
        body = bytes(answer.body or b"")
        tape.accepted(answer.status_code, kept)
        tape.chunks.append(Chunk(0, body))
        await _refuse(send, answer.status_code, kept, body)
        tape.end("complete")
        return
    except (OSError, TimeoutError, InvalidHandshake) as problem:
        error = ApiError(502, f"{base} can't be reached: {problem}", code="upstream_unreachable")
        await _refuse(send, 502, (("content-type", "application/json"),), error.body())
        return
    try:
        await _pass(keeper, tape, upstream, receive, send)
    finally:
        await upstream.close()


async def _pass(
    keeper: Keeper, tape: _Tape, upstream: ClientConnection, receive: Receive, send: Send
) -> None:
    response = upstream.response
    kept: Headers = ()
    if response is not None:
        kept = without_names(tuple(response.headers.raw_items()), _HANDSHAKE)
    raw = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in kept]
    accept = {"type": "websocket.accept", "subprotocol": upstream.subprotocol, "headers": raw}
    await send(accept)
    tape.accepted(101, kept)
    up = asyncio.ensure_future(_up(tape, upstream, receive))
    down = asyncio.ensure_future(_down(tape, upstream, send))
    ends: End = "recorder_stopped"
    try:
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        if down.done():
            ends = "upstream_dropped" if _dropped(upstream) else "complete"
            code = upstream.close_code or _ABNORMAL
            tape.close = (code, upstream.close_reason or "")
            told = _BROKEN if code in (1005, 1006, 1015) else code
            with contextlib.suppress(Exception):
                await send({"type": "websocket.close", "code": told, "reason": tape.close[1]})
        else:
            # A client that says goodbye has heard all that it wanted.
            code, reason = up.result()
            tape.close = (code, reason)
            ends = "complete" if code in (_NORMAL, 1001, 1005) else "client_left"
            await upstream.close(_NORMAL if code in (1005, 1006) else code, reason)
    finally:
        for task in (up, down):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionClosed, RuntimeError):
                await task
        tape.end(ends)


def _dropped(upstream: ClientConnection) -> bool:
    return upstream.close_code in (None, _ABNORMAL)


async def _up(tape: _Tape, upstream: ClientConnection, receive: Receive) -> tuple[int, str]:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return int(message.get("code") or 1005), str(message.get("reason") or "")
        text = message.get("text")
        data: str | bytes = message["bytes"] if text is None else text
        with contextlib.suppress(ConnectionClosed):
            await upstream.send(data)
        tape.frame(data, client=True)


async def _down(tape: _Tape, upstream: ClientConnection, send: Send) -> None:
    with contextlib.suppress(ConnectionClosed):
        while True:
            data = await upstream.recv()
            tape.frame(data, client=False)
            kind = "text" if isinstance(data, str) else "bytes"
            await send({"type": "websocket.send", kind: data})


async def _refuse(send: Send, status: int, headers: Headers, body: bytes) -> None:
    raw = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in headers]
    start = {"type": "websocket.http.response.start", "status": status, "headers": raw}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": body})
