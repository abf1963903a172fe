"""Two runs beside each other: what differs, and whether by more than the noise of their loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from random import Random
from typing import Literal

from paceline.core.percentile import percentile
from paceline_loadtest.model import Call, Loop, LoopRun
from paceline_loadtest.report.gains import by_id, cost_usd, loops_done
from paceline_loadtest.report.results import Results, RunInfo, TargetRun
from paceline_loadtest.statistics import calls_of, e2e, tpot, ttft

METHOD = "95 % bootstrap interval; each figure is the mean over loops of a loop's mean"
SAME = "the same"
_RESAMPLES, _LEAST_RESAMPLES = 2000, 200
_MOST_DRAWS = 1_000_000
_LEAST_LOOPS = 4
"""With fewer a resampled interval says more about the sample than about the noise."""

_SMALL, _NOTHING = 0.01, 0.001
"""A change below the first is said to be small, however certain; one that can only be below the
second is none."""

Unit = Literal["s", "US$", "share"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of one target in both runs, each the mean over its loops.

    `low` and `high` bound the change at 95 %; None where there are too few loops.
    """

    target: str
    metric: str
    unit: Unit
    before: float
    after: float
    low: float | None
    high: float | None
    loops: int
    paired: bool
    word: str
    """Which way it went, and whether by more than the noise."""

    @property
    def change(self) -> float:
        """0.1 where the after is 10 % more; of a share, 0.1 where it is ten points more."""
        return _change(self.unit, self.before, self.after)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found.

    Targets that only one run has stand in `only`; `notes` say where the two aren't quite alike.
    """

    before: Results
    after: Results
    differences: list[Difference]
    only: list[str]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Metric:
    """What is compared: a loop's value, and what less and more of it are called."""

    name: str
    unit: Unit
    measure: Callable[[LoopRun], float | None]
    less: str
    more: str
    finished: bool = True
    """Only of loops that ran to their end."""


def _mean_of(measure: Callable[[Call], float | None]) -> Callable[[LoopRun], float | None]:
    def found(run: LoopRun) -> float | None:
        values = [v for v in map(measure, calls_of([run])) if v is not None]
        return fsum(values) / len(values) if values else None

    return found


def _cost(run: LoopRun) -> float | None:
    cost = cost_usd(run)
    return None if cost is None else float(cost)


def _failed(run: LoopRun) -> float | None:
    calls = list(calls_of([run]))
    return sum(not call.ok for call in calls) / len(calls) if calls else None


METRICS = (
    Metric("failed requests", "share", _failed, "fewer", "more", finished=False),
    Metric("task time", "s", lambda run: run.seconds, "faster", "slower"),
    Metric("TTFT", "s", _mean_of(ttft), "faster", "slower"),
    Metric("TPOT", "s", _mean_of(tpot), "faster", "slower"),
    Metric("E2E", "s", _mean_of(e2e), "faster", "slower"),
    Metric("cost per task", "US$", _cost, "cheaper", "dearer"),
)


def compare(before: Results, after: Results) -> Comparison:
    """Every target that both runs have: by label and load, or by a label that each has once.

    Where both ran the same loops each is compared with itself, which takes the loops' own spread
    out of the noise. Resampling is seeded: the same files give the same words.
    """
    pairs = _matched(before.targets, after.targets)
    differences: list[Difference] = []
    notes = _other_terms(before.info, after.info)
    for old, new in pairs:
        differences += _target(old, new)
        if old.load != new.load:
            notes.append(f"{new.label}: {old.load or 'load unknown'} before, {new.load} after")
        for run, when in ((old, "before"), (new, "after")):
            if run.lateness is not None and run.lateness.spoils is not None:
                notes.append(f"{run.label} is spoiled by the client's own lateness {when}")
    known = {id(run) for pair in pairs for run in pair}
    sides = ((after, "after"), (before, "before"))
    only = [
        f"{run.label} ({when})"
        for results, when in sides
        for run in results.targets
        if id(run) not in known
    ]
    return Comparison(before, after, differences, only, notes)


def _other_terms(before: RunInfo, after: RunInfo) -> list[str]:
    """What makes two runs hard to compare, whatever their targets are."""
    terms = {
        "scenario": (before.scenario, after.scenario),
        "client": (before.client, after.client),
        "API": (before.dialect, after.dialect),
        "answers": tuple("streamed" if i.stream else "whole" for i in (before, after)),
    }
    return [
        f"{name}: {old} before, {new} after" for name, (old, new) in terms.items() if old != new
    ]


def _matched(
    before: Sequence[TargetRun], after: Sequence[TargetRun]
) -> list[tuple[TargetRun, TargetRun]]:
    known = {_key(run): run for run in before}
    once = [Counter(run.label for run in runs) for runs in (before, after)]
    by_label = {run.label: run for run in before if once[0][run.label] == once[1][run.label] == 1}
    found = []
    for run in after:
        other = known.get(_key(run)) or by_label.get(run.label)
        if other is not None:
            found.append((other, run))
    return found


def _key(run: TargetRun) -> tuple[str, int | None, float | None]:
    return run.label, run.users, run.rate


def _target(before: TargetRun, after: TargetRun) -> list[Difference]:
    found = []
    for metric in METRICS:
        old, new = _loops(before, metric), _loops(after, metric)
        paired = [
            (b, a)
            for key in old.keys() & new.keys()
            if old[key][0] == new[key][0]
            and (b := old[key][1]) is not None
            and (a := new[key][1]) is not None
        ]
        # Sets have no order, and resampling draws by place.
        both = sorted(paired)
        if len(both) >= _LEAST_LOOPS:
            values = [b for b, _ in both], [a for _, a in both]
        else:
            values = _known(old), _known(new)
        if values[0] and values[1]:
            is_paired = len(both) >= _LEAST_LOOPS
            found.append(_difference(after.label, metric, *values, paired=is_paired))
    return found


def _loops(run: TargetRun, metric: Metric) -> dict[tuple[str, int], tuple[Loop, float | None]]:
    """Each loop and its value, by id."""
    loops = loops_done(run) if metric.finished else run.loops
    return {key: (one.loop, metric.measure(one)) for key, one in by_id(loops).items()}


def _known(loops: Mapping[tuple[str, int], tuple[Loop, float | None]]) -> list[float]:
    return [value for _, value in loops.values() if value is not None]


def _difference(
    target: str, metric: Metric, old: Sequence[float], new: Sequence[float], *, paired: bool
) -> Difference:
    before, after = fsum(old) / len(old), fsum(new) / len(new)
    loops = min(len(old), len(new))
    low = high = None
    if loops >= _LEAST_LOOPS and (before > 0 or metric.unit == "share"):
        low, high = _interval(old, new, metric.unit, f"{target} {metric.name}", paired=paired)
    change = _change(metric.unit, before, after)
    if before == after:
        word = SAME
    elif low is None or high is None:
        word = "too few loops to say"
    elif -_NOTHING < low <= high < _NOTHING:
        word = "the same to 0.1 %"
    elif low <= 0 <= high:
        word = "within noise"
    else:
        word = f"{metric.less if change < 0 else metric.more}, beyond noise"
        if abs(change) < _SMALL:
            word += ", < 1 %" if metric.unit != "share" else ", by little"
    return Difference(
        target, metric.name, metric.unit, before, after, low, high, loops, paired, word
    )


def _change(unit: Unit, before: float, after: float) -> float:
    if unit == "share":
        return after - before
    return after / before - 1.0 if before else 0.0


def _interval(
    old: Sequence[float], new: Sequence[float], unit: Unit, seed: str, *, paired: bool
) -> tuple[float, float]:
    """The change of the mean, at 2.5 and 97.5 % of the resampled ones."""
    rng = Random(seed)
    resamples = max(_LEAST_RESAMPLES, min(_RESAMPLES, _MOST_DRAWS // max(len(old), len(new))))
    changes = []
    for _ in range(resamples):
        if paired:
            drawn = rng.choices(range(len(old)), k=len(old))
            before, after = fsum(old[i] for i in drawn), fsum(new[i] for i in drawn)
        else:
            before, after = fsum(rng.choices(old, k=len(old))), fsum(rng.choices(new, k=len(new)))
        changes.append(_change(unit, before / len(old), after / len(new)))
    changes.sort()
    return percentile(changes, 2.5), percentile(changes, 97.5)
