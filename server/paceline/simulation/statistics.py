"""What a run comes to: distributions, rates, peaks, goodput and cost."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from paceline.core.percentile import percentile
from paceline.simulation.run import Run
from paceline.simulation.slo import Slo

NS_PER_MS = 1_000_000.0
NS_PER_S = 1_000_000_000.0


@dataclass(frozen=True, slots=True)
class Distribution:
    """Some requests' values of one kind, in milliseconds."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float
    stated: float
    """The percentile that an SLO is about."""

    @classmethod
    def of(cls, values: Iterable[float], percent: float) -> Distribution | None:
        """The distribution of values in any order; None where there are none."""
        ordered = sorted(values)
        if not ordered:
            return None
        return cls(
            count=len(ordered),
            mean=fsum(ordered) / len(ordered),
            p50=percentile(ordered, 50),
            p90=percentile(ordered, 90),
            p99=percentile(ordered, 99),
            max=ordered[-1],
            stated=percentile(ordered, percent),
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """One run's figures. Times in ms, rates a second; a share is a fraction of 1.

    `queue` is the wait in the engine's queue; other people's queue is in `overhead`.
    `peak_running` and `mean_running` count a request from its admission to its end.
    """

    run: Run
    requests: int
    duration_s: float
    ttft: Distribution | None
    tpot: Distribution | None
    e2e: Distribution | None
    queue: Distribution | None
    overhead_ms: float
    prefill_ms: float
    decode_ms: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    good: int
    """Requests that met every limit of the SLO; all of them where there is none."""
    peak_running: int
    peak_waiting: int
    mean_running: float
    slots: int
    """Sequences that can run at once in all replicas; 0: no limit."""

    @property
    def output_tok_s(self) -> float:
        """Output tokens a second of the whole deployment, from first arrival to last end."""
        return self.output_tokens / self.duration_s if self.duration_s else 0.0

    @property
    def prompt_tok_s(self) -> float:
        """Prompt tokens a second."""
        return self.prompt_tokens / self.duration_s if self.duration_s else 0.0

    @property
    def requests_s(self) -> float:
        """Requests ended a second."""
        return self.requests / self.duration_s if self.duration_s else 0.0

    @property
    def cached_share(self) -> float:
        """Share of prompt tokens that the cache held."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def slot_use(self) -> float | None:
        """Mean share of the slots in use; None where there's no limit to them."""
        return self.mean_running / self.slots if self.slots else None

    @property
    def good_share(self) -> float:
        """Share of the requests that met the SLO."""
        return self.good / self.requests if self.requests else 0.0

    def stated(self, name: str) -> float:
        """The SLO's percentile of `ttft`, `tpot` or `e2e`, in ms; 0 where nothing was measured."""
        found: Distribution | None = getattr(self, name)
        return found.stated if found is not None else 0.0


def summarise(run: Run, slo: Slo) -> Summary:
    """A run's figures; `slo` may be without limits."""
    count = len(run)
    ttft = _between(run.received, run.first)
    e2e = _between(run.received, run.end)
    steps = zip(run.first, run.end, run.output, strict=True)
    tpot = array("d", (0.0 if n < 2 else (e - f) / NS_PER_MS / (n - 1) for f, e, n in steps))
    good = count
    if slo.limits:
        good = _good(slo, ttft, tpot, e2e)
    duration_ns = max(run.end) - min(run.received) if count else 0
    running_ns = sum(run.end) - sum(run.admitted)
    percent = slo.percentile
    engine = run.profile.engine
    per_replica = max(int(engine.max_num_seqs - run.profile.tenants.running), 0)
    admitted = _ascending(run.admitted)
    peak_running = most_at_once(admitted, _ascending(run.end))
    waited = sum(run.admitted) > sum(run.engine)
    peak_waiting = most_at_once(_ascending(run.engine), admitted) if waited else 0
    return Summary(
        run=run,
        requests=count,
        duration_s=duration_ns / NS_PER_S,
        ttft=Distribution.of(ttft, percent),
        tpot=Distribution.of((t for t, n in zip(tpot, run.output, strict=True) if n > 1), percent),
        e2e=Distribution.of(e2e, percent),
        queue=Distribution.of(_between(run.engine, run.admitted), percent),
        overhead_ms=_mean_ms(sum(run.engine) - sum(run.received), count),
        prefill_ms=_mean_ms(sum(run.first) - sum(run.admitted), count),
        decode_ms=_mean_ms(sum(run.end) - sum(run.first), count),
        prompt_tokens=sum(run.prompt),
        cached_tokens=sum(run.cached),
        output_tokens=sum(run.output),
        good=good,
        peak_running=peak_running,
        peak_waiting=peak_waiting,
        mean_running=running_ns / duration_ns if duration_ns else 0.0,
        slots=per_replica * engine.replicas if run.profile.kind == "engine" else 0,
    )


def most_at_once(starts: Sequence[float], ends: Sequence[float]) -> int:
    """Most intervals that overlap at one time; an end comes before a start at the same time.

    Both in ascending order, each by itself.
    """
    peak = gone = 0
    for begun, start in enumerate(starts, 1):
        while ends[gone] <= start:
            gone += 1
            if gone == len(ends):
                return peak
        if begun - gone > peak:
            peak = begun - gone
    return peak


def _ascending(times: array[int]) -> list[float]:
    """In order, as floats, which sort twice as fast; exact for the first hundred days."""
    return sorted(array("d", times))


def _between(start: array[int], end: array[int]) -> array[float]:
    return array("d", ((e - s) / NS_PER_MS for s, e in zip(start, end, strict=True)))


def _mean_ms(total_ns: int, count: int) -> float:
    return total_ns / count / NS_PER_MS if count else 0.0


def _good(slo: Slo, ttft: array[float], tpot: array[float], e2e: array[float]) -> int:
    """How many requests met every limit; one token alone has no TPOT to break."""
    first, each, whole = slo.limit("ttft"), slo.limit("tpot"), slo.limit("e2e")
    return sum(
        f <= first and t <= each and w <= whole for f, t, w in zip(ttft, tpot, e2e, strict=True)
    )
