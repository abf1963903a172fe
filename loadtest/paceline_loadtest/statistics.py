"""What the calls of a run come to: how many failed, and how long the others took.

Every latency counts from `scheduled_at`, when the request should have been made, so that a client
that falls behind makes the numbers worse and not better (no coordinated omission). How long a
request waited for a client slot, and how late it was sent, are figures of their own.

Percentiles are of successes only, interpolated between ranks (`paceline.core.percentile`); so the
error rate stands beside them. Times are in seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum

from paceline.core.percentile import percentile
from paceline_loadtest.model import Call, LoopRun

NEVER_ENDED = "never ended"


@dataclass(frozen=True, slots=True)
class Spread:
    """Values of one kind: how many, their mean, and any percentile of them."""

    ordered: tuple[float, ...]
    """Ascending; never empty."""

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """Of values in any order, without those that aren't known; None where none is."""
        ordered = tuple(sorted(value for value in values if value is not None))
        return cls(ordered) if ordered else None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ordered)

    @property
    def mean(self) -> float:
        """Their mean."""
        return fsum(self.ordered) / len(self.ordered)

    @property
    def max(self) -> float:
        """The largest."""
        return self.ordered[-1]

    def percentile(self, percent: float) -> float:
        """The percentile, 0 to 100."""
        return percentile(self.ordered, percent)


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits that a good request keeps, in seconds; None: no limit."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    def met_by(self, call: Call) -> bool:
        """Whether a call succeeded within every limit. One without a TPOT can't break that one.

        A TTFT or E2E that isn't known breaks its limit: nobody saw it kept.
        """
        if not call.ok:
            return False
        limits = ((ttft(call), self.ttft_s), (e2e(call), self.e2e_s))
        if any(most is not None and (s is None or s > most) for s, most in limits):
            return False
        each = tpot(call)
        return self.tpot_s is None or each is None or each <= self.tpot_s


@dataclass(frozen=True, slots=True)
class Statistics:
    """A run's figures. All spreads but the waits' and the tasks' are of successful calls."""

    calls: int
    failed: int
    errors: dict[str, int]
    """Failed calls by why, the most frequent first."""
    retried: int
    """Calls that were tried more than once, however they ended."""
    ttft: Spread | None
    tpot: Spread | None
    itl: Spread | None
    """Gaps between chunks as they were received. A chunk may be several tokens."""
    e2e: Spread | None
    slot_wait: Spread | None
    """Of all calls: from when it should have been made to when a client slot was free for it."""
    lateness: Spread | None
    """Of all calls: from when it could be sent to when it was, what the client itself was late."""
    told_to_wait: Spread | None
    """Of the calls that were told to (429, 503): how long, in all."""
    output_tokens: int
    tokens_known: int
    """Successful calls that told their output tokens."""
    steady_s: float
    """How long the run's middle is, in which as many loops run as ever do (`steady_part`): 0 where
    no loop has ended."""
    steady_tok_s: float | None
    """Output tokens a second in it, each call's spread evenly from its first to its last."""
    good: int | None
    """Calls that kept the SLO; None without one."""
    good_s: float | None
    """The same a second of the whole run."""
    loops: int
    loops_stopped: int
    task: Spread | None
    """Loops that ran to their end: how long they took."""

    @property
    def error_rate(self) -> float:
        """Failed calls of all calls, 0 to 1."""
        return self.failed / self.calls if self.calls else 0.0

    @property
    def good_share(self) -> float | None:
        """Calls that kept the SLO of all calls, failed ones too; None without an SLO."""
        return None if self.good is None or not self.calls else self.good / self.calls


def calls_of(runs: Iterable[LoopRun]) -> Iterator[Call]:
    """Every call of some loops, those of their sub-agents too."""
    for run in runs:
        for turn in run.turns:
            yield turn.call
            for tool in turn.tools:
                yield from calls_of(tool.loops)


def statistics(runs: Sequence[LoopRun], slo: Slo | None = None) -> Statistics:
    """The figures of the loops of one target, under one load."""
    calls = list(calls_of(runs))
    good = [call for call in calls if call.ok]
    finished = [run for run in runs if run.stopped is None and run.ended_at is not None]
    kept = None if slo is None else sum(map(slo.met_by, calls))
    whole_s = _whole_s(calls)
    steady = steady_part(runs)
    return Statistics(
        calls=len(calls),
        failed=len(calls) - len(good),
        errors=dict(Counter(c.error or NEVER_ENDED for c in calls if not c.ok).most_common()),
        retried=sum(call.retries > 0 for call in calls),
        ttft=Spread.of(map(ttft, good)),
        tpot=Spread.of(map(tpot, good)),
        itl=Spread.of(gap for call in good for gap in gaps(call)),
        e2e=Spread.of(map(e2e, good)),
        slot_wait=Spread.of(map(slot_wait, calls)),
        lateness=Spread.of(map(lateness, calls)),
        told_to_wait=Spread.of(call.waited_s for call in calls if call.waited_s > 0),
        output_tokens=sum(call.output_tokens or 0 for call in good),
        tokens_known=sum(call.output_tokens is not None for call in good),
        steady_s=steady[1] - steady[0],
        steady_tok_s=_rate_within(good, *steady),
        good=kept,
        good_s=None if kept is None or not whole_s else kept / whole_s,
        loops=len(runs),
        loops_stopped=len(runs) - len(finished),
        task=Spread.of(run.seconds for run in finished),
    )


# -- one call ----------------------------------------------------------------------------------


def ttft(call: Call) -> float | None:
    """From when it should have been made to its first content of any kind (s)."""
    return None if not call.ok or call.first_at is None else call.first_at - call.scheduled_at


def e2e(call: Call) -> float | None:
    """From when it should have been made to its last content (s); usage may come after."""
    return None if not call.ok or call.last_at is None else call.last_at - call.scheduled_at


def tpot(call: Call) -> float | None:
    """(last - first) / (n - 1) in seconds, over the n tokens that were seen to come.

    Reasoning that isn't shown is over before the first content, so its tokens aren't among them.
    None for an answer of one token, or one that came in one piece.
    """
    tokens = tokens_seen(call)
    if not call.ok or call.first_at is None or call.last_at is None or tokens is None:
        return None
    if tokens < 2 or call.last_at <= call.first_at:
        return None
    return (call.last_at - call.first_at) / (tokens - 1)


def tokens_seen(call: Call) -> int | None:
    """The tokens from the first content on; None where the server told none."""
    if call.output_tokens is None:
        return None
    if hides_reasoning(call):
        return call.output_tokens - (call.reasoning_tokens or 0)
    return call.output_tokens


def hides_reasoning(call: Call) -> bool:
    """Whether there was reasoning, and the first content came after it."""
    return bool(call.reasoning_tokens) and call.first_visible_at == call.first_at


def gaps(call: Call) -> Iterator[float]:
    """Between one chunk with content and the next, as they were received (s)."""
    return (after - before for before, after in pairwise(call.chunk_at))


def slot_wait(call: Call) -> float | None:
    """From when it should have been made to when a client slot was free for it (s)."""
    return None if call.slot_at is None else call.slot_at - call.scheduled_at


def lateness(call: Call) -> float | None:
    """From when it could be sent to when it was (s), less what it waited because it was told to.

    A call that was refused is stamped by its first try, and the wait is behind that; only one whose
    WebSocket was refused waits before anything of it is sent.
    """
    if call.slot_at is None or call.sent_at is None:
        return None
    late = call.sent_at - call.slot_at
    return max(late - call.waited_s if call.waited_s <= late else late, 0.0)


# -- the whole ---------------------------------------------------------------------------------


def steady_part(runs: Sequence[LoopRun]) -> tuple[float, float]:
    """The middle of a run, its start and its end; 0 and 0 where no loop has ended.

    It begins with the last start before the first end and ends with the first end after the last
    start, so the rise and the fall of the load are left out. Where a run is all rise and fall, as
    of a single loop, it is all of it.
    """
    starts = sorted(run.started_at for run in runs)
    ends = sorted(run.ended_at for run in runs if run.ended_at is not None)
    if not starts or not ends:
        return 0.0, 0.0
    begun = max((start for start in starts if start < ends[0]), default=starts[0])
    over = min((end for end in ends if end > starts[-1]), default=ends[-1])
    return (begun, over) if begun < over else (starts[0], ends[-1])


def _rate_within(calls: Iterable[Call], start: float, end: float) -> float | None:
    """Output tokens a second between two times, each call's spread evenly over its stream."""
    if end <= start:
        return None
    tokens = 0.0
    for call in calls:
        seen = tokens_seen(call)
        if seen is None or call.first_at is None or call.last_at is None:
            continue
        hidden = (call.output_tokens or 0) - seen
        length = call.last_at - call.first_at
        inside = min(call.last_at, end) - max(call.first_at, start)
        if length > 0:
            tokens += seen * max(inside, 0.0) / length
        elif inside >= 0:
            tokens += seen
        # What was hidden came at the latest by the first that was seen.
        tokens += hidden if start <= call.first_at <= end else 0
    return tokens / (end - start)


def _whole_s(calls: Sequence[Call]) -> float:
    ends = [call.end_at for call in calls if call.end_at is not None]
    return max(ends) - min(call.scheduled_at for call in calls) if ends else 0.0
