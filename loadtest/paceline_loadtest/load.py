"""Loops under a load: users who take turns, or arrivals that wait for nobody.

In an open load a loop's first call is scheduled for when it arrives, and latencies count from
there: a client that can't keep up makes them longer, never rarer. What was waited for a slot of
the client's own is kept apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

from paceline_loadtest.arrivals import Arrivals
from paceline_loadtest.clock import sleep_until

T = TypeVar("T")

_AHEAD_S = 0.2
"""A loop is made ready so long before it is due: what that takes is nobody's lateness."""

Work = Callable[[int, float], Awaitable[None]]
"""Makes loop `number` ready, and runs it from the time on for which it is scheduled."""


@dataclass(frozen=True, slots=True)
class Load:
    """How loops are run.

    `users` take them one after another, each waiting `think_s` between two; or, with `arrivals`,
    they begin by themselves. `loops` is the most of them, None without one. After `duration_s` no
    loop begins. `slots` bounds the calls that are under way at once, None without a bound.
    """

    users: int = 1
    think_s: float = 0.0
    arrivals: Arrivals | None = None
    loops: int | None = None
    duration_s: float | None = None
    slots: int | None = None
    seed: int = 0


class Slots:
    """Calls that may be under way at once; a call takes one and gives it back."""

    def __init__(self, most: int | None) -> None:
        self._free = None if most is None else asyncio.Semaphore(most)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[bool]:
        """Wait for a slot, first come, first served; tells whether there was a wait."""
        if self._free is None:
            yield False
            return
        waited = self._free.locked()
        async with self._free:
            yield waited


class Stop:
    """Why a run ends before its time; whoever sets it first is told of."""

    def __init__(self) -> None:
        self.why: str | None = None
        self._event = asyncio.Event()

    def set(self, why: str) -> None:
        """End the run."""
        if self.why is None:
            self.why = why
        self._event.set()

    @property
    def set_already(self) -> bool:
        """Whether it is set."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until it is set."""
        await self._event.wait()


async def run_load(load: Load, work: Work, stop: Stop, started_at: float) -> None:
    """Run loops until there are no more, or until the stop is set: then what runs is broken off.

    `started_at` is what arrivals and the duration count from. What a loop raises is raised.
    """
    driver = _open(load, work, started_at) if load.arrivals else _closed(load, work, started_at)
    await unless_stopped(stop, driver)


async def unless_stopped(stop: Stop, work: Coroutine[Any, Any, T]) -> T | None:
    """What the work gives, or None where the stop was set first: then the work is cancelled."""
    running = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        running.cancel()
        # What is cut gives back what it holds before its caller closes it.
        await asyncio.wait({running})
    return None if running.cancelled() else running.result()


def _numbers(load: Load, started_at: float) -> Iterator[int]:
    number = 0
    while load.loops is None or number < load.loops:
        if load.duration_s is not None and perf_counter() - started_at >= load.duration_s:
            return
        yield number
        number += 1


async def _closed(load: Load, work: Work, started_at: float) -> None:
    numbers = _numbers(load, started_at)

    async def user() -> None:
        due = started_at
        for number in numbers:
            await work(number, due)
            due = perf_counter() + load.think_s

    users = load.users if load.loops is None else min(load.users, load.loops)
    async with asyncio.TaskGroup() as group:
        for _ in range(users):
            group.create_task(user())


async def _open(load: Load, work: Work, started_at: float) -> None:
    assert load.arrivals is not None
    async with asyncio.TaskGroup() as group:
        for number, offset in enumerate(load.arrivals.offsets(load.seed)):
            if load.loops is not None and number >= load.loops:
                return
            if load.duration_s is not None and offset >= load.duration_s:
                return
            due = started_at + offset
            await sleep_until(due - _AHEAD_S)
            # Arrivals that are behind come at once, but not before the loop has had a turn.
            if number % 64 == 63:
                await asyncio.sleep(0)
            group.create_task(_as_awaited(work(number, due)))


async def _as_awaited(work: Awaitable[None]) -> None:
    await work
