"""The charts of a page: distributions, users, money, speed-up, and the prediction.

Each comes with the numbers that are in it, as a table for those who would rather read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from paceline.core.percentile import percentile
from paceline.simulation.chart import COLOURS, GREY, Chart, Line, Note
from paceline_loadtest.model import Call
from paceline_loadtest.report.figures import Figures
from paceline_loadtest.report.gains import loops_done, predicted_pairs
from paceline_loadtest.report.quantiles import Quantiles
from paceline_loadtest.report.words import (
    NONE,
    dollars,
    milliseconds,
    name_of,
    percent,
    rate,
    seconds,
    signed_percent,
    times,
)
from paceline_loadtest.statistics import gaps, tpot, ttft

_STEPS = 200
_LEAST_PRICED = 2
_LEAST_MS = 0.01
"""Where a logarithmic axis of ms may begin: chunks of one read are some µs apart."""
_MOST_POINTS = 300
"""Of a scatter plot, for each target."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart, what it says in a sentence, and its numbers (the first row the heads)."""

    chart: Chart
    about: str
    table: Sequence[Sequence[str]]


def distributions(found: Sequence[Figures]) -> list[Plot]:
    """How TTFT, TPOT and the gaps between chunks are spread."""
    kinds: tuple[tuple[str, str, str, Callable[[Call], Iterable[float]]], ...] = (
        ("Time to first token (TTFT)", "TTFT (ms)", "requests", _single(ttft)),
        ("Time per output token (TPOT)", "TPOT (ms)", "requests", _single(tpot)),
        ("Gaps between chunks (gap ITL)", "gap between two chunks (ms)", "gaps", gaps),
    )
    plots = []
    for title, x_label, counted, measure in kinds:
        lines, rows = [], [["", counted, "mean", "p50", "p90", "p99", "most"]]
        for i, one in enumerate(found):
            calls = (call for call in one.run.calls() if call.ok)
            values = sorted(v * 1e3 for call in calls for v in measure(call))
            whole = Quantiles.of(v / 1e3 for v in values)
            name = name_of(one, found)
            if whole is None:
                continue
            # A logarithmic axis has no place for 0.
            shown = [max(v, _LEAST_MS) for v in values]
            lines.append(Line(name, ecdf(shown), i, dashed=i >= COLOURS))
            cells = (whole.mean, whole.p50, whole.p90, whole.p99, whole.max)
            rows.append([name, f"{whole.count:,}", *map(milliseconds, cells)])
        if lines:
            chart = Chart(title, x_label, f"{counted} at most that long (%)", lines, x_log=True)
            plots.append(Plot(chart, "Further left is faster; upright is steady.", rows))
    return plots


def ecdf(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """The share of the values (%) up to each, in a bounded number of points."""
    count = len(ordered)
    if count <= _STEPS:
        points = [(ordered[0], 0.0)]
        for i, value in enumerate(ordered):
            points += [(value, 100.0 * i / count), (value, 100.0 * (i + 1) / count)]
        return points
    shares = [100.0 * i / _STEPS for i in range(_STEPS + 1)]
    return [(percentile(ordered, share), share) for share in shares]


def users(found: Sequence[Figures]) -> list[Plot]:
    """Throughput, and the speed of one stream, against users; where several counts were run."""
    labels = list(dict.fromkeys(one.run.label for one in found))
    loads: dict[str, list[Figures]] = {label: [] for label in labels}
    for one in found:
        if one.run.users is not None:
            loads[one.run.label].append(one)
    loads = {label: sorted(held, key=_users) for label, held in loads.items() if len(held) > 1}
    if not loads:
        return []
    rows = [["", "users", "tok/s in all", "tok/s of a stream, p50", "TTFT p50", "task, mean"]]
    throughput, speed, ttfts = [], [], []
    for i, label in enumerate(labels):
        held = loads.get(label, [])
        throughput.append(_against_users(label, i, held, lambda one: one.throughput))
        speed.append(_against_users(label, i, held, _stream_speed))
        ttfts.append(_against_users(label, i, held, _ttft_ms))
        rows += [
            [
                label,
                f"{one.run.users:,}",
                rate(one.throughput),
                rate(one.speed.p50 if one.speed else None),
                milliseconds(one.ttft.p50 if one.ttft else None),
                seconds(one.task.mean if one.task else None),
            ]
            for one in held
        ]
    charts = (
        ("Throughput against users", "all streams (output tok/s)", throughput, True),
        ("Speed of one stream against users", "one stream, p50 (tok/s)", speed, True),
        ("TTFT against users", "TTFT, p50 (ms)", ttfts, True),
    )
    return [
        Plot(Chart(title, "users at once", y_label, lines, x_log=True, y_log=log), "", rows)
        for title, y_label, lines, log in charts
    ]


def costs(found: Sequence[Figures]) -> Plot | None:
    """What a task costs against how long it takes; None where fewer than two are known."""
    lines, notes = [], []
    rows = [["", "task, mean", "cost per task", "price of a second saved"]]
    for i, one in enumerate(found):
        if one.task is None:
            continue
        name = name_of(one, found)
        saved = one.money.saved_usd_s if one.money else None
        cells = [dollars(one.money.task_usd if one.money else None)]
        cells.append(NONE if saved is None else dollars(saved))
        rows.append([name, seconds(one.task.mean), *cells])
        if one.money is None or one.money.task_usd is None:
            continue
        y = float(one.money.task_usd)
        lines.append(Line(name, [(one.task.mean, y)], i, joined=False))
        if saved is not None:
            notes.append(Note(one.task.mean, y, f"{dollars(saved, 2)} a second", i))
    if len(lines) < _LEAST_PRICED:
        return None
    chart = Chart(
        "Cost of a task against its time", "mean time of a task (s)", "cost (US$)", lines, notes
    )
    return Plot(chart, "Beside each point: what a second saved over the base costs.", rows)


def speedups(found: Sequence[Figures]) -> Plot | None:
    """The task's speed-up against the tokens', with the curve of the base and its bound."""
    gained = [
        (i, one, one.speedup)
        for i, one in enumerate(found)
        if one.speedup is not None and one.speedup.tokens is not None
    ]
    if not gained:
        return None
    base = found[0]
    most_tokens = max([2.0, *(gain.tokens or 1.0 for _, _, gain in gained)]) * 1.15
    lines = [
        Line(name_of(one, found), [(gain.tokens or 1.0, gain.task)], i, joined=False)
        for i, one, gain in gained
    ]
    notes = [Note(gain.tokens or 1.0, gain.task, times(gain.task), i) for i, _, gain in gained]
    if base.parts is not None:
        share = base.parts.share("reasoning", "output")
        curve = [(k, amdahl(share, k)) for k in (most_tokens ** (i / 60) for i in range(61))]
        lines.append(Line("only tokens faster (Amdahl)", curve, GREY))
    bound = next((gain.most for _, _, gain in gained if gain.most is not None), None)
    if bound is not None:
        flat = [(1.0, bound), (most_tokens, bound)]
        lines.append(
            Line(f"bound by tools and think time: {times(bound)}", flat, GREY, dashed=True)
        )
    rows = [["", "tokens", "task", "most it could be", "tools and think time", "loops"]]
    rows += [
        [
            name_of(one, found),
            times(gain.tokens),
            times(gain.task),
            "no bound" if gain.most is None else times(gain.most),
            percent(gain.held_by),
            f"{gain.loops:,}",
        ]
        for _, one, gain in gained
    ]
    chart = Chart(
        f"Speed-up of a task over {base.run.label}",
        "tokens: how many times as fast (×)",
        "task: how many times as fast (×)",
        lines,
        notes,
    )
    return Plot(chart, "Above the curve: prefill, queue or the API were faster too.", rows)


def amdahl(share: float, factor: float) -> float:
    """The speed-up of the whole where that share of it gets `factor` times as fast."""
    return 1.0 / (1.0 - share + share / factor)


def predictions(found: Sequence[Figures]) -> Plot | None:
    """Each loop's measured time against its predicted one; None where nothing was predicted."""
    lines, rows = [], [["", "loops", "predicted, mean", "measured, mean", "difference"]]
    every: list[float] = []
    for i, one in enumerate(found):
        pairs = predicted_pairs(one.run, loops_done(one.run))
        if one.prediction is None or not pairs:
            continue
        step = -(-len(pairs) // _MOST_POINTS)
        points = [(p.seconds or 0.0, m.seconds or 0.0) for p, m in pairs[::step]]
        every += [value for point in points for value in point if value > 0.0]
        lines.append(Line(name_of(one, found), points, i, joined=False))
        whole = one.prediction
        rows.append(
            [
                name_of(one, found),
                f"{whole.loops:,}",
                seconds(whole.predicted_s),
                seconds(whole.measured_s),
                signed_percent(whole.difference),
            ]
        )
    if not lines or not every:
        return None
    ends = [(value, value) for value in (min(every) * 0.9, max(every) * 1.1)]
    lines.append(Line("as predicted", ends, GREY, dashed=True))
    chart = Chart(
        "Measured against predicted",
        "predicted time of a loop (s)",
        "measured time (s)",
        lines,
        x_log=True,
        y_log=True,
    )
    return Plot(chart, "A point a loop; on the line the prediction was right.", rows)


def _single(measure: Callable[[Call], float | None]) -> Callable[[Call], Iterable[float]]:
    def found(call: Call) -> Iterable[float]:
        value = measure(call)
        return () if value is None else (value,)

    return found


def _users(one: Figures) -> int:
    return one.run.users or 0


def _stream_speed(one: Figures) -> float | None:
    return one.speed.p50 if one.speed else None


def _ttft_ms(one: Figures) -> float | None:
    return one.ttft.p50 * 1e3 if one.ttft else None


def _against_users(
    label: str, colour: int, held: Sequence[Figures], value: Callable[[Figures], float | None]
) -> Line:
    points = [(float(_users(one)), y) for one in held if (y := value(one)) is not None]
    return Line(label, points, colour, dashed=colour >= COLOURS, marks=True)
