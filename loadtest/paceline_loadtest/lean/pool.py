"""Connections to one server, kept for the next request; as many as are asked for at once."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque

from paceline.client.stream import BaseUrl
from paceline_loadtest.errors import os_text
from paceline_loadtest.lean.connection import Connection


class ConnectError(Exception):
    """The server can't be reached; the message is for people."""


class Pool:
    """Connections to one server. There is no most: a cap would queue calls where nobody sees."""

    def __init__(self, base: BaseUrl, *, connect_timeout_s: float = 10.0) -> None:
        self._base = base
        self._timeout_s = connect_timeout_s
        self._idle: deque[Connection] = deque()
        self._open: set[Connection] = set()
        self._tls = ssl.create_default_context() if base.scheme == "https" else None

    async def take(self, *, fresh: bool = False) -> Connection:
        """An idle connection, the latest used one first, or a new one. Raises ConnectError."""
        while self._idle and not fresh:
            connection = self._idle.pop()
            if not connection.closed and not connection.transport.is_closing():
                return connection
            self._open.discard(connection)
        return await self._connect()

    def give(self, connection: Connection) -> None:
        """Put a connection back, or let it go where it can't be used again."""
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.close()
            self._open.discard(connection)

    async def warm(self, count: int) -> None:
        """Open connections ahead of their use, so that `count` are idle. Raises ConnectError."""
        made = await asyncio.gather(
            *(self._connect() for _ in range(count - len(self._idle))), return_exceptions=True
        )
        self._idle += [connection for connection in made if isinstance(connection, Connection)]
        failed = next((error for error in made if isinstance(error, BaseException)), None)
        if failed is not None:
            raise failed

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()
        # The loop closes them in its next pass.
        await asyncio.sleep(0)

    async def _connect(self) -> Connection:
        base = self._base
        try:
            async with asyncio.timeout(self._timeout_s):
                transport, connection = await asyncio.get_running_loop().create_connection(
                    Connection,
                    base.host,
                    base.port,
                    ssl=self._tls,
                    server_hostname=base.host if self._tls else None,
                )
        except TimeoutError:
            raise ConnectError(
                f"{base} can't be reached: no answer in {self._timeout_s:g} s"
            ) from None
        except OSError as error:
            raise ConnectError(f"{base} can't be reached: {os_text(error)}") from None
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open.add(connection)
        return connection
