"""Where the time of a task went: parts, in whole nanoseconds, that add up to all of it.

A loop's time is cut into spans of one part each, without gaps. Where things ran side by side the
critical path counts: of parallel tools and sub-agents the one that ended last, and before it the
one that ended last before it began. What a server didn't tell isn't guessed: without its
`Server-Timing` all of the time before the first token is `waiting`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, get_args

from paceline_loadtest.model import Call, LoopRun, ToolSpan, TurnRun
from paceline_loadtest.statistics import hides_reasoning

Part = Literal[
    "queue",
    "prefill",
    "waiting",
    "reasoning",
    "output",
    "tools",
    "network",
    "limits",
    "slots",
    "client",
    "think",
    "failed",
]
PARTS: tuple[Part, ...] = get_args(Part)
NAMES: dict[Part, str] = {
    "queue": "queue",
    "prefill": "prefill",
    "waiting": "waiting for the first token",
    "reasoning": "reasoning",
    "output": "visible output",
    "tools": "tools",
    "network": "network and API",
    "limits": "told to wait (429, 503)",
    "slots": "waiting for a client slot",
    "client": "client",
    "think": "think time",
    "failed": "failed requests",
}
"""What people call the parts."""

_NS = 1_000_000_000


class _Timed(Protocol):
    @property
    def started_at(self) -> float: ...
    @property
    def ended_at(self) -> float | None: ...


_T = TypeVar("_T", bound=_Timed)


@dataclass(frozen=True, slots=True)
class Span:
    """One part of a loop, from `start` to `end` in ns on the run's clock.

    `turn` counts the turns of the loop from 0; `agent` is the sub-agent's loop id, empty for the
    loop itself.
    """

    part: Part
    start: int
    end: int
    turn: int
    agent: str = ""

    @property
    def ns(self) -> int:
        """How long it is."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The parts of some time (ns); those of no time are left out."""

    parts: dict[Part, int]

    @property
    def total(self) -> int:
        """All of it: exactly the parts' sum (ns)."""
        return sum(self.parts.values())

    def seconds(self, *parts: Part) -> float:
        """What these parts come to, in seconds."""
        return sum(self.parts.get(part, 0) for part in parts) / _NS

    def share(self, *parts: Part) -> float:
        """These parts' share of the whole, 0 to 1."""
        return sum(self.parts.get(part, 0) for part in parts) / self.total if self.total else 0.0


def breakdown(run: LoopRun) -> Breakdown | None:
    """Where a loop's time went; None for one that never ended."""
    if run.ended_at is None:
        return None
    return added(spans(run))


def added(found: Iterable[Span]) -> Breakdown:
    """The parts that spans come to."""
    parts = dict.fromkeys(PARTS, 0)
    for span in found:
        parts[span.part] += span.ns
    return Breakdown({part: ns for part, ns in parts.items() if ns})


def mean(found: Sequence[Breakdown]) -> Breakdown:
    """Each part's mean, rounded to the nanosecond (the whole is then the sum of those)."""
    parts = {part: sum(b.parts.get(part, 0) for b in found) for part in PARTS}
    return Breakdown({part: round(ns / len(found)) for part, ns in parts.items() if ns})


def spans(run: LoopRun) -> list[Span]:
    """The loop's critical path from start to end, in order, without gaps or overlaps."""
    start = ns(run.started_at)
    ended = run.ended_at if run.ended_at is not None else _last_seen(run)
    return list(_loop(run, start, max(start, ns(ended)), ""))


def ns(seconds: float) -> int:
    """Whole nanoseconds."""
    return round(seconds * _NS)


def _loop(run: LoopRun, start: int, end: int, agent: str) -> Iterator[Span]:
    cut = _Cutter(start, end, agent)
    for i, turn in enumerate(run.turns):
        cut.turn = i
        following = run.turns[i + 1].started_at if i + 1 < len(run.turns) else None
        turn_end = turn.ended_at if turn.ended_at is not None else following
        yield from cut.until("client", ns(turn.started_at))
        yield from _turn(turn, cut, end if turn_end is None else min(end, ns(turn_end)))
    yield from cut.until("client", end)


def _turn(turn: TurnRun, cut: _Cutter, end: int) -> Iterator[Span]:
    # Thinking is all of the time before a request was due: nothing else is done in it.
    yield from cut.until("think", min(ns(turn.call.scheduled_at), end))
    yield from _call(turn.call, cut, min([*(ns(t.started_at) for t in turn.tools), end]))
    for tool, begin, stop in _critical(turn.tools, cut.at, end):
        yield from cut.until("client", begin)
        yield from _tool(tool, cut, stop)
    yield from cut.until("client", end)


def _tool(tool: ToolSpan, cut: _Cutter, end: int) -> Iterator[Span]:
    for agent, begin, stop in _critical(tool.loops, cut.at, end):
        yield from cut.until("tools", begin)
        for span in _loop(agent, cut.at, stop, agent.loop.id):
            yield Span(span.part, span.start, span.end, cut.turn, span.agent)
        cut.at = max(cut.at, stop)
    yield from cut.until("tools", end)


def _call(call: Call, cut: _Cutter, end: int) -> Iterator[Span]:
    """One request; `end` is where something else begins if it never ended."""
    if not call.ok:
        yield from cut.until("failed", end if call.end_at is None else min(end, ns(call.end_at)))
        return
    told = ns(call.waited_s)
    sent = _first(call.sent_at, call.slot_at, call.scheduled_at)
    yield from cut.until("slots", min(end, ns(_first(call.slot_at, call.scheduled_at))))
    if told and told <= ns(sent) - cut.at:
        # Only the try that was answered is stamped: it was told to wait before it was sent.
        yield from cut.until("limits", cut.at + told)
        told = 0
    yield from cut.until("client", min(end, ns(sent)))
    done = ns(_first(call.end_at, call.last_at, call.first_at, sent))
    last = ns(_first(call.last_at, call.end_at, sent))
    yield from cut.until("limits", min(end, last, cut.at + told))
    yield from _answer(call, cut, min(end, last))
    yield from cut.until("network", min(end, done))


def _answer(call: Call, cut: _Cutter, last: int) -> Iterator[Span]:
    """From sending to the last content."""
    server = call.server
    first = min(last, last if call.first_at is None else ns(call.first_at))
    visible = first if call.first_visible_at is None else min(last, ns(call.first_visible_at))
    if call.first_visible_at is None and call.reasoning_tokens:
        visible = last
    if server.prefill_s is None and server.queue_s is None:
        # An answer in one piece has no first token to tell: all of it was waiting.
        yield from cut.until("waiting", first)
    else:
        begun = _decode_start(call, cut.at, first)
        inside = ns((server.queue_s or 0.0) + (server.prefill_s or 0.0))
        yield from cut.until("network", max(cut.at, begun - inside))
        yield from cut.until("queue", min(begun, cut.at + ns(server.queue_s or 0.0)))
        yield from cut.until("prefill", begun)
        if begun < first:
            visible = begun + _unseen_reasoning(call, first - begun)
    yield from cut.until("reasoning", visible)
    yield from cut.until("output", last)


def _decode_start(call: Call, sent: int, first: int) -> int:
    """When the first token of all was there, of those that the client may not have seen come.

    A whole answer comes at its end, and some dialects hide reasoning: then the time before the
    first content has decoding in it, which is what the server's parts before it leave.
    """
    server = call.server
    whole = call.last_at is None or call.last_at == call.first_at
    if not hides_reasoning(call) and not (whole and (call.output_tokens or 0) > 1):
        return first
    if whole and server.decode_s:
        return max(sent, first - ns(server.decode_s))
    before = (server.overhead_s or 0.0) + (server.queue_s or 0.0) + (server.prefill_s or 0.0)
    return min(first, sent + ns(before))


def _unseen_reasoning(call: Call, decoded: int) -> int:
    """Of the decoding before the first content, what was reasoning (ns)."""
    if not call.reasoning_tokens:
        return 0
    if call.last_at is not None and call.last_at != call.first_at:
        return decoded
    return round(decoded * call.reasoning_tokens / max(call.output_tokens or 0, 1))


@dataclass(slots=True)
class _Cutter:
    """Cuts the time from `at` to `end` into spans; time that runs backwards gives none."""

    at: int
    end: int
    agent: str
    turn: int = 0

    def until(self, part: Part, time: int) -> Iterator[Span]:
        time = min(time, self.end)
        if time > self.at:
            yield Span(part, self.at, time, self.turn, self.agent)
            self.at = time


def _critical(runs: Sequence[_T], start: int, end: int) -> list[tuple[_T, int, int]]:
    """Those on the critical path within start and end, in order, with where each counts."""
    path: list[tuple[_T, int, int]] = []
    until = end
    for run in sorted(runs, key=lambda run: _ended(run, end), reverse=True):
        begin, stop = max(start, ns(run.started_at)), min(until, _ended(run, end))
        if begin < stop and (not path or _ended(run, end) <= path[-1][1]):
            path.append((run, begin, stop))
            until = begin
    return path[::-1]


def _ended(run: _Timed, end: int) -> int:
    return end if run.ended_at is None else ns(run.ended_at)


def _first(*times: float | None) -> float:
    return next(time for time in times if time is not None)


def _last_seen(run: LoopRun) -> float:
    """The last time that anything of the loop is known."""
    known = [run.started_at]
    for turn in run.turns:
        call = turn.call
        stamps = (turn.started_at, turn.ended_at, call.sent_at, call.first_at, call.last_at)
        known += [time for time in (*stamps, call.end_at) if time is not None]
        for tool in turn.tools:
            known += [tool.ended_at, *map(_last_seen, tool.loops)]
    return max(known)
