"""A response that goes on without its client, and can be read while it does and afterwards.

No event is stored. A response follows from its plan, so whoever asks for its events gets an
encoder of their own, which writes again what has left so far; from there on they get what leaves.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from paceline.core.usage import Usage
from paceline.http import instant
from paceline.http.generate import Ready
from paceline.runtime.engine import LiveEngine
from paceline.runtime.sink import Timing
from paceline.runtime.stream import Answer
from paceline.wire.responses.encode import ResponseStream

_NUMBER = re.compile(rb'"sequence_number":(\d+)')
_END = b"\n\n"


class Background:
    """The way out of an answer that nobody need wait for; a `Sink`."""

    def __init__(self, engine: LiveEngine, ready: Ready, rid: str, received_ns: int) -> None:
        self.blocked = False
        self.drained: Callable[[], None] | None = None
        self.begun = False
        self._engine = engine
        self._ready = ready
        self._followers: set[asyncio.Queue[bytes | None]] = set()
        self._ended = False
        self._last: tuple[str, bytes] | None = None
        self._sent = 0
        self._task: asyncio.Task[None] | None = None
        self._encoder = self._fresh()
        self._answer: Answer | None = engine.open(
            ready.plan,
            self._encoder,
            self,
            request_id=rid,
            endpoint=ready.dialect.path,
            received_ns=received_ns,
            admitted=ready.admitted,
        )

    def start(self) -> None:
        """Put the answer to work."""
        answer = self._answer
        assert answer is not None, "started once"
        answer.open_early()
        if instant.is_instant(self._ready.plan):
            deliver = instant.deliver(self._engine, answer, self, _never)
            self._task = asyncio.ensure_future(deliver)
        else:
            self._engine.start_answer(answer)

    def response(self, status: str) -> bytes:
        """The response object before its end."""
        return self._encoder.at(status)

    def end_with(self, status: str, final: bytes) -> None:
        """Remember how it ended, to tell it again."""
        self._last = status, final

    def cancel(self) -> None:
        """Break it off, if it isn't over."""
        answer = self._answer
        if answer is None or answer.over:
            return
        self._note(answer)
        self._engine.pacer.abort(answer)
        self.end(self._encoder.cancelled())

    async def follow(self, after: int = -1) -> AsyncIterator[bytes]:
        """Its events of a number above `after`: those that left, and those to come."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        data: bytes | None = self._replay()
        if not self._ended:
            self._followers.add(queue)
        try:
            while data is not None:
                data = _above(data, after)
                if data:
                    yield data
                if self._ended and queue.empty():
                    return
                data = await queue.get()
        finally:
            self._followers.discard(queue)

    # -- the sink ------------------------------------------------------------------------------

    def begin(self, timing: Timing | None) -> None:
        """Nothing: there are no headers."""

    def write(self, data: bytes) -> None:
        """Hand on what leaves to whoever follows."""
        if self._answer is not None:
            self._note(self._answer)
        self.begun = self._sent > 0
        for queue in self._followers:
            queue.put_nowait(data)

    def end(self, data: bytes) -> None:
        """Hand on the last of it."""
        self.write(data)
        self._ended = True
        self._answer = None
        # The prompt isn't needed to write the answer again.
        plan = self._ready.plan
        request = replace(plan.request, prompts=())
        self._ready = replace(self._ready, plan=replace(plan, request=request))
        for queue in self._followers:
            queue.put_nowait(None)

    def refuse(self, status: int, message: str, code: str) -> None:
        """The failure of an answer of which nothing has left."""
        self.end(self._encoder.fail(status, message, code))

    def whole(self, usage: Usage, timing: Timing) -> None:
        """Never called: here every answer is a stream."""
        raise AssertionError

    async def ready(self) -> None:
        """Always."""

    # -- telling it again ----------------------------------------------------------------------

    def _fresh(self) -> ResponseStream:
        encoder = self._ready.encoder()
        assert isinstance(encoder, ResponseStream), "the dialect's own encoder"
        return encoder

    def _note(self, answer: Answer) -> None:
        if answer.streams:
            self._sent = answer.streams[0].sent

    def _replay(self) -> bytes:
        encoder = self._fresh()
        if self._answer is not None:
            self._note(self._answer)
        data = encoder.start()
        (choice,) = encoder.choices
        if self._sent:
            data += choice.tokens(0, self._sent)
        if self._last is None:
            return data
        status, final = self._last
        if status in ("completed", "incomplete"):
            data += choice.close()
        return data + encoder.last(status, final)


def _above(data: bytes, after: int) -> bytes:
    """The events of a number above `after`."""
    if after < 0:
        return data
    kept = []
    for event in data.split(_END):
        # An event's own number is its last: those inside its object come before.
        numbers = _NUMBER.findall(event)
        if numbers and int(numbers[-1]) > after:
            kept.append(event + _END)
    return b"".join(kept)


async def _never() -> dict[str, str]:
    await asyncio.Event().wait()
    return {"type": "http.disconnect"}
