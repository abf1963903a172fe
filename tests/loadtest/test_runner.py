"""One loop on one target: what is sent, when each thing is due, and how a loop ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import pytest

from paceline_loadtest.caller import Ask, Reply
from paceline_loadtest.caps import Caps, parse_price
from paceline_loadtest.lateness import OwnLateness
from paceline_loadtest.load import Slots, Stop
from paceline_loadtest.model import Call, Loop, LoopRun, Target, ToolRun, Turn
from paceline_loadtest.runner import Runner
from paceline_loadtest.scenario import OnError

TARGET = Target("t", "http://localhost/v1", "m")


class Fake:
    """A client whose calls take a while and say nothing; some of them fail."""

    def __init__(self, seconds: float = 0.0, failing: Sequence[int] = ()) -> None:
        self.seconds = seconds
        self.failing = failing
        self.asked: list[Ask] = []
        self.ended: list[str] = []

    async def call(self, ask: Ask, call: Call) -> Reply:
        number = len(self.asked)
        self.asked.append(ask)
        call.sent_at = perf_counter()
        await asyncio.sleep(self.seconds)
        call.first_at = call.last_at = call.end_at = perf_counter()
        call.prompt_tokens, call.output_tokens = 100, 10
        if number in self.failing:
            call.error = "it broke"
            return Reply()
        return Reply(text="Said.")

    async def warm(self, count: int) -> None: ...

    async def end_thread(self, thread: str) -> None:
        self.ended.append(thread)

    async def aclose(self) -> None: ...


def runner_of(fake: Fake, **more: Any) -> Runner:
    given = {"slots": Slots(None), "stop": Stop(), "lateness": OwnLateness(), **more}
    return Runner(TARGET, "chat", fake, **given)


def loop_of(*turns: Turn, name: str = "a") -> Loop:
    return Loop(name, 10, 0, 0, turns, seed=1)


def turn(*tools: ToolRun, parallel: bool = True, think_s: float = 0.0) -> Turn:
    return Turn(5, 0, 8, tools, parallel=parallel, think_s=think_s)


def tool(seconds: float, **more: Any) -> ToolRun:
    return ToolRun("tool", seconds, 6, **more)


async def play(runner: Runner, loop: Loop) -> LoopRun:
    run = LoopRun(loop, perf_counter())
    await runner.run(run)
    return run


async def test_every_turn_is_called_and_noted() -> None:
    fake = Fake()
    told: list[Call] = []
    run = await play(runner_of(fake, told=told.append), loop_of(turn(), turn(), turn()))
    assert len(run.turns) == len(fake.asked) == len(told) == 3
    assert run.stopped is None
    assert run.ended_at is not None
    assert all(t.call.ok and t.ended_at is not None for t in run.turns)
    # Each history holds the one before it.
    bodies = [[m["content"] for m in ask.body["messages"]] for ask in fake.asked]
    assert bodies[0] == bodies[1][:2] == bodies[2][:2]
    assert [len(body) for body in bodies] == [2, 4, 6]
    assert fake.ended == ["a#1"]


async def test_the_next_call_is_due_when_the_tool_ends_and_not_when_that_is_noticed() -> None:
    fake = Fake()
    run = await play(runner_of(fake), loop_of(turn(tool(0.05)), turn(tool(0.1)), turn()))
    for before, after in zip(run.turns, run.turns[1:], strict=False):
        assert before.call.end_at is not None
        assert after.call.scheduled_at == before.ended_at
        assert before.ended_at == pytest.approx(
            before.call.end_at + before.tools[0].ended_at - before.tools[0].started_at
        )
    first, second, _ = run.turns
    assert first.call.end_at == first.tools[0].started_at
    assert first.tools[0].ended_at - first.tools[0].started_at == pytest.approx(0.05)
    assert second.tools[0].ended_at - second.tools[0].started_at == pytest.approx(0.1)
    assert second.call.sent_at is not None
    assert second.call.sent_at >= second.call.scheduled_at


@pytest.mark.parametrize(("parallel", "seconds"), [(True, 0.1), (False, 0.15)])
async def test_tools_side_by_side_or_one_after_another(parallel: bool, seconds: float) -> None:
    tools = (tool(0.1), tool(0.05))
    run = await play(runner_of(Fake()), loop_of(turn(*tools, parallel=parallel), turn()))
    first = run.turns[0]
    assert first.call.end_at is not None
    assert first.ended_at is not None
    assert first.ended_at - first.call.end_at == pytest.approx(seconds)
    assert len(first.tools) == 2


async def test_a_person_thinks_before_the_call_is_due() -> None:
    run = await play(runner_of(Fake()), loop_of(turn(think_s=0.1), turn(think_s=0.05)))
    first, second = run.turns
    assert first.call.scheduled_at - first.started_at == pytest.approx(0.1)
    assert first.started_at == run.started_at
    assert second.call.scheduled_at - second.started_at == pytest.approx(0.05)
    assert second.started_at == first.ended_at
    assert first.call.sent_at is not None
    assert first.call.sent_at >= first.call.scheduled_at


async def test_sub_agents_run_side_by_side_and_the_tool_ends_with_the_last() -> None:
    agents = (
        loop_of(turn(tool(0.1)), turn(), name="a/1"),
        loop_of(turn(), name="a/2"),
    )
    run = await play(runner_of(Fake(0.02)), loop_of(turn(tool(0.05, agents=agents)), turn()))
    span = run.turns[0].tools[0]
    assert [len(agent.turns) for agent in span.loops] == [2, 1]
    assert all(agent.started_at == span.started_at for agent in span.loops)
    last = max(agent.ended_at or 0.0 for agent in span.loops)
    assert last - span.started_at >= 0.135
    assert span.ended_at == pytest.approx(last + 0.05)
    assert run.turns[1].call.scheduled_at == span.ended_at


async def test_a_command_is_really_run() -> None:
    command = (sys.executable, "-c", "import time; time.sleep(0.2)")
    run = await play(runner_of(Fake()), loop_of(turn(tool(99.0, command=command)), turn()))
    span = run.turns[0].tools[0]
    assert 0.2 <= span.ended_at - span.started_at < 20.0
    assert run.stopped is None


async def test_a_command_that_isn_t_there_ends_the_loop() -> None:
    run = await play(runner_of(Fake()), loop_of(turn(tool(1.0, command=("/no/such",))), turn()))
    assert run.stopped is not None
    assert run.stopped.startswith("a tool can't be run")
    assert len(run.turns) == 1


@pytest.mark.parametrize(
    ("on_error", "turns", "stopped"), [("stop", 2, "turn 2: it broke"), ("continue", 4, None)]
)
async def test_a_call_that_fails(on_error: OnError, turns: int, stopped: str | None) -> None:
    fake = Fake(failing=[1])
    run = await play(runner_of(fake, on_error=on_error), loop_of(*[turn(tool(0.0))] * 4))
    assert len(run.turns) == turns
    assert run.stopped == stopped
    assert run.ended_at is not None
    assert run.turns[1].call.error == "it broke"


async def test_being_cut_leaves_what_there_is() -> None:
    stop = Stop()
    runner = runner_of(Fake(30.0), stop=stop)
    run = LoopRun(loop_of(turn(), turn()), perf_counter())
    task = asyncio.ensure_future(runner.run(run))
    await asyncio.sleep(0.1)
    stop.set("interrupted")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.stopped == "interrupted"
    assert len(run.turns) == 1
    assert run.turns[0].call.sent_at is not None
    assert run.turns[0].call.end_at is None


async def test_being_cut_while_sub_agents_run() -> None:
    agents = (loop_of(turn(), name="a/1"),)
    runner = runner_of(Fake(0.05))
    long = loop_of(turn(tool(30.0)), turn(), name="a/2")
    run = LoopRun(loop_of(turn(tool(0.0, agents=(*agents, long))), turn()), perf_counter())
    task = asyncio.ensure_future(runner.run(run))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    done, broken = run.turns[0].tools[0].loops
    assert (done.stopped, len(done.turns)) == (None, 1)
    assert (broken.stopped, len(broken.turns)) == ("the run was broken off", 1)
    assert runner.calls_under_way == 0


class TestSlots:
    async def test_a_wait_for_one_is_its_own_line(self) -> None:
        runner = runner_of(Fake(0.1), slots=Slots(1))
        runs = [LoopRun(loop_of(turn(), name=str(i)), perf_counter()) for i in range(3)]
        await asyncio.gather(*map(runner.run, runs))
        waits = sorted((r.turns[0].call.slot_at or 0.0) - r.started_at for r in runs)
        assert waits[0] == 0.0
        # uvloop's timers may be a millisecond early.
        assert waits[1] >= 0.095
        assert waits[2] >= 0.19
        # What was waited for a slot is no lateness of the client's.
        assert min(runner.lateness.send) < 0.095
        assert runner.most_under_way == 1


class TestCaps:
    def caps(self, tokens: int = 10**9, usd: float = 1e9) -> Caps:
        return Caps(tokens, usd, parse_price("1,10"))

    @pytest.mark.parametrize(
        ("make", "why"),
        [
            (lambda self: self.caps(tokens=330), "--max-tokens-total 330"),
            (lambda self: self.caps(usd=0.00055), "--max-cost-usd 0.00055"),
        ],
    )
    async def test_a_run_stops_before_it_passes_one(
        self, make: Callable[[TestCaps], Caps], why: str
    ) -> None:
        # Each call is told as 110 tokens: 100 of input at a dollar and 10 of output at ten.
        caps, stop, fake = make(self), Stop(), Fake()
        run = await play(runner_of(fake, caps=caps, stop=stop), loop_of(*[turn()] * 50))
        assert stop.why is not None
        assert why in stop.why
        assert run.stopped == stop.why
        assert 1 <= len(run.turns) == len(fake.asked) <= 3
        assert caps.tokens == 110 * len(fake.asked)
        assert caps.tokens <= 330
        assert caps.usd == pytest.approx(0.0002 * len(fake.asked))

    async def test_one_that_can_t_even_pay_for_the_first_call(self) -> None:
        fake = Fake()
        run = await play(runner_of(fake, caps=self.caps(tokens=5)), loop_of(turn()))
        assert (run.turns, fake.asked) == ([], [])
        assert run.stopped is not None

    async def test_calls_under_way_count_at_their_worst(self) -> None:
        stop, fake = Stop(), Fake(0.1)
        runner = runner_of(fake, caps=self.caps(tokens=100), stop=stop)
        runs = [LoopRun(loop_of(turn(), name=str(i)), perf_counter()) for i in range(20)]
        await asyncio.gather(*map(runner.run, runs))
        assert 0 < len(fake.asked) < 4
        assert stop.why is not None
