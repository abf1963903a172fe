"""What a target's tasks gain over the base's, what bounds that, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import fsum
from typing import Literal, get_args

from paceline_loadtest.model import LoopRun, ToolSpan
from paceline_loadtest.report.results import TargetRun
from paceline_loadtest.statistics import Spread, calls_of, tpot

Unit = Literal["cost_usd", "credits"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""What a server bills in, by the names of `ServerPart`."""


@dataclass(frozen=True, slots=True)
class Speedup:
    """One target's tasks against the base's: how many times as fast, and what bounds that.

    `task` compares whole tasks, `tokens` the rate of the tokens. `most` is the base's task time
    over what is left of it when every request takes no time at all: tools and think time (Amdahl's
    law); None where nothing is left. `held_by` is that remainder's share of the base's time.
    """

    base: str
    task: float
    tokens: float | None
    most: float | None
    held_by: float
    loops: int
    base_s: float
    """The base's mean task, of those loops (s)."""


@dataclass(frozen=True, slots=True)
class Money:
    """What tasks cost, exact; None in a unit that a plan isn't sold in, or has no rate in.

    `saved_usd_s` and `saved_credits_s` are the price of a second saved over the base.
    """

    total_usd: Decimal | None
    task_usd: Decimal | None
    task_credits: Decimal | None
    saved_usd_s: Decimal | None = None
    saved_credits_s: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Mean task times of the same loops (s), and the measured over the predicted, less 1."""

    loops: int
    predicted_s: float
    measured_s: float

    @property
    def difference(self) -> float:
        """A share: 0.01 where the measured is 1 % longer."""
        return self.measured_s / self.predicted_s - 1.0 if self.predicted_s else 0.0


def loops_done(run: TargetRun) -> list[LoopRun]:
    """The loops that ran to their end."""
    return [loop for loop in run.loops if loop.ended_at is not None and loop.stopped is None]


def floor_s(run: LoopRun) -> float:
    """How long a loop would have taken had every request taken no time (s)."""
    total = 0.0
    for i, turn in enumerate(run.turns):
        planned = run.loop.turns[i] if i < len(run.loop.turns) else None
        total += max(turn.call.scheduled_at - turn.started_at, 0.0)
        tools = [_tool_floor_s(tool) for tool in turn.tools]
        if tools:
            total += max(tools) if planned is None or planned.parallel else sum(tools)
    return total


def _tool_floor_s(tool: ToolSpan) -> float:
    whole = tool.ended_at - tool.started_at
    if not tool.loops:
        return whole
    begin = min(agent.started_at for agent in tool.loops)
    ends = [agent.ended_at for agent in tool.loops if agent.ended_at is not None]
    around = whole - (max(ends, default=tool.ended_at) - begin)
    return max(around, 0.0) + max(floor_s(agent) for agent in tool.loops)


def cost_usd(run: LoopRun) -> Decimal | None:
    """What a loop cost (US$); None where one of its answers has no price."""
    return _cost(run, "cost_usd")


def _cost(run: LoopRun, unit: Unit) -> Decimal | None:
    total = Decimal(0)
    for call in calls_of([run]):
        amount: str | None = getattr(call.server, unit)
        if amount is not None:
            total += Decimal(amount)
        elif call.ok:
            return None
    return total


def money_of(run: TargetRun, done: Sequence[LoopRun]) -> Money | None:
    """What all loops and, on average, those that are done cost; None where no price is known."""
    task_usd, task_credits = _mean_cost(done, "cost_usd"), _mean_cost(done, "credits")
    if task_usd is None and task_credits is None:
        return None
    whole = [cost_usd(loop) for loop in run.loops]
    known = [cost for cost in whole if cost is not None]
    total = sum(known, Decimal(0)) if len(known) == len(whole) else None
    return Money(total, task_usd, task_credits)


def _mean_cost(loops: Sequence[LoopRun], unit: Unit) -> Decimal | None:
    each = [_cost(loop, unit) for loop in loops]
    known = [cost for cost in each if cost is not None]
    return sum(known, Decimal(0)) / len(known) if known and len(known) == len(each) else None


def pairs_of(run: TargetRun, base: TargetRun) -> list[tuple[LoopRun, LoopRun]]:
    """The loops that ended on both, by id, as (this, base)."""
    known = by_id(loops_done(base))
    return [(loop, known[key]) for key, loop in by_id(loops_done(run)).items() if key in known]


def speedup_of(run: TargetRun, base: TargetRun) -> Speedup | None:
    """Of the loops that ended on both; None where there are none."""
    pairs = pairs_of(run, base)
    base_s = fsum(other.seconds or 0.0 for _, other in pairs)
    run_s = fsum(loop.seconds or 0.0 for loop, _ in pairs)
    if not pairs or base_s <= 0 or run_s <= 0:
        return None
    left_s = fsum(floor_s(other) for _, other in pairs)
    each = [Spread.of(map(tpot, held.calls())) for held in (base, run)]
    tokens = each[0].percentile(50.0) / each[1].percentile(50.0) if each[0] and each[1] else None
    return Speedup(
        base=base.label,
        task=base_s / run_s,
        tokens=tokens,
        most=base_s / left_s if left_s > 0 else None,
        held_by=left_s / base_s,
        loops=len(pairs),
        base_s=base_s / len(pairs),
    )


def with_saving(money: Money | None, run: TargetRun, base: TargetRun) -> Money | None:
    """What each second saved costs, over the loops that ended on both."""
    pairs = pairs_of(run, base)
    saved_s = fsum((other.seconds or 0.0) - (loop.seconds or 0.0) for loop, other in pairs)
    if money is None or saved_s <= 0:
        return money
    usd, credits_ = (_a_second(pairs, saved_s, unit) for unit in UNITS)
    return replace(money, saved_usd_s=usd, saved_credits_s=credits_)


def _a_second(
    pairs: Sequence[tuple[LoopRun, LoopRun]], saved_s: float, unit: Unit
) -> Decimal | None:
    more = Decimal(0)
    for loop, other in pairs:
        cost, before = _cost(loop, unit), _cost(other, unit)
        if cost is None or before is None:
            return None
        more += cost - before
    return more / Decimal(repr(saved_s))


def prediction_of(run: TargetRun, done: Sequence[LoopRun]) -> Prediction | None:
    """Of the loops that are done and were predicted; None where there are none."""
    both = [(p.seconds or 0.0, d.seconds or 0.0) for p, d in predicted_pairs(run, done)]
    if not both:
        return None
    predicted, measured = (fsum(values) / len(both) for values in zip(*both, strict=True))
    return Prediction(len(both), predicted, measured)


def predicted_pairs(run: TargetRun, done: Sequence[LoopRun]) -> list[tuple[LoopRun, LoopRun]]:
    """Those of the loops that were predicted, as (predicted, measured)."""
    known = by_id([loop for loop in run.predicted if loop.seconds is not None])
    pairs = [(known.get(key) or known.get((key[0], 0)), loop) for key, loop in by_id(done).items()]
    return [(p, d) for p, d in pairs if p is not None]


def by_id(loops: Sequence[LoopRun]) -> dict[tuple[str, int], LoopRun]:
    """By id, and the how-manieth of that id it is."""
    found: dict[tuple[str, int], LoopRun] = {}
    seen: Counter[str] = Counter()
    for loop in loops:
        found[loop.loop.id, seen[loop.loop.id]] = loop
        seen[loop.loop.id] += 1
    return found
