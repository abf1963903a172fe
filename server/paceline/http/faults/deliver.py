"""An answer with a fault in its way, over HTTP: the common way's bends are all here."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from paceline.http.faults import fault_of
from paceline.http.faults.drop_after import close_connection
from paceline.http.faults.nothing import Scene
from paceline.http.respond import Receive
from paceline.http.sink import AsgiSink, Send
from paceline.runtime.engine import LiveEngine

if TYPE_CHECKING:
    from paceline.http.generate import Ready


async def deliver(
    engine: LiveEngine,
    ready: Ready,
    sink: AsgiSink,
    receive: Receive,
    send: Send,
    *,
    rid: str,
    received_ns: int,
) -> None:
    """Answer, until the end, the client's leaving, or the connection's being dropped."""
    dropped = asyncio.Event()

    def drop() -> None:
        if not close_connection(send):
            dropped.set()

    encoder = ready.encoder() if ready.request.stream else None
    fault = fault_of(Scene(engine, ready.plan, sink, encoder, drop))
    answer = engine.open(
        ready.plan,
        encoder,
        fault,
        request_id=rid,
        endpoint=ready.dialect.path,
        received_ns=received_ns,
        admitted=ready.admitted,
    )
    fault.answer = answer
    answer.spoiled = fault.spoils
    sink.drained = lambda: engine.pacer.resume(answer)
    answer.open_early()
    engine.start_answer(answer, ready.dialect.transport)
    waits = [asyncio.ensure_future(_left(receive)), asyncio.ensure_future(dropped.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await wait
        fault.close()
        if not answer.over:
            engine.pacer.abort(answer)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
