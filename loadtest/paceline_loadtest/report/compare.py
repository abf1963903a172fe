"""Two runs beside each other: what differs, and whether by more than the noise of their loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum
from random import Random
from typing import Literal

from paceline.core.percentile import percentile
from paceline_loadtest.model import LoopRun
from paceline_loadtest.report.gains import cost_usd, loops_done, pairs_of
from paceline_loadtest.report.results import Results, TargetRun, calls_of
from paceline_loadtest.report.timings import e2e, tpot, ttft

METHOD = "95 % bootstrap interval of the mean over loops"
_RESAMPLES = 2000
_MOST_DRAWS = 1_000_000
_LEAST_LOOPS = 4
"""With fewer a resampled interval says more about the sample than about the noise."""

Word = Literal["less", "more", "within the noise", "the same", "too few loops to say"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of one target in both runs; `change` is the after over the before, less 1.

    `low` and `high` bound the change at 95 %; None where there are too few loops.
    """

    target: str
    metric: str
    unit: str
    before: float
    after: float
    low: float | None
    high: float | None
    loops: int
    paired: bool
    word: Word

    @property
    def change(self) -> float:
        """A share: 0.1 where the after is 10 % more."""
        return self.after / self.before - 1.0 if self.before else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found; targets that only one run has stand in `only`."""

    before: Results
    after: Results
    differences: list[Difference]
    only: list[str]


_Metric = Callable[[LoopRun], float | None]


def _mean_of(measure: Callable[..., float | None]) -> _Metric:
    def metric(run: LoopRun) -> float | None:
        values = [v for v in map(measure, calls_of(run)) if v is not None]
        return fsum(values) / len(values) if values else None

    return metric


def _cost(run: LoopRun) -> float | None:
    cost = cost_usd(run)
    return None if cost is None else float(cost)


METRICS: tuple[tuple[str, str, _Metric], ...] = (
    ("task time", "s", lambda run: run.seconds),
    ("TTFT, a loop's mean", "s", _mean_of(ttft)),
    ("TPOT, a loop's mean", "s", _mean_of(tpot)),
    ("E2E of a request, a loop's mean", "s", _mean_of(e2e)),
    ("cost per task", "US$", _cost),
)
"""Name, unit and a loop's value; a run's figure is their mean."""


def compare(before: Results, after: Results) -> Comparison:
    """Every target, by label and load, that both runs have.

    Where both ran the same loops each is compared with itself, which takes the loops' own spread
    out of the noise. Resampling is seeded: the same files give the same words.
    """
    known = {_key(run): run for run in before.targets}
    differences, only = [], []
    for run in after.targets:
        base = known.pop(_key(run), None)
        if base is None:
            only.append(f"{run.label} (after)")
        else:
            differences += _target(base, run)
    only += [f"{run.label} (before)" for run in known.values()]
    return Comparison(before, after, differences, only)


def _key(run: TargetRun) -> tuple[str, int | None, float | None]:
    return run.label, run.users, run.rate


def _target(before: TargetRun, after: TargetRun) -> list[Difference]:
    found = []
    pairs = pairs_of(after, before)
    same = [(b, a) for a, b in pairs if a.loop == b.loop]
    for metric, unit, measure in METRICS:
        both = [(measure(b), measure(a)) for b, a in same]
        paired = [(b, a) for b, a in both if b is not None and a is not None]
        if len(paired) >= _LEAST_LOOPS:
            old, new = [b for b, _ in paired], [a for _, a in paired]
        else:
            old, new = _values(before, measure), _values(after, measure)
        if old and new:
            is_paired = len(paired) >= _LEAST_LOOPS
            found.append(_difference(after.label, metric, unit, old, new, paired=is_paired))
    return found


def _values(run: TargetRun, measure: _Metric) -> list[float]:
    return [value for value in map(measure, loops_done(run)) if value is not None]


def _difference(
    target: str, metric: str, unit: str, old: Sequence[float], new: Sequence[float], *, paired: bool
) -> Difference:
    before, after = fsum(old) / len(old), fsum(new) / len(new)
    low = high = None
    word: Word = "too few loops to say"
    if before == after:
        word = "the same"
    if min(len(old), len(new)) >= _LEAST_LOOPS and before > 0:
        low, high = _interval(old, new, f"{target} {metric}", paired=paired)
        if before != after:
            word = "less" if high < 0 else "more" if low > 0 else "within the noise"
    loops = min(len(old), len(new))
    return Difference(target, metric, unit, before, after, low, high, loops, paired, word)


def _interval(
    old: Sequence[float], new: Sequence[float], seed: str, *, paired: bool
) -> tuple[float, float]:
    """The change of the mean, at 2.5 and 97.5 % of the resampled ones."""
    rng = Random(seed)
    most = max(len(old), len(new))
    resamples = max(200, min(_RESAMPLES, _MOST_DRAWS // most))
    changes = []
    for _ in range(resamples):
        if paired:
            drawn = rng.choices(range(len(old)), k=len(old))
            a, b = fsum(old[i] for i in drawn), fsum(new[i] for i in drawn)
        else:
            a = fsum(rng.choices(old, k=len(old))) / len(old)
            b = fsum(rng.choices(new, k=len(new))) / len(new)
        changes.append(b / a - 1.0 if a else 0.0)
    changes.sort()
    return percentile(changes, 2.5), percentile(changes, 97.5)
