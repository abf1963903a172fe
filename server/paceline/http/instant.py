"""Answers without a clock: as fast as the socket takes them.

The pacer would only get in the way, so the request's own task writes. What surrounds an answer,
its metrics, its record, its headers, is the same as for a paced one.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from paceline.core.plan import Plan
from paceline.http.respond import Receive
from paceline.runtime.engine import LiveEngine
from paceline.runtime.sink import Sink
from paceline.runtime.stream import Answer

_TOKENS_PER_WRITE = 64
_WRITES_PER_TURN = 16
"""Writes after which other requests get their turn."""

_LONG = 4096
"""Tokens from which on it pays to look whether the client is still there."""


class PatientSink(Sink, Protocol):
    """A sink that can be waited for."""

    async def ready(self) -> None:
        """Wait until the reader has caught up."""
        ...


def is_instant(plan: Plan) -> bool:
    """Whether a plan's answer needs no clock."""
    overrides = plan.request.overrides
    own_clock = overrides.ttft_ms is not None or overrides.rate is not None
    # A fault in the middle of an answer needs one that has a middle.
    return plan.profile.kind == "instant" and not own_clock and overrides.fault is None


async def deliver(engine: LiveEngine, answer: Answer, sink: PatientSink, receive: Receive) -> None:
    """Write the whole answer now, unless the client leaves in the middle."""
    answer.no_engine(engine.clock.now_ns())
    leaving = None
    if answer.encoder is not None and answer.plan.completion_tokens >= _LONG:
        leaving = asyncio.ensure_future(_left(receive))
    try:
        writes = 0
        for stream in answer.streams:
            tokens = stream.seq.output_tokens
            if answer.encoder is None or not tokens:
                stream.complete(engine.clock.now_ns())
                continue
            due_ns = stream.seq.first_ns
            while stream.sent < tokens:
                count = min(stream.sent + _TOKENS_PER_WRITE, tokens)
                stream.emit(count, due_ns, engine.clock.now_ns())
                await sink.ready()
                writes += 1
                if not writes % _WRITES_PER_TURN:
                    await asyncio.sleep(0)
                if leaving is not None and leaving.done() and not answer.over:
                    answer.abort(engine.clock.now_ns(), "client_gone")
                    return
        if not answer.said:
            await _said(answer)
        await sink.ready()
    except BaseException as error:
        if not answer.over:
            broken = isinstance(error, Exception)
            answer.abort(engine.clock.now_ns(), "error" if broken else "shutdown")
        raise
    finally:
        if leaving is not None:
            leaving.cancel()


async def _said(answer: Answer) -> None:
    """Wait until the answer's end is on its way: it is told once its bill is safe."""
    said = asyncio.get_running_loop().create_future()

    def tell() -> None:
        if not said.done():
            said.set_result(None)

    answer.when_said = tell
    await said


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
