"""One exchange on its way through the recorder: whose a connection is, and when."""

from __future__ import annotations

import asyncio
from typing import Any

from paceline.recording.document import Exchange
from paceline.recording.passing import Passing
from paceline.recording.redact import Redactor
from paceline.recording.upstream import Base, Connection, Pool


class Transport(asyncio.Transport):
    """Takes everything, and knows whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self._reading = True

    def is_reading(self) -> bool:
        return self._reading

    def write(self, data: Any) -> None:
        pass

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True

    def abort(self) -> None:
        pass


class Keeper:
    def __init__(self) -> None:
        self.pool = Pool(Base.parse("http://upstream.example/v1"))
        self.kept: list[Exchange] = []

    def keep(self, exchange: Exchange, redactor: Redactor) -> None:
        self.kept.append(exchange)


SCOPE = {
    "type": "http", "method": "GET", "path": "/v1/models", "query_string": b"", "headers": []
}  # fmt: skip
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_a_slow_client_holds_up_nobody_who_has_its_connection_after_it() -> None:
    keeper, transport, connection = Keeper(), Transport(), Connection()
    connection.connection_made(transport)
    connection.begin(Passing(keeper, SCOPE, _never, _never_sends), head_only=False)
    connection.data_received(ANSWER)
    keeper.pool.give_back(connection)

    reads = asyncio.Event()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await reads.wait()

    left = asyncio.Event()
    asked = iter([{"type": "http.request", "body": b""}])

    async def receive() -> Any:
        for message in asked:
            return message
        await left.wait()
        return {"type": "http.disconnect"}

    running = asyncio.ensure_future(Passing(keeper, SCOPE, receive, send).run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    # Its whole answer comes at once, and the client doesn't read it.
    connection.data_received(ANSWER)
    assert keeper.kept[-1].end == "complete"
    assert keeper.pool.idle() is connection
    assert transport.is_reading(), "else the next exchange would hear nothing"
    # Somebody else has it now, whose client is slow too.
    connection.pause()
    reads.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not transport.is_reading()
    left.set()
    await running


async def _never() -> Any:
    await asyncio.Event().wait()


async def _never_sends(message: Any) -> None:
    pass
