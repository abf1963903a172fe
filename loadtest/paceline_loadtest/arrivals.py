"""When loops begin in an open load: whatever the server does, they come when they come.

Each kind gives times in seconds from the run's start. Where the rate changes, gaps are those of a
Poisson process, drawn for a rate of 1 and stretched along the integral of the rate (Lewis and
Shedler 1979 call the way back from it inversion).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

from paceline.simulation.traces import TraceError, load_trace
from paceline_loadtest.errors import LoadTestError

_MOST_RATE = 1e6

KINDS = (
    "poisson, constant, gamma:BURSTINESS, ramp:TO,SECONDS, spike:PEAK,AT,SECONDS, "
    "trace:FILE or trace:FILE,SPEEDUP"
)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A process of arrivals.

    `rate` is loops a second, and what a ramp begins with and a spike stands out of; None where a
    trace says when. A ramp goes evenly to `to` in `seconds` and stays there. A spike has the rate
    `to` from `at` on, for `seconds`. `burstiness` is the shape of a gamma distribution, as in
    vLLM's bench: 1 is a Poisson process, less is burstier.
    """

    kind: str
    rate: float | None = None
    burstiness: float = 1.0
    to: float = 0.0
    at: float = 0.0
    seconds: float = 0.0
    times: tuple[float, ...] = ()

    def offsets(self, seed: int) -> Iterator[float]:
        """The times, in order, without end but for a trace's; the same ones for a seed."""
        if self.kind == "trace":
            yield from self.times
            return
        rate = self.rate
        assert rate is not None, "parse_arrivals lets no other kind go without"
        random = Random(seed)
        if self.kind == "constant":
            yield from (number / rate for number in count())
        elif self.kind == "gamma":
            now = 0.0
            while True:
                now += random.gammavariate(self.burstiness, 1.0 / self.burstiness) / rate
                yield now
        else:
            due = 0.0
            while True:
                due += random.expovariate(1.0)
                yield self._when(due, rate)

    def __str__(self) -> str:
        about = {
            "gamma": f":{self.burstiness:g}",
            "ramp": f":{self.to:g},{self.seconds:g}",
            "spike": f":{self.to:g},{self.at:g},{self.seconds:g}",
            "trace": f" of {len(self.times):,} arrivals",
        }
        return self.kind + about.get(self.kind, "")

    def _when(self, due: float, rate: float) -> float:
        """When so many arrivals are expected to have come."""
        if self.kind == "ramp":
            slope = (self.to - rate) / self.seconds
            in_ramp = (rate + self.to) / 2 * self.seconds
            if due > in_ramp:
                return self.seconds + (due - in_ramp) / self.to
            if slope == 0.0:
                return due / rate
            # The root of slope / 2 t^2 + rate t = due, in the form that cancels nothing.
            return 2 * due / (rate + math.sqrt(max(rate * rate + 2 * slope * due, 0.0)))
        if self.kind == "spike":
            before = rate * self.at
            within = self.to * self.seconds
            if due > before + within:
                return self.at + self.seconds + (due - before - within) / rate
            if due > before:
                return self.at + (due - before) / self.to
        return due / rate


def parse_arrivals(text: str, rate: float | None) -> Arrivals:
    """Read what `--arrivals` says. Raises LoadTestError."""
    kind, _, rest = text.strip().partition(":")
    if kind == "trace":
        if rate is not None:
            raise LoadTestError("--rate: a trace says itself when loops begin")
        return _trace(rest)
    if rate is None:
        raise LoadTestError(f"--arrivals {kind} needs --rate")
    if not 0 < rate <= _MOST_RATE:
        raise LoadTestError(f"--rate: {rate:g} is not above 0 and at most {_MOST_RATE:g} a second")
    if kind in {"poisson", "constant"} and not rest:
        return Arrivals(kind, rate)
    numbers = _numbers(text, rest)
    match kind, numbers:
        case "gamma", [burstiness] if 0 < burstiness <= 1e6:
            return Arrivals("gamma", rate, burstiness=burstiness)
        case "ramp", [to, seconds] if 0 < to <= _MOST_RATE and seconds > 0:
            return Arrivals("ramp", rate, to=to, seconds=seconds)
        case "spike", [to, at, seconds] if 0 < to <= _MOST_RATE and at >= 0 and seconds > 0:
            return Arrivals("spike", rate, to=to, at=at, seconds=seconds)
        case _:
            raise LoadTestError(f"--arrivals: {text!r} is none of {KINDS}")


def _trace(rest: str) -> Arrivals:
    name, _, told = rest.rpartition(",")
    speedup = 1.0
    if name:
        speedup = next(iter(_numbers(f"trace:{rest}", told)), 0.0)
        if not speedup > 0:
            raise LoadTestError(f"--arrivals: a speedup of {told!r} is not above 0")
    try:
        trace, _ = load_trace(Path(name or rest))
    except TraceError as error:
        raise LoadTestError(f"--arrivals: {error}") from error
    # Blocks are of no matter here, but the trace wants to know how large they are to be.
    jobs = trace.jobs(trace.block_tokens or 1, speedup=speedup)
    times = tuple(job[0] / 1e9 for job in jobs)
    return Arrivals("trace", times=times)


def _numbers(text: str, rest: str) -> list[float]:
    try:
        found = [float(part) for part in rest.split(",")] if rest else []
    except ValueError:
        found = [math.nan]
    if not all(map(math.isfinite, found)):
        raise LoadTestError(f"--arrivals: {text!r} is none of {KINDS}")
    return found
