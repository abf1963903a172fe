from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paceline.http.sink import Message
from paceline.recording.player import Play, Player, Step
from paceline.runtime.clock import ManualClock

MS = 1_000_000


class Wire:
    """An ASGI `send` that notes when each message came, and can be slow."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.got: list[tuple[int, bytes]] = []
        self.room = asyncio.Event()
        self.room.set()

    async def send(self, message: Message) -> None:
        if not self.room.is_set():
            await self.room.wait()
        self.got.append((self.clock.now_ns(), message["body"]))


def steps(*times: float) -> list[Step]:
    return [Step(round(at * MS), {"body": b"%d" % i}) for i, at in enumerate(times)]


def never() -> None:
    raise AssertionError


async def test_each_chunk_leaves_at_its_own_moment() -> None:
    clock = ManualClock()
    wire, player = Wire(clock), Player(clock)
    times = [0.0, 0.0, 1.25, 1.25, 7.0, 1000.0]
    player.start(Play(wire.send, steps(*times), never))
    assert wire.got == [(0, b"0"), (0, b"1")]
    clock.advance(2000 * MS)
    assert wire.got == [(round(at * MS), b"%d" % i) for i, at in enumerate(times)]


async def test_lateness_does_not_add_up() -> None:
    clock = ManualClock(late_ns=400_000)
    wire, player = Wire(clock), Player(clock)
    player.start(Play(wire.send, steps(*range(1, 1001)), never))
    clock.advance(1100 * MS)
    late = [at - (i + 1) * MS for i, (at, _) in enumerate(wire.got)]
    assert len(late) == 1000
    assert set(late) == {400_000}


async def test_what_a_late_timer_missed_is_written_at_once_and_apart() -> None:
    clock = ManualClock(late_ns=10 * MS)
    wire, player = Wire(clock), Player(clock)
    player.start(Play(wire.send, steps(1, 2, 3, 30), never))
    clock.advance(100 * MS)
    assert wire.got == [(11 * MS, b"0"), (11 * MS, b"1"), (11 * MS, b"2"), (40 * MS, b"3")]


async def test_many_streams_each_keep_their_own_times() -> None:
    clock = ManualClock()
    player = Player(clock)
    wires = [Wire(clock) for _ in range(100)]
    for i, wire in enumerate(wires):
        player.start(Play(wire.send, steps(*(i * 0.1 + j * 1.3 for j in range(1, 50))), never))
    clock.advance(1000 * MS)
    for i, wire in enumerate(wires):
        assert [at for at, _ in wire.got] == [round((i * 0.1 + j * 1.3) * MS) for j in range(1, 50)]


async def test_a_slow_reader_waits_alone_and_then_gets_what_is_due() -> None:
    clock = ManualClock()
    player = Player(clock)
    slow, quick = Wire(clock), Wire(clock)
    play = Play(slow.send, steps(1, 2, 3, 50), never)
    player.start(play)
    player.start(Play(quick.send, steps(1, 2, 3, 50), never))
    slow.room.clear()
    clock.advance(10 * MS)
    assert [data for _, data in quick.got] == [b"0", b"1", b"2"]
    assert slow.got == []
    assert play.sender.blocked
    slow.room.set()
    for _ in range(3):
        await asyncio.sleep(0)
    clock.advance(0)
    assert [data for _, data in slow.got] == [b"0", b"1", b"2"]
    clock.advance(50 * MS)
    assert slow.got[3:] == [(50 * MS, b"3")]


async def test_nothing_is_sent_to_whoever_has_left() -> None:
    clock = ManualClock()
    wire, player = Wire(clock), Player(clock)
    play = Play(wire.send, steps(1, 2, 3), never)
    player.start(play)
    clock.advance(1 * MS)
    play.stop()
    clock.advance(10 * MS)
    assert [data for _, data in wire.got] == [b"0"]


async def test_a_drop_comes_at_its_moment_and_is_the_end() -> None:
    clock = ManualClock()
    wire, player = Wire(clock), Player(clock)
    dropped: list[int] = []
    script = [*steps(1), Step(5 * MS, None), Step(6 * MS, {"body": b"never"})]
    play = Play(wire.send, script, lambda: dropped.append(clock.now_ns()))
    player.start(play)
    clock.advance(10 * MS)
    assert dropped == [5 * MS]
    assert wire.got == [(1 * MS, b"0")]
    assert play.over


@pytest.mark.parametrize("close_at", [0.5, 1.5])
async def test_a_closed_player_is_silent(close_at: float) -> None:
    clock = ManualClock()
    wire, player = Wire(clock), Player(clock)
    player.start(Play(wire.send, steps(1, 2), never))
    clock.advance(round(close_at * MS))
    player.close()
    before = list(wire.got)
    clock.advance(10 * MS)
    assert wire.got == before


async def test_a_long_stretch_of_writes_lets_the_loop_have_its_turn() -> None:
    class Working(ManualClock):
        """A clock by which each look takes a tenth of a millisecond."""

        def now_ns(self) -> int:
            self._now_ns += 100_000
            return super().now_ns()

    clock: Any = Working()
    player = Player(clock)
    wires = [Wire(clock) for _ in range(500)]
    for wire in wires:
        player.start(Play(wire.send, steps(200), never))
    passes = 0
    inner = player._pass

    def counted() -> None:
        nonlocal passes
        passes += 1
        inner()

    timer: Any = player._timer
    timer.callback = counted
    clock.advance(1000 * MS)
    assert all(len(wire.got) == 1 for wire in wires)
    assert passes > 3
