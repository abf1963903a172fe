"""Bytes of an answer on their way to an ASGI server, sent without a task of their own.

`send` is a coroutine that hardly ever waits: while the socket takes the data it is over at its
first step, so the pacer steps it by hand. When the transport is above its high-water mark it
waits; then a task takes over, and the sink is blocked until the reader has caught up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping
from typing import Any, cast

from paceline.core.usage import Usage
from paceline.runtime.sink import Timing

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_FAILED = ("The server had an error while processing the request.", "server_error")

log = logging.getLogger("paceline")


class HandSender:
    """Sends messages in order; `blocked` while the reader can't take more."""

    __slots__ = ("_send", "_task", "_waiting", "blocked", "drained")

    def __init__(self, send: Send) -> None:
        self.blocked = False
        self.drained: Callable[[], None] | None = None
        """Called when messages may be posted again."""
        self._send = send
        self._waiting: list[Message] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many messages wait for the reader."""
        return len(self._waiting)

    async def ready(self) -> None:
        """Wait until the reader has caught up."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def post(self, message: Message) -> None:
        """Send a message now, or after those that wait for the reader."""
        if self.blocked:
            self._waiting.append(message)
            return
        # Every ASGI server's `send` is a coroutine function; asking costs more than it is worth.
        sending = cast("Coroutine[Any, Any, None]", self._send(message))
        try:
            waits_for = sending.send(None)
        except StopIteration:
            return
        except OSError:
            # The client has left, as it will be told to whoever receives.
            return
        except Exception:
            # One broken connection must not take the pacer's pass along.
            log.exception("sending a part of an answer failed")
            return
        self.blocked = True
        self._task = asyncio.ensure_future(self._catch_up(_Begun(sending, waits_for)))

    async def _catch_up(self, begun: _Begun) -> None:
        try:
            await begun
            while self._waiting:
                await self._send(self._waiting.pop(0))
        except OSError:
            self._waiting.clear()
        except Exception:
            log.exception("sending a part of an answer failed")
            self._waiting.clear()
        self.blocked = False
        self._task = None
        if self.drained is not None:
            self.drained()


class AsgiSink(HandSender):
    """One answer's way out over HTTP. `whole` makes the body of one that isn't streamed."""

    __slots__ = ("_encode", "_headers", "_large", "_refuse")

    def __init__(
        self,
        send: Send,
        headers: Callable[[Timing | None], Headers],
        encode: Callable[[Usage], bytes],
        refuse: Callable[[int, str, str], tuple[int, Headers, bytes]],
        *,
        large: bool = False,
    ) -> None:
        """`headers` are made when the first byte leaves; `encode` makes a whole body.

        A `large` body is made in a thread, so that others need not wait for it. `refuse` makes
        the status, the headers and the body of an error.
        """
        super().__init__(send)
        self._headers = headers
        self._encode = encode
        self._refuse = refuse
        self._large = large

    def begin(self, timing: Timing | None) -> None:
        """Send the headers of a stream."""
        self.post({"type": "http.response.start", "status": 200, "headers": self._headers(timing)})

    def write(self, data: bytes) -> None:
        """Send a part of the body."""
        self.post({"type": "http.response.body", "body": data, "more_body": True})

    def end(self, data: bytes) -> None:
        """Send the body's last part."""
        self.post({"type": "http.response.body", "body": data, "more_body": False})

    def whole(self, usage: Usage, timing: Timing) -> None:
        """Send an answer that isn't streamed."""
        if self._large:
            self.blocked = True
            self._task = asyncio.ensure_future(self._make(self._headers(timing), usage))
        else:
            self._whole(200, self._headers(timing), self._encode(usage))

    async def _make(self, headers: Headers, usage: Usage) -> None:
        try:
            status, body = 200, await asyncio.to_thread(self._encode, usage)
        except Exception:
            log.exception("making a large answer failed")
            status, headers, body = self._refuse(500, *_FAILED)
        self.blocked = False
        self._task = None
        self._whole(status, headers, body)

    def refuse(self, status: int, message: str, code: str) -> None:
        """Send an error in place of an answer."""
        self._whole(*self._refuse(status, message, code))

    def _whole(self, status: int, headers: Headers, body: bytes) -> None:
        headers.append((b"content-length", b"%d" % len(body)))
        self.post({"type": "http.response.start", "status": status, "headers": headers})
        self.post({"type": "http.response.body", "body": body, "more_body": False})


class _Begun:
    """A coroutine that was stepped once by hand, to be awaited for the rest of it."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        waits_for = self._waits_for
        while True:
            try:
                yield waits_for
                waits_for = self._coroutine.send(None)
            except StopIteration:
                return
