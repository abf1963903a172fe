"""What a load test found, as one JSON document that reads back as it was written.

Times are seconds from the start of the run (`relative` makes them so). The document carries its
version; `summary` in it holds figures worked out from the rest, for other programs to read, and
is worked out anew when the document is read back.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from paceline_loadtest.model import Call, Dialect, LoopRun, Target, ToolSpan, TurnRun
from paceline_loadtest.report.codec import CodecError, Decoder, Encoder
from paceline_loadtest.statistics import calls_of

FORMAT = "paceline-loadtest"
VERSION = 1
_DIGITS = 6
"""Of a second: clocks are read to the microsecond, not better."""

Verdict = Literal["passed", "failed", "unknown"]


class ResultsError(ValueError):
    """A document that can't be read; the message says where and why."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What was run, with what, when."""

    scenario: str
    seed: int
    client: str
    """As in `openai 3.57.0`, or `lean`."""
    dialect: Dialect
    tool_version: str
    started: str
    """ISO 8601 with its offset."""
    stream: bool = True
    complete: bool = True
    """False where the run was broken off; what there was is here."""
    notes: tuple[str, ...] = ()
    """What a reader should know, a sentence each."""
    settings: dict[str, str] = field(default_factory=dict)
    """What the command was told, each by its name; never a key."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the client itself was, in seconds: what one kind of sample comes to.

    `spoils` says why it spoils the run; None where it doesn't.
    """

    count: int
    p50_s: float
    p99_s: float
    max_s: float
    limit_s: float | None = None
    spoils: str | None = None


@dataclass(frozen=True, slots=True)
class Threshold:
    """One `--fail-if` and what came of it; `target` is its label, None for all of them.

    It has failed where what it names came true; unknown where nothing was measured.
    """

    rule: str
    outcome: Verdict
    value: float | None = None
    target: str | None = None


@dataclass(slots=True)
class TargetRun:
    """One target under one load: what was measured and, where it could be, predicted.

    `users` is how many loops ran at once in a closed loop, `rate` the arrivals a second of an open
    one. Costs are each call's `server.cost_usd`; `price_source` says where they are from.
    """

    target: Target
    loops: list[LoopRun]
    predicted: list[LoopRun] = field(default_factory=list)
    """Of the same loops, by id; their times start at each loop's own start."""
    users: int | None = None
    rate: float | None = None
    facts: dict[str, str] = field(default_factory=dict)
    """Of the profile: what to call it, and its value with its unit."""
    lateness: Lateness | None = None
    """The client's own, by the kind that spoils the run or comes closest to it."""
    lateness_kinds: dict[str, Lateness] = field(default_factory=dict)
    """Each kind by its name, where several were measured."""
    client_cost_s: float | None = None
    """What a call costs beyond the server's waiting, measured on an answer that takes no time."""
    seconds: float | None = None
    """How long all of its loops took, from the first's start to the last's end."""
    price_source: str = ""
    notes: tuple[str, ...] = ()
    """A sentence each, as why it ended before its time."""

    def __post_init__(self) -> None:
        # Whatever is kept in a file is kept without the way in.
        self.target = replace(
            self.target, api_key="", base_url=_without_secrets(self.target.base_url)
        )

    @property
    def label(self) -> str:
        """What a report calls the target."""
        return self.target.label

    @property
    def load(self) -> str:
        """How it was loaded, in words; empty where nobody said."""
        if self.users is not None:
            return f"{self.users:,} user{'' if self.users == 1 else 's'}"
        return "" if self.rate is None else f"{self.rate:,g} loops/s"

    def calls(self) -> Iterator[Call]:
        """Every request of every loop, sub-agents' too, in the order of the loops."""
        return calls_of(self.loops)


@dataclass(slots=True)
class Results:
    """A whole run. The first target is the base that the others are compared with."""

    info: RunInfo
    targets: list[TargetRun]
    thresholds: list[Threshold] = field(default_factory=list)


def document(results: Results, summary: list[dict[str, Any]]) -> str:
    """The document with that summary."""
    encoder = Encoder()
    run = encoder.value(results)
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "summary": summary,
        "run": run,
        "loops": encoder.loops,
    }
    return json.dumps(whole, allow_nan=False, separators=(",", ":"))


def from_json(text: str | bytes) -> Results:
    """Read a document back. Raises ResultsError for what isn't one, naming the place."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"not JSON: {error}") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise ResultsError(f"not the results of a load test: no format {FORMAT!r}")
    if whole.get("version") != VERSION:
        raise ResultsError(f"version {whole.get('version')!r} of the results; known: {VERSION}")
    loops = whole.get("loops")
    if not isinstance(loops, list):
        raise ResultsError("loops: not a list")
    try:
        found: Results = Decoder(loops).value(Results, whole.get("run"), "run")
    except CodecError as error:
        raise ResultsError(str(error)) from None
    return found


def relative(runs: Iterable[LoopRun], origin: float) -> list[LoopRun]:
    """Copies of the runs with times from `origin` (the run's start, same clock), to the µs."""
    return [_loop(run, origin) for run in runs]


def _loop(run: LoopRun, origin: float) -> LoopRun:
    def at(time: float) -> float:
        return round(time - origin, _DIGITS)

    def maybe(time: float | None) -> float | None:
        return None if time is None else at(time)

    def call_of(call: Call) -> Call:
        return replace(
            call,
            scheduled_at=at(call.scheduled_at),
            slot_at=maybe(call.slot_at),
            sent_at=maybe(call.sent_at),
            headers_at=maybe(call.headers_at),
            first_at=maybe(call.first_at),
            first_visible_at=maybe(call.first_visible_at),
            last_at=maybe(call.last_at),
            end_at=maybe(call.end_at),
            chunk_at=array("d", map(at, call.chunk_at)),
            server=replace(call.server),
        )

    def tool_of(tool: ToolSpan) -> ToolSpan:
        agents = [_loop(agent, origin) for agent in tool.loops]
        return ToolSpan(tool.name, at(tool.started_at), at(tool.ended_at), agents)

    turns = [
        TurnRun(at(t.started_at), call_of(t.call), [*map(tool_of, t.tools)], maybe(t.ended_at))
        for t in run.turns
    ]
    return LoopRun(run.loop, at(run.started_at), turns, maybe(run.ended_at), run.stopped)


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
