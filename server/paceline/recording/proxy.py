"""The recorder: an ASGI application that hands everything on to one upstream and keeps it.

Bytes leave as they come, both ways; nothing is unpacked, joined or held back. Credentials pass
and aren't kept. What was exchanged is written when it is over, by a thread, one after another.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from paceline.http.respond import Receive, Scope, request_id, send_error
from paceline.http.sink import Send
from paceline.recording.document import Exchange
from paceline.recording.files import Writer
from paceline.recording.passing import Passing
from paceline.recording.redact import Redactor, clean
from paceline.recording.sockets import pass_socket
from paceline.recording.upstream import Base, Pool, UnreachableError
from paceline.wire.errors import ApiError

log = logging.getLogger("paceline")


class Recorder:
    """The application. Lives on one event loop."""

    def __init__(self, base: Base, writer: Writer, pool: Pool | None = None) -> None:
        self.base = base
        self.pool = pool or Pool(base)
        self.kept = 0
        """Exchanges on the disk."""
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, "recording")
        self._passing: set[Passing] = set()
        self._stopped = False

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await pass_socket(self, scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    def stop(self) -> None:
        """End what is under way, and keep what there is of it."""
        self._stopped = True
        for passing in list(self._passing):
            passing.break_off()

    def keep(self, exchange: Exchange, redactor: Redactor) -> None:
        """Have an exchange written."""
        self._thread.submit(self._write, exchange, redactor)

    def close(self) -> None:
        """Wait until all is written."""
        self.stop()
        self.pool.close()
        self._thread.shutdown(wait=True)
        self._writer.close()
        log.info("%d exchanges recorded", self.kept)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._stopped:
            error = ApiError(503, "The recorder is shutting down.", code="server_shutting_down")
            await send_error(send, error, request_id(scope), 0.0)
            return
        passing = Passing(self, scope, receive, send)
        self._passing.add(passing)
        try:
            await passing.run()
        except UnreachableError as problem:
            log.warning("%s can't be reached: %s", self.base, problem)
            error = ApiError(
                502, f"{self.base} can't be reached: {problem}", code="upstream_unreachable"
            )
            await send_error(send, error, request_id(scope), 0.0)
        finally:
            self._passing.discard(passing)
            passing.break_off()

    def _write(self, exchange: Exchange, redactor: Redactor) -> None:
        try:
            where = self._writer.write(clean(exchange, redactor))
        except OSError as error:
            log.error("an exchange could not be written: %s", error)
            return
        except Exception:
            log.exception("an exchange could not be written")
            return
        self.kept += 1
        request, response = exchange.request, exchange.response
        log.info(
            "%s %s %s, %d chunks, %s: %s",
            request.method,
            redactor.text(request.path),
            response.status if response else "no answer",
            len(exchange.chunks),
            exchange.end.replace("_", " "),
            where,
        )

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        # Connections are the loop's; only the writing is waited for elsewhere.
        self.stop()
        self.pool.close()
        await asyncio.get_running_loop().run_in_executor(None, self.close)
        await send({"type": "lifespan.shutdown.complete"})
