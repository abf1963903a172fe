"""Loops under a load: users take turns, arrivals wait for nobody, and a stop stops both."""

from __future__ import annotations

import asyncio
from time import perf_counter

import pytest

from paceline_loadtest.arrivals import Arrivals
from paceline_loadtest.load import Load, Slots, Stop, Work, run_load, unless_stopped


class Seen:
    """Work that takes a while, and notes when it ran."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.began: dict[int, float] = {}
        self.due: dict[int, float] = {}
        self.ended: set[int] = set()
        self.now = self.most = 0

    async def __call__(self, number: int, due: float) -> None:
        self.began[number] = perf_counter()
        self.due[number] = due
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.seconds)
            self.ended.add(number)
        finally:
            self.now -= 1


async def run(load: Load, work: Work, stop: Stop | None = None) -> float:
    began = perf_counter()
    await run_load(load, work, stop or Stop(), began)
    return began


@pytest.mark.parametrize(("users", "most"), [(1, 1), (3, 3), (50, 10)])
async def test_users_take_turns(users: int, most: int) -> None:
    seen = Seen(0.01)
    await run(Load(users=users, loops=10), seen)
    assert sorted(seen.ended) == list(range(10))
    assert seen.most == most


async def test_users_think_between_two_loops() -> None:
    seen = Seen()
    began = await run(Load(users=1, loops=3, think_s=0.1), seen)
    # Whoever runs a loop waits until it is due.
    assert seen.due[0] == began
    assert seen.due[1] - seen.began[0] >= 0.1


async def test_no_loop_begins_after_the_duration() -> None:
    seen = Seen(0.02)
    began = await run(Load(users=2, duration_s=0.2), seen)
    assert 2 < len(seen.ended) < 30
    assert max(seen.began.values()) - began < 0.25
    assert seen.ended == set(seen.began)


async def test_arrivals_wait_for_nobody() -> None:
    seen = Seen(0.3)
    began = await run(Load(arrivals=Arrivals("constant", 50.0), loops=10), seen)
    assert seen.most == 10
    assert [round(seen.due[i] - began, 6) for i in range(10)] == [i / 50 for i in range(10)]
    assert len(seen.ended) == 10


async def test_arrivals_end_with_the_duration() -> None:
    seen = Seen()
    await run(Load(arrivals=Arrivals("constant", 20.0), duration_s=0.5), seen)
    assert len(seen.ended) == 10


async def test_arrivals_of_a_trace_are_all_there() -> None:
    seen = Seen()
    began = await run(Load(arrivals=Arrivals("trace", times=(0.0, 0.0, 0.1))), seen)
    assert [round(seen.due[i] - began, 6) for i in range(3)] == [0.0, 0.0, 0.1]


@pytest.mark.parametrize(
    "load", [Load(users=2), Load(arrivals=Arrivals("constant", 20.0))], ids=["users", "arrivals"]
)
async def test_a_stop_breaks_off_what_runs(load: Load) -> None:
    seen = Seen(30.0)
    stop = Stop()
    asyncio.get_running_loop().call_later(0.2, stop.set, "enough")
    asyncio.get_running_loop().call_later(0.21, stop.set, "too late")
    began = await run(load, seen, stop)
    assert perf_counter() - began < 5.0
    assert stop.why == "enough"
    assert seen.began
    assert not seen.ended
    assert seen.now == 0


async def test_what_work_raises_is_raised() -> None:
    async def broken(number: int, due: float) -> None:
        raise KeyError(number)

    with pytest.raises(ExceptionGroup) as found:
        await run(Load(users=2, loops=5), broken)
    assert found.group_contains(KeyError)


async def test_slots_are_taken_in_order_and_tell_who_waited() -> None:
    slots = Slots(2)
    order: list[tuple[int, bool]] = []

    async def call(number: int) -> None:
        async with slots.taken() as waited:
            order.append((number, waited))
            await asyncio.sleep(0.02)

    await asyncio.gather(*(call(number) for number in range(5)))
    assert order == [(0, False), (1, False), (2, True), (3, True), (4, True)]


async def test_without_a_bound_nobody_waits() -> None:
    slots = Slots(None)
    async with slots.taken() as first, slots.taken() as second:
        assert (first, second) == (False, False)


async def test_work_is_given_or_cut() -> None:
    async def ready() -> int:
        return 7

    async def never() -> int:
        await asyncio.sleep(30)
        return 8

    stop = Stop()
    assert await unless_stopped(stop, ready()) == 7
    asyncio.get_running_loop().call_later(0.05, stop.set, "enough")
    assert await unless_stopped(stop, never()) is None
    assert stop.set_already


async def test_whoever_is_cancelled_waits_for_its_work_to_clean_up() -> None:
    clean = False

    async def work() -> None:
        nonlocal clean
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.02)
            clean = True

    task = asyncio.ensure_future(unless_stopped(Stop(), work()))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clean
