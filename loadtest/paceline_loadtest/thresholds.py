"""Limits that a run must keep: `ttft_p99>2` fails a run whose TTFT's p99 is above two seconds.

A threshold says what fails: a name, a comparison and a number. Times are in seconds, shares from 0
to 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Literal

from paceline_loadtest.statistics import Spread, Statistics

Comparison = Literal[">", ">=", "<", "<="]
Outcome = Literal["passed", "failed", "unknown"]
_COMPARE: dict[Comparison, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}

_SPREADS: dict[str, Callable[[Statistics], Spread | None]] = {
    "ttft": lambda s: s.ttft,
    "tpot": lambda s: s.tpot,
    "itl": lambda s: s.itl,
    "e2e": lambda s: s.e2e,
    "task": lambda s: s.task,
    "slot_wait": lambda s: s.slot_wait,
    "lateness": lambda s: s.lateness,
}
_NUMBERS: dict[str, Callable[[Statistics], float | None]] = {
    "error_rate": lambda s: s.error_rate if s.calls else None,
    "errors": lambda s: s.failed if s.calls else None,
    "loops_stopped": lambda s: s.loops_stopped if s.loops else None,
    "goodput": lambda s: s.good_s,
    "good_share": lambda s: s.good_share,
    "throughput": lambda s: s.steady_tok_s,
}
_RULE = re.compile(r"\s*([a-z0-9_.]+)\s*(>=|<=|>|<)\s*(\S+)\s*", re.ASCII)
_OF_SPREAD = re.compile(r"(.+)_(mean|max|p([0-9]{1,2}(?:\.[0-9]{1,3})?|100))")

NAMES = ", ".join([*_NUMBERS, *(f"{name}_p99" for name in _SPREADS)])


class ThresholdError(ValueError):
    """A threshold that can't be read; the message names it and says what there is."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit. `name` is one of `NAMES`; of spreads, any percentile, `_mean` and `_max` too."""

    name: str
    comparison: Comparison
    limit: float

    def __str__(self) -> str:
        return f"{self.name}{self.comparison}{self.limit:.12g}"

    def value(self, statistics: Statistics) -> float | None:
        """What it is about, None where nothing was measured."""
        number = _NUMBERS.get(self.name)
        if number is not None:
            return number(statistics)
        match = _OF_SPREAD.fullmatch(self.name)
        assert match is not None, "parse_threshold lets no other name through"
        spread = _SPREADS[match[1]](statistics)
        if spread is None:
            return None
        if match[3] is not None:
            return spread.percentile(float(match[3]))
        return spread.mean if match[2] == "mean" else spread.max


@dataclass(frozen=True, slots=True)
class Verdict:
    """A threshold and what it was held against; `value` None: nothing was measured."""

    threshold: Threshold
    value: float | None

    @property
    def failed(self) -> bool:
        """Whether the run broke it; what wasn't measured wasn't kept either."""
        limit = self.threshold.limit
        return self.value is None or _COMPARE[self.threshold.comparison](self.value, limit)

    @property
    def outcome(self) -> Outcome:
        """The same in a word; of what wasn't measured it is unknown, which `failed` counts in."""
        if self.value is None:
            return "unknown"
        return "failed" if self.failed else "passed"

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.threshold}: nothing was measured"
        return f"{self.threshold}: {self.value:g}"


def parse_threshold(text: str) -> Threshold:
    """Read `ttft_p99>2`, `error_rate>0.01`, `tpot_p50>=0.03`. Raises ThresholdError."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise ThresholdError(
            f"{text!r} is no threshold: a name, one of > >= < <= and a number, in quotes for the "
            "shell, as in 'ttft_p99>2'"
        )
    name, comparison, number = match[1], match[2], match[3]
    of_spread = _OF_SPREAD.fullmatch(name)
    if name not in _NUMBERS and (of_spread is None or of_spread[1] not in _SPREADS):
        raise ThresholdError(
            f"{text!r}: there is no {name!r}; there are {NAMES}, and of those with a percentile "
            "any other (p50, p99.9), _mean and _max"
        )
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise ThresholdError(f"{text!r}: {number!r} is no number")
    return Threshold(name, _comparison(comparison), limit)


def evaluate(thresholds: Iterable[Threshold], statistics: Statistics) -> list[Verdict]:
    """Each threshold held against a run's figures, in their order."""
    return [Verdict(threshold, threshold.value(statistics)) for threshold in thresholds]


def _comparison(text: str) -> Comparison:
    return next(known for known in _COMPARE if known == text)
