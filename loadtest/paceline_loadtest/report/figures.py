"""The figures of a run that every report shows: worked out once, from the results alone.

Percentiles are of successes only; a task's time is that of loops that ran to their end. Speed-ups
compare the same loops, by id.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from paceline_loadtest.model import Call, LoopRun
from paceline_loadtest.report.breakdown import Breakdown, breakdown, mean
from paceline_loadtest.report.gains import (
    Money,
    Prediction,
    Speedup,
    loops_done,
    money_of,
    prediction_of,
    speedup_of,
    with_saving,
)
from paceline_loadtest.report.quantiles import Quantiles, speed
from paceline_loadtest.report.results import Results, TargetRun
from paceline_loadtest.statistics import statistics

_A_WAIT_S = 0.001
"""Less than this is the client's own way from one thing to the next, and no wait for a slot."""
_WHY = 200
"""Characters that are told of why a loop stopped."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One target's figures. Times in seconds, rates in tokens a second."""

    run: TargetRun
    requests: int
    errors: dict[str, int]
    """Failed requests by kind."""
    retries: int
    finished: int
    """Loops that ran to their end."""
    stopped: dict[str, int]
    """The others, by why they ended."""
    task: Quantiles | None
    parts: Breakdown | None
    """Where the mean task's time went."""
    ttft: Quantiles | None
    tpot: Quantiles | None
    gap: Quantiles | None
    e2e: Quantiles | None
    speed: Quantiles | None
    """Of one stream while it was served, one over TPOT."""
    throughput: float | None
    """Output tokens a second of all streams, while as many loops ran as ever did."""
    slot_waits: Quantiles | None
    """Of the requests that had to wait for a client slot."""
    told_waits: Quantiles | None
    """Of the requests that were told to wait (429, 503)."""
    money: Money | None
    prediction: Prediction | None
    speedup: Speedup | None
    """None for the base itself, and where no loop ended on both."""
    is_base: bool = False
    """Whether the others of its load are compared with it."""

    @property
    def failed(self) -> int:
        """Requests that failed."""
        return sum(self.errors.values())

    @property
    def error_rate(self) -> float:
        """Failed requests of all, 0 to 1."""
        return self.failed / self.requests if self.requests else 0.0


def figures(results: Results) -> list[Figures]:
    """Every target's figures, in the order of the results."""
    bases = [base_of(results, run) for run in results.targets]
    return [_figures(run, base) for run, base in zip(results.targets, bases, strict=True)]


def base_of(results: Results, run: TargetRun) -> TargetRun:
    """What a target is compared with: the first target, under the same load where it ran so."""
    first = results.targets[0]
    like = (
        other
        for other in results.targets
        if other.label == first.label and (other.users, other.rate) == (run.users, run.rate)
    )
    return next(like, first)


def _figures(run: TargetRun, base: TargetRun) -> Figures:
    calls = list(run.calls())
    done = loops_done(run)
    parts = [found for found in map(breakdown, done) if found is not None]
    measured = statistics(run.loops)
    money = money_of(run, done)
    speedup = None
    if base is not run:
        speedup = speedup_of(run, base)
        money = with_saving(money, run, base)
    waits = () if measured.slot_wait is None else measured.slot_wait.ordered
    return Figures(
        run=run,
        requests=measured.calls,
        errors=dict(Counter(error_kind(c) for c in calls if not c.ok).most_common()),
        retries=sum(call.retries for call in calls),
        finished=len(done),
        stopped=dict(Counter(_why(loop) for loop in run.loops if _why(loop)).most_common()),
        task=Quantiles.of_spread(measured.task),
        parts=mean(parts) if parts else None,
        ttft=Quantiles.of_spread(measured.ttft),
        tpot=Quantiles.of_spread(measured.tpot),
        gap=Quantiles.of_spread(measured.itl),
        e2e=Quantiles.of_spread(measured.e2e),
        speed=None if measured.tpot is None else speed(measured.tpot.ordered),
        throughput=measured.steady_tok_s,
        slot_waits=Quantiles.of(wait for wait in waits if wait > _A_WAIT_S),
        told_waits=Quantiles.of_spread(measured.told_to_wait),
        money=money,
        prediction=prediction_of(run, done),
        speedup=speedup,
        is_base=base is run,
    )


def error_kind(call: Call) -> str:
    """What kind of failure it was: its status, or the first words of why."""
    if call.status is not None and call.status >= 400:
        return f"HTTP {call.status}"
    if call.error is None:
        return "never ended"
    return call.error.partition(":")[0].strip()[:60] or "unknown"


def _why(loop: LoopRun) -> str:
    if loop.stopped is not None:
        return loop.stopped if len(loop.stopped) <= _WHY else f"{loop.stopped[:_WHY]}…"
    return "" if loop.ended_at is not None else "never ended"
