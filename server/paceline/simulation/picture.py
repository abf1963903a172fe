"""The pictures of a simulation: throughput against speed, and the first token over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from paceline.core.percentile import percentile
from paceline.core.profile import Profile
from paceline.simulation.arrivals import Job, Workload
from paceline.simulation.chart import Chart, Line, Note, svg_element
from paceline.simulation.run import Run, first_lengths, run_closed

_BUCKETS = 60
_MOST_USERS = 8192
_USERS_UNLIMITED = 1024
_TURNS = 4
"""Requests a user asks at each point of the curve."""


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """One replica with so many users: tokens a second for each while served, and in all."""

    users: int
    user_tok_s: float
    replica_tok_s: float


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Requests of known lengths, over and over, for users in a closed loop."""

    lengths: Sequence[tuple[int, int]]
    requests: int

    def jobs(self, profile: Profile) -> Iterator[Job]:
        for i in range(self.requests):
            prompt, output = self.lengths[i % len(self.lengths)]
            yield 0, prompt, output, ()

    def describe(self) -> dict[str, Any]:
        return {"kind": "lengths", "requests": self.requests}


def pareto(profile: Profile, workload: Workload) -> list[ParetoPoint]:
    """One replica under 1, 2, 4, … users in a closed loop, up to twice its slots.

    Lengths are the workload's, without its prompt cache. The rate in all is the users' mean
    output over their mean E2E latency, which holds in any closed loop (Little's law).
    """
    if profile.kind != "engine":
        return []
    one = replace(profile, engine=replace(profile.engine, replicas=1))
    slots = max(int(one.engine.max_num_seqs - one.tenants.running), 0)
    most = min(2 * slots or _USERS_UNLIMITED, _MOST_USERS)
    users = sorted({*(1 << i for i in range(most.bit_length())), min(slots or 1, most), most})
    lengths = first_lengths(profile, workload, 4096)
    if not lengths:
        return []
    runs = ((n, run_closed(one, _Lengths(lengths, _TURNS * n), n)) for n in users)
    found = (_point(run, count) for count, run in runs)
    return [point for point in found if point is not None]


def _point(run: Run, users: int) -> ParetoPoint | None:
    decode_ns = sum(run.end) - sum(run.first)
    whole_ns = sum(run.end) - sum(run.received)
    if decode_ns <= 0 or whole_ns <= 0:
        return None
    steps = sum(run.output) - len(run)
    return ParetoPoint(users, steps / decode_ns * 1e9, users * sum(run.output) / whole_ns * 1e9)


def pareto_chart(curves: Sequence[tuple[str, Sequence[ParetoPoint]]]) -> Chart:
    """Throughput a replica against speed a user: every profile's curve over its users."""
    lines, notes = [], []
    for i, (name, points) in enumerate(curves):
        places = [(p.user_tok_s, p.replica_tok_s) for p in points]
        lines.append(Line(name, places, i, marks=True))
        if points:
            fullest = max(points, key=lambda p: p.replica_tok_s)
            text = f"{fullest.users:,} users"
            notes.append(Note(fullest.user_tok_s, fullest.replica_tok_s, text, i))
    return Chart(
        title="Throughput a replica against speed a user",
        x_label="speed of one user while served (output tokens a second)",
        y_label="one replica (output tokens a second)",
        lines=lines,
        notes=notes,
        x_log=True,
        y_log=True,
    )


def ttft_chart(runs: Sequence[Run]) -> Chart:
    """The time to first token over the time of arrival, p50 and p99 of each stretch of time."""
    lines = []
    for i, run in enumerate(runs):
        for percent, dashed in ((50.0, False), (99.0, True)):
            points = _over_time(run, percent)
            # A logarithmic axis has no place for 0.
            nothing = "" if any(ttft > 0 for _, ttft in points) else " (0 ms)"
            label = f"{run.profile.name} p{percent:g}{nothing}"
            lines.append(Line(label, points, i, dashed))
    return Chart(
        title="Time to first token over time",
        x_label="time of arrival (s)",
        y_label="TTFT (ms)",
        lines=lines,
        y_log=True,
    )


def _over_time(run: Run, percent: float) -> list[tuple[float, float]]:
    if not len(run):
        return []
    begin = min(run.received)
    width = max((max(run.received) - begin) / _BUCKETS, 1.0)
    buckets: list[list[float]] = [[] for _ in range(_BUCKETS + 1)]
    for received, first in zip(run.received, run.first, strict=True):
        buckets[int((received - begin) / width)].append((first - received) / 1e6)
    return [
        ((begin + (i + 0.5) * width) / 1e9, percentile(sorted(bucket), percent))
        for i, bucket in enumerate(buckets)
        if bucket
    ]


_PAGE_STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
svg{max-width:100%;height:auto}table{border-collapse:collapse;margin:1rem 0}
th,td{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #8886}
th:first-child,td:first-child{text-align:left}
"""


def html_page(
    title: str, charts: Sequence[Chart], rows: Sequence[Sequence[str]], words: Sequence[str] = ()
) -> str:
    """A page with the charts and a table (its first row the heads); it fetches nothing."""
    table = ""
    if rows:
        head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows[1:]
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    text = "".join(f"<p>{escape(word)}</p>" for word in words)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_PAGE_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>{text}\n"
        f"{svg_element(charts, title)}\n{table}</body></html>\n"
    )
