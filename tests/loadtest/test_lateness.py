"""The client's own lateness: seen where it is, and enough of it spoils a run."""

from __future__ import annotations

import asyncio
import gc
import time
from array import array

import pytest

from paceline_loadtest.lateness import OwnLateness


async def test_a_loop_that_is_held_up_is_seen() -> None:
    late = OwnLateness(limit_s=0.005)
    with late.watched():
        for _ in range(8):
            await asyncio.sleep(0.02)
            time.sleep(0.05)  # noqa: ASYNC251 - what is to be seen
        await asyncio.sleep(0.02)
    heart = late.kinds()["heartbeat"]
    # Of a stall every beat is told that would have come in it.
    assert heart.count > 100
    assert heart.max_s >= 0.04
    assert heart.p99_s > 0.02
    assert heart.spoils is not None
    assert "heartbeat" in heart.spoils
    assert "limit is 5 ms" in heart.spoils


async def test_beats_come_at_their_own_times() -> None:
    late = OwnLateness()
    with late.watched():
        began = time.perf_counter()
        await asyncio.sleep(0.4)
        seconds = time.perf_counter() - began
    # Every 4 ms, and none is lost, whatever else the machine does.
    assert len(late.heartbeat) == pytest.approx(seconds / 0.004, abs=5)


async def test_the_collector_is_as_it_was() -> None:
    before = gc.get_threshold()
    with OwnLateness().watched():
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
    assert gc.isenabled()


def with_samples(**kinds: list[float]) -> OwnLateness:
    late = OwnLateness(limit_s=0.002)
    for name, values in kinds.items():
        setattr(late, name, array("d", values))
    return late


def test_the_limit_is_the_99th_percentile_s() -> None:
    fine = with_samples(heartbeat=[0.001] * 995 + [0.1] * 5)
    worst = fine.worst()
    assert worst is not None
    assert (worst.spoils, worst.max_s, worst.p50_s) == (None, 0.1, 0.001)
    spoiled = with_samples(heartbeat=[0.001] * 900 + [0.1] * 100).worst()
    assert spoiled is not None
    assert spoiled.spoils is not None


@pytest.mark.parametrize("kind", ["heartbeat", "send", "receipt"])
def test_each_kind_spoils_a_run_by_itself(kind: str) -> None:
    late = with_samples(**{"heartbeat": [0.0001] * 100, "send": [0.0001] * 100, kind: [0.01] * 100})
    worst = late.worst()
    assert worst is not None
    assert worst.spoils is not None
    assert kind in worst.spoils
    assert set(late.kinds()) == {"heartbeat", "send", kind}


def test_a_few_late_sends_are_told_and_spoil_nothing() -> None:
    late = with_samples(send=[0.01] * 10, heartbeat=[0.0001] * 100)
    worst = late.worst()
    assert worst is not None
    assert (worst.spoils, worst.p99_s) == (None, 0.01)


def test_nothing_seen_is_nothing_told() -> None:
    assert OwnLateness().worst() is None
