"""A run's report as one HTML file that fetches nothing: figures, pictures, and what they say.

It is well-formed XML too, so that a parser can check it. Whatever came from outside (labels,
errors, names) is escaped where it is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape

from paceline.simulation.chart import svg_element
from paceline_loadtest.model import LoopRun
from paceline_loadtest.report import plots, waterfall
from paceline_loadtest.report.bars import NARROW, WIDE, Bar, bars_svg
from paceline_loadtest.report.breakdown import NAMES
from paceline_loadtest.report.compare import METHOD, Comparison
from paceline_loadtest.report.figures import Figures, figures
from paceline_loadtest.report.gains import loops_done
from paceline_loadtest.report.head import head, table
from paceline_loadtest.report.plots import Plot
from paceline_loadtest.report.results import Results
from paceline_loadtest.report.style import STYLE
from paceline_loadtest.report.tables import COMPARISON_HEADS, comparison_rows, rows
from paceline_loadtest.report.words import name_of, percent, seconds, shown_parts

_NO_TEXT = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no document may hold; a server may have sent them in an error."""

_CHART_WIDTH, _CHART_HEIGHT = 440, 330
_WORDS = (
    ("task", "a whole loop, from its first request to the end of its last answer or tool"),
    ("TTFT", "from when a request should have been made to its first content of any kind"),
    ("TPOT", "(last content − first content) / (tokens − 1) of a request"),
    ("gap ITL", "between two chunks as they came in; a chunk may hold several tokens"),
    ("E2E", "from when a request should have been made to its last content"),
    ("p50 / p90 / p99", "half, 90 % and 99 % of the values are at most this; of rates, at least"),
    (
        "the most it could be",
        "the speed-up if every request took no time at all: tools and think time stay (Amdahl)",
    ),
    ("waiting for a client slot", "a request was due, but the client had as many open as it may"),
)


def html_report(results: Results, compared: Comparison | None = None) -> str:
    """The page. With a comparison whose later run this is, what differs stands in it too."""
    found = figures(results)
    shown = one_each(found)
    title = f"Load test: {results.info.scenario}"
    body = [
        head(results, found, shown),
        _table(found),
        _compared(compared) if compared is not None else "",
        _where_time_went(shown, _load(found, shown)),
        _waterfalls(shown),
        _section("How requests were answered", plots.distributions(shown), _load(found, shown)),
        _section("More users", plots.users(found)),
        _section("What speed gains, and costs", [plots.speedups(shown), plots.costs(shown)]),
        _section("Predicted and measured", [plots.predictions(shown)]),
        _glossary(),
    ]
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"/>'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )
    return _NO_TEXT.sub("\ufffd", page)


def one_each(found: Sequence[Figures]) -> list[Figures]:
    """Every target once: under the load that came first."""
    kept: dict[str, Figures] = {}
    for one in found:
        kept.setdefault(one.run.label, one)
    return list(kept.values())


def _load(found: Sequence[Figures], shown: Sequence[Figures]) -> str:
    if len(found) == len(shown):
        return ""
    return f"Of several loads this is the first one: {shown[0].run.load}."


def _table(found: Sequence[Figures]) -> str:
    heads = ["", *(name_of(one, found) for one in found)]
    lines = [[label, *cells] for label, cells in rows(found)]
    note = "Means and percentiles are of successes only. Three numbers are p50 / p90 / p99."
    return f"<h2>Figures</h2>{table([heads, *lines], note)}"


def _where_time_went(shown: Sequence[Figures], note: str) -> str:
    with_time = [one for one in shown if one.parts is not None and one.parts.total]
    bars = [Bar(one.run.label, one.parts) for one in with_time if one.parts is not None]
    if not bars:
        return ""
    parts = shown_parts(with_time)
    lines = [["", "task, mean", *(NAMES[part] for part in parts)]]
    for one in with_time:
        if one.parts is None:
            continue
        held = one.parts
        cells = [f"{seconds(held.seconds(p))} ({percent(held.share(p))})" for p in parts]
        lines.append([one.run.label, seconds(held.total / 1e9), *cells])
    title = "Where the time of a task went"
    picture = "The mean task, cut into parts"
    svgs = [bars_svg(bars, picture, width) for width in (WIDE, NARROW)]
    return (
        f"<h2>{title}</h2><p class='note'>Along the critical path: where tools or sub-agents ran "
        f"side by side, the one that ended last counts. {escape(note)}</p>"
        f"{_figure(svgs, lines)}"
    )


def _waterfalls(shown: Sequence[Figures]) -> str:
    """The same loop on the base and on the fastest of the others; the rest are folded."""
    chosen = [(one, run) for one in shown if (run := _typical(shown[0], one)) is not None]
    if not chosen:
        return ""
    fastest = min((one for one, _ in chosen[1:]), key=_task_s, default=None)
    drawn = []
    for one, run in chosen:
        title = f"Loop {run.loop.id} on {one.run.label}: {seconds(run.seconds)}"
        svgs = [waterfall.waterfall_svg(run, title, width) for width in (WIDE, NARROW)]
        picture = _figure(svgs, waterfall.table(run))
        if one is not chosen[0][0] and one is not fastest:
            picture = f"<details><summary>{escape(title)}</summary>{picture}</details>"
        drawn.append(picture)
    return (
        "<h2>One loop, turn by turn</h2><p class='note'>The loop whose time on the base is the "
        "median. Each picture has a time axis of its own; a lane below a turn is a sub-agent.</p>"
        f"{''.join(drawn)}"
    )


def _task_s(one: Figures) -> float:
    return one.task.mean if one.task is not None else math.inf


def _typical(base: Figures, one: Figures) -> LoopRun | None:
    """The loop that is the median on the base, as it ran here; or else this target's median."""
    ordered = sorted(loops_done(base.run), key=lambda run: run.seconds or 0.0)
    own = sorted(loops_done(one.run), key=lambda run: run.seconds or 0.0)
    if ordered:
        wanted = ordered[(len(ordered) - 1) // 2].loop.id
        for run in own:
            if run.loop.id == wanted:
                return run
    return own[(len(own) - 1) // 2] if own else None


def _section(title: str, found: Sequence[Plot | None], note: str = "") -> str:
    drawn = [plot for plot in found if plot is not None]
    if not drawn:
        return ""
    words = f"<p class='note'>{escape(note)}</p>" if note else ""
    shown = [_plot(plot) for plot in drawn]
    if len(drawn) % 2:
        # What would be an empty half holds the last one's numbers.
        last = drawn[-1]
        shown[-1] = _plot(last, numbers=False)
        shown.append(f"<div class='beside'>{table(last.table)}</div>")
    return f"<h2>{escape(title)}</h2>{words}<div class='grid'>{''.join(shown)}</div>"


def _plot(plot: Plot, *, numbers: bool = True) -> str:
    told = "; ".join(", ".join(cell for cell in line if cell) for line in plot.table)
    svg = svg_element(
        [plot.chart],
        plot.chart.title,
        f"{plot.about} {told}".strip(),
        width=_CHART_WIDTH,
        panel=_CHART_HEIGHT,
    )
    about = f"<figcaption>{escape(plot.about)}</figcaption>" if plot.about else ""
    return f"<figure>{svg}{about}{_numbers(plot.table) if numbers else ''}</figure>"


def _figure(svgs: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A picture in both widths, of which a screen shows one, and its numbers."""
    wide, narrow = svgs
    return (
        f"<figure><div class='wide'>{wide}</div><div class='narrow'>{narrow}</div>"
        f"{_numbers(lines)}</figure>"
    )


def _numbers(lines: Sequence[Sequence[str]]) -> str:
    return f"<details><summary>The numbers</summary>{table(lines)}</details>"


def _compared(comparison: Comparison) -> str:
    before, after = comparison.before.info, comparison.after.info
    words = (
        f"{before.scenario} of {before.started} before, {after.scenario} of {after.started} after."
    )
    told = [*comparison.notes, *(f"Only in one: {name}" for name in comparison.only)]
    only = "".join(f"<p class='note'>{escape(text)}</p>" for text in told)
    shown = table(
        [COMPARISON_HEADS, *comparison_rows(comparison)],
        f"Noise: {METHOD}; paired where both ran the same loops.",
        "words",
    )
    return f"<h2>Against the earlier run</h2><p class='note'>{escape(words)}</p>{shown}{only}"


def _glossary() -> str:
    words = "".join(f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>" for word, text in _WORDS)
    return f"<h2>Words</h2><dl>{words}</dl>"
