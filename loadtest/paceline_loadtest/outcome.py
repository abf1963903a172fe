"""What a load test comes to: a run a target, and how late the client that measured it was.

This is what is handed to a report. Times are seconds, on the clock of `time.perf_counter()` where
they are points; `started_unix` ties that clock to the world's.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.core.percentile import percentile
from paceline_loadtest.model import Call, Dialect, LoopRun, Target

ClientKind = Literal["sdk", "lean"]

DEFAULT_LATE_LIMIT_S = 0.005
"""A run whose client was later than this at its 99th percentile is marked as spoiled. It is the
bound that the server's own dashboard holds writes to, and an eighth of a token at 25 ms."""

LEAST_SAMPLES = 20
"""Fewer samples of a lateness than this spoil nothing: a 99th percentile of them is their worst."""


def _doubles() -> array[float]:
    return array("d")


@dataclass(slots=True)
class Lateness:
    """How late the client itself was, in seconds; none of it is the server's.

    `heartbeat` is how long after its due time each beat of a timer on the client's loop came:
    what holds up the loop holds up every stamp. `send` is how long after a call could be sent (its
    time had come, a slot was free) its first byte left. `receipt`, only for a Paceline on this
    machine, is from the server's record of a write to its stamp here.
    """

    heartbeat: array[float] = field(default_factory=_doubles)
    send: array[float] = field(default_factory=_doubles)
    receipt: array[float] = field(default_factory=_doubles)
    limit_s: float = DEFAULT_LATE_LIMIT_S

    def p99(self) -> dict[str, float]:
        """The 99th percentile of each kind that has samples."""
        kinds = {"heartbeat": self.heartbeat, "send": self.send, "receipt": self.receipt}
        return {name: percentile(sorted(v), 99.0) for name, v in kinds.items() if v}

    @property
    def spoiled(self) -> str | None:
        """Why the run's times can't be trusted, in words; None where they can."""
        for name, late_s in self.p99().items():
            few = len(getattr(self, name)) < LEAST_SAMPLES
            if late_s > self.limit_s and not few:
                return (
                    f"the client was late itself: {name} p99 {late_s * 1e3:.1f} ms, "
                    f"limit {self.limit_s * 1e3:g} ms"
                )
        return None


@dataclass(slots=True)
class TargetRun:
    """One target's part of a load test."""

    target: Target
    dialect: Dialect
    client: ClientKind
    started_at: float
    ended_at: float | None = None
    loops: list[LoopRun] = field(default_factory=list)
    lateness: Lateness = field(default_factory=Lateness)
    client_cost_s: float | None = None
    """What a call costs beyond the server's waiting: the median call of an answer that takes no
    time, on a Paceline's `instant`; None where it couldn't be measured."""
    stopped: str | None = None
    """Why it ended before its time: an error, a cap, Ctrl-C."""

    def calls(self) -> Iterator[Call]:
        """Every call, those of sub-agents included."""
        for loop in self.loops:
            yield from calls_of(loop)


def calls_of(loop: LoopRun) -> Iterator[Call]:
    """Every call of a loop and of its sub-agents."""
    for turn in loop.turns:
        yield turn.call
        for tool in turn.tools:
            for agent in tool.loops:
                yield from calls_of(agent)


@dataclass(slots=True)
class Outcome:
    """A whole load test."""

    scenario: str
    """Its name."""
    seed: int
    started_unix: float
    targets: list[TargetRun] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    """What the command was told: client, users, rate, arrivals, …"""
    interrupted: bool = False

    @property
    def spoiled(self) -> dict[str, str]:
        """By target's label, why its run can't be trusted."""
        found = ((run.target.label, run.lateness.spoiled) for run in self.targets)
        return {label: why for label, why in found if why is not None}
