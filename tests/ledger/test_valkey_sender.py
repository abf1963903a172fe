"""The sender of a shared ledger, against a store that is made up: order, groups, and failing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from paceline.runtime.ledger.valkey_sender import Job, Sender

PATIENCE_S = 10.0


class Pipe:
    """Counts what is sent; fails, or waits, as it is told."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.failure: Exception | None = None
        self.open = asyncio.Event()
        self.open.set()
        self._group: list[str] = []

    def pipeline(self, *, transaction: bool) -> Self:
        assert not transaction
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._group = []

    async def settle(self, keys: list[str], args: list[str], client: Any) -> None:
        self._group += keys

    async def execute(self, *, raise_on_error: bool) -> list[int]:
        assert not raise_on_error
        await asyncio.sleep(0.005)
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        self.sent += self._group
        return [1] * len(self._group)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 - the sender's task makes it true
            await asyncio.sleep(0)


async def test_a_question_waits_for_what_was_put_before_it_alone() -> None:
    pipe = Pipe()
    sender = Sender(pipe, pipe.settle)
    pipe.open.clear()
    sender.put(Job(["first"]))
    caught_up = asyncio.ensure_future(sender.caught_up())
    await asyncio.sleep(0.01)
    assert not caught_up.done()
    pipe.open.set()

    async def traffic() -> None:
        while True:
            sender.put(Job(["more"]))
            await asyncio.sleep(0)

    busy = asyncio.ensure_future(traffic())
    await asyncio.wait_for(caught_up, 1.0)
    busy.cancel()
    assert pipe.sent[0] == "first"
    await sender.close()


async def test_a_question_while_a_backlog_goes_out_stops_nothing() -> None:
    pipe = Pipe()
    sender = Sender(pipe, pipe.settle)
    pipe.failure = OSError("away")
    told: list[int] = []
    for i in range(600):
        sender.put(Job([str(i)], then=lambda i=i: told.append(i)))  # type: ignore[misc]  # bound now
    await until(lambda: not sender.healthy)
    assert sorted(told) == list(range(600)), "nobody waits for a store that is away"
    pipe.failure = None
    await until(lambda: sender.healthy)
    # The first group is out, the others aren't.
    assert 0 < len(pipe.sent) < 600
    await asyncio.wait_for(sender.caught_up(), PATIENCE_S)
    assert pipe.sent == [str(i) for i in range(600)]
    assert len(told) == 600
    await sender.close()


async def test_an_error_of_the_transport_is_tried_again() -> None:
    pipe = Pipe()
    sender = Sender(pipe, pipe.settle)
    # What uvloop raises for a connection that was closed.
    pipe.failure = RuntimeError("unable to perform operation; the handler is closed")
    told: list[str] = []
    sender.put(Job(["a"], then=lambda: told.append("a")))
    await until(lambda: bool(told) and not sender.healthy)
    pipe.failure = None
    await until(lambda: sender.healthy)
    assert (pipe.sent, sender.lost_writes) == (["a"], 0)
    await sender.close()


async def test_questions_to_a_store_that_is_away_push_out_no_entry() -> None:
    pipe = Pipe()
    sender = Sender(pipe, pipe.settle)
    pipe.failure = OSError("away")
    sender.put(Job(["entry"]))
    await sender.caught_up()
    for _ in range(3):
        await asyncio.wait_for(sender.caught_up(), 1.0)
    assert len(sender._jobs) <= 2
    await sender.close()
    assert sender.lost_writes == 1
