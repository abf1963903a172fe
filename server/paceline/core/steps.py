"""The clock of an engine's steps: from step to time and back, in closed form.

Between two events the number of running sequences is constant and the KV cache grows by the same
amount every step, so the k-th of a run of steps ends at

    base + k * step + growth * k * (k - 1) / 2

and the inverse is a square root. Times are whole nanoseconds; a boundary is a step's end. Every
run starts from a whole number, so shifting all arrivals shifts every boundary by exactly as much.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import cache, lru_cache
from math import sqrt

from paceline.core.rng import mix64

NS_PER_MS = 1_000_000.0
FOREVER = (1 << 62) - 1
"""A time (or a step) that never comes."""

_NO_TIMES = array("q")
_NO_LENGTHS = array("d")
"""Shared by all clocks that keep no history; nothing is ever put in."""

_JITTER_PERIOD = 4096
_HISTORY = 8192


@cache
def _units() -> array[float]:
    """Uniform numbers from 0 to 1, the same in every process."""
    return array("d", ((mix64(i) >> 11) / (1 << 53) for i in range(_JITTER_PERIOD)))


@lru_cache(64)
def jitter_table(sigma: float, step_ns: float) -> array[int]:
    """Delays in ns: uniform, standard deviation `sigma` of the shortest step, `step_ns`.

    They are added to a boundary and not to those after it; since none reaches a whole step,
    tokens keep their order, none comes before its step has ended, and the mean rate stays.
    """
    width = sigma * sqrt(12.0) * step_ns
    return array("q", [int(unit * width) for unit in _units()])


class StepClock:
    """Boundaries of one engine's steps, as a chain of runs.

    `restart` begins a run at a boundary. A clock that stands still (an idle engine) has
    `running` false and shows no boundary after its last one.
    """

    __slots__ = (
        "_jitter",
        "_offset",
        "_old_base",
        "_old_growth",
        "_old_step",
        "_old_steps",
        "base_ns",
        "base_step",
        "growth_ns",
        "keep_history",
        "running",
        "step_ns",
    )

    def __init__(
        self, jitter: array[int] | None = None, offset: int = 0, *, keep_history: bool = False
    ) -> None:
        """`offset` is where in the table of delays this clock begins: each replica elsewhere."""
        self.base_step = 0
        self.base_ns = 0
        self.step_ns = 0.0
        self.growth_ns = 0.0
        self.running = False
        self.keep_history = keep_history
        self._jitter = jitter
        self._offset = offset
        self._old_steps = array("q") if keep_history else _NO_TIMES
        self._old_base = array("q") if keep_history else _NO_TIMES
        self._old_step = array("d") if keep_history else _NO_LENGTHS
        self._old_growth = array("d") if keep_history else _NO_LENGTHS

    def restart(self, step: int, at_ns: int, step_ns: float, growth_ns: float) -> None:
        """Begin a run at boundary `step`, which is at `at_ns`.

        Its first step lasts `step_ns`, and each one `growth_ns` longer than that before it.
        """
        if self.keep_history:
            self._remember()
        self.base_step = step
        self.base_ns = at_ns
        self.step_ns = step_ns
        self.growth_ns = growth_ns
        self.running = True

    def after_standstill(self) -> int:
        """The number of the boundary with which an engine that stood still begins again.

        A whole period on, so that it has the jitter of the last one and can't overtake it.
        """
        return self.base_step + _JITTER_PERIOD

    def stop(self, step: int, at_ns: int) -> None:
        """Stand still after boundary `step` at `at_ns`; the next run starts at a later number."""
        self.restart(step, at_ns, 0.0, 0.0)
        self.running = False

    def at(self, step: int) -> int:
        """When boundary `step`, at or after the run's first, comes if the run goes on (ns)."""
        k = step - self.base_step
        if not k:
            return self.base_ns
        grown = self.growth_ns * (k * (k - 1) * 0.5)
        return self.base_ns + int(k * self.step_ns + grown + 0.5)

    def steps_by(self, now_ns: int) -> int:
        """The last boundary at or before `now_ns`, no earlier than the run's first."""
        elapsed = now_ns - self.base_ns
        if elapsed <= 0 or not self.running:
            return self.base_step
        step_ns, growth = self.step_ns, self.growth_ns
        if growth:
            half = step_ns - growth * 0.5
            k = int(2.0 * elapsed / (half + sqrt(half * half + 2.0 * growth * elapsed)))
        else:
            k = int(elapsed / step_ns)
        step = self.base_step + k
        while self.at(step) > now_ns:
            step -= 1
        while self.at(step + 1) <= now_ns:
            step += 1
        return step

    def shown_by(self, now_ns: int) -> int:
        """The last boundary whose tokens may be shown by `now_ns`: `steps_by`, jitter included.

        Before the run's first boundary may be shown the answer is the one before it.
        """
        step = self.steps_by(now_ns)
        if self._jitter is None or self.at(step) + self.jitter_ns(step) <= now_ns:
            return step
        # The step before ended a whole step ago, so its tokens are out; unless the engine stood
        # still in between, when the last boundary before that may be just as recent.
        first, i = step == self.base_step, len(self._old_steps) - 1
        while first and i >= 0 and not self._old_step[i]:
            step = self._old_steps[i]
            if self._old_base[i] + self.jitter_ns(step) <= now_ns:
                return step
            i -= 1
        return step - 1

    def jitter_ns(self, step: int) -> int:
        """How long after boundary `step` its tokens may be shown (ns)."""
        return 0 if self._jitter is None else self._jitter[(step + self._offset) % _JITTER_PERIOD]

    def due(self, step: int) -> int:
        """When the tokens of boundary `step` are due (ns): its time plus its jitter.

        Works for past boundaries too where the clock keeps its history (the last several thousand
        runs; anything older is given the time of the oldest run known).
        """
        if step >= self.base_step or not self._old_steps:
            at = self.at(max(step, self.base_step))
        else:
            i = max(bisect_right(self._old_steps, step) - 1, 0)
            k = max(step - self._old_steps[i], 0)
            grown = self._old_growth[i] * (k * (k - 1) * 0.5)
            at = self._old_base[i] + int(k * self._old_step[i] + grown + 0.5)
        return at + self.jitter_ns(step)

    def next_due(self, step: int) -> int:
        """When the boundary after `step`, the last one shown, may be shown (ns)."""
        if step >= self.base_step and not self.running:
            return FOREVER
        return self.due(step + 1)

    def _remember(self) -> None:
        if len(self._old_steps) >= 2 * _HISTORY:
            for past in (self._old_steps, self._old_base, self._old_step, self._old_growth):
                del past[:_HISTORY]
        self._old_steps.append(self.base_step)
        self._old_base.append(self.base_ns)
        self._old_step.append(self.step_ns)
        self._old_growth.append(self.growth_ns)
