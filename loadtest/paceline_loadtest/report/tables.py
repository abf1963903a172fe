"""The figures as rows of a table: a name, and a cell for each target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial

from paceline_loadtest.report.breakdown import NAMES, Part
from paceline_loadtest.report.compare import SAME, Comparison, Difference
from paceline_loadtest.report.figures import Figures
from paceline_loadtest.report.quantiles import Quantiles
from paceline_loadtest.report.words import (
    NONE,
    dollars,
    in_seconds,
    milliseconds,
    percent,
    rate,
    seconds,
    shown_parts,
    signed_percent,
    times,
)

Row = tuple[str, list[str]]
SUCCESSES = "successes only, p50 / p90 / p99"
"""What stands above the rows of percentiles."""
COMPARISON_HEADS = (
    "target",
    "metric",
    "before",
    "after",
    "change",
    "95 % interval",
    "loops",
    "in a word",
)


def rows(found: Sequence[Figures]) -> list[Row]:
    """The table's rows; one in which nobody has a figure is left out."""
    table: list[Row] = []

    def row(label: str, cell: Callable[[Figures], str | None]) -> None:
        cells = [cell(one) for one in found]
        if any(text is not None for text in cells):
            table.append((label, [NONE if text is None else text for text in cells]))

    row("loops to their end", lambda f: f"{f.finished:,} of {len(f.run.loops):,}")
    row("requests", lambda f: f"{f.requests:,}")
    row("failed", lambda f: f"{f.failed:,} ({percent(f.error_rate)})")
    row("retries", lambda f: f"{f.retries:,}" if f.retries else None)
    row("task, mean", lambda f: seconds(f.task.mean) if f.task else None)
    row("task, p50 / p90 / p99", lambda f: _three(f.task, seconds))
    for part in shown_parts(found):
        row(f"  {NAMES[part]}", partial(_part, part))
    table.append((SUCCESSES, ["" for _ in found]))
    row("  TTFT", lambda f: _three(f.ttft, milliseconds))
    row("  TPOT", lambda f: _three(f.tpot, milliseconds))
    row("  gap ITL", lambda f: _three(f.gap, milliseconds))
    row("  E2E of a request", lambda f: _three(f.e2e, seconds))
    row("  tok/s of a stream", lambda f: _three(f.speed, rate))
    row("tok/s in all", lambda f: rate(f.throughput) if f.throughput else None)
    row("cost per task", _cost)
    row("credits per task", _credits)
    row("price of a second saved", _saved)
    row("speed-up of the task", _gain)
    row("  of the tokens", lambda f: times(f.speedup.tokens) if f.speedup else None)
    row("  the most it could be", _most)
    row(
        "predicted task, mean",
        lambda f: seconds(f.prediction.predicted_s) if f.prediction else None,
    )
    row(
        "  measured against it",
        lambda f: signed_percent(f.prediction.difference) if f.prediction else None,
    )
    row("waited for a client slot", _slots)
    row("client late, p99", _late)
    row("client's cost a call", _call_cost)
    return table


def _three(found: Quantiles | None, write: Callable[[float | None], str]) -> str | None:
    if found is None:
        return None
    values = (found.p50, found.p90, found.p99)
    if write is seconds and found.p99 >= 1.0:
        # One unit for the three of them.
        texts = [in_seconds(value) for value in values]
    else:
        texts = [write(value) for value in values]
    units = {text.partition(" ")[2] for text in texts}
    if len(units) == 1 and "" not in units:
        unit = units.pop()
        return f"{' / '.join(text.partition(' ')[0] for text in texts)} {unit}"
    return " / ".join(texts)


def _part(part: Part, found: Figures) -> str | None:
    if found.parts is None or part not in found.parts.parts:
        return None
    return f"{seconds(found.parts.seconds(part))} ({percent(found.parts.share(part))})"


def _cost(found: Figures) -> str | None:
    if not found.finished:
        # What a whole task costs isn't known, whether a rate is published or not.
        return None
    return dollars(found.money.task_usd if found.money else None)


def _gain(found: Figures) -> str | None:
    if found.speedup is None:
        return "base" if found.is_base else None
    return times(found.speedup.task)


def _credits(found: Figures) -> str | None:
    if found.money is None or found.money.task_credits is None:
        return None
    return f"{found.money.task_credits:,.3f}"


def _saved(found: Figures) -> str | None:
    money = found.money
    if money is None:
        return None
    if money.saved_usd_s is not None:
        return dollars(money.saved_usd_s)
    return None if money.saved_credits_s is None else f"{money.saved_credits_s:,.4f} credits"


def _most(found: Figures) -> str | None:
    if found.speedup is None:
        return None
    return "no bound" if found.speedup.most is None else times(found.speedup.most)


def _slots(found: Figures) -> str:
    waits = found.slot_waits
    if waits is None:
        return "none"
    return f"{waits.count:,} of {found.requests:,}, p99 {seconds(waits.p99)}"


def _late(found: Figures) -> str | None:
    late = found.run.lateness
    if late is None:
        return None
    mark = " SPOILED" if late.spoils is not None else ""
    return f"{milliseconds(late.p99_s)}{mark}"


def _call_cost(found: Figures) -> str | None:
    cost = found.run.client_cost_s
    return None if cost is None else milliseconds(cost)


def comparison_rows(comparison: Comparison) -> list[list[str]]:
    """A row a difference, as `COMPARISON_HEADS` says."""
    return [
        [
            one.target,
            one.metric,
            _value(one, one.before),
            _value(one, one.after),
            _change(one, one.change),
            _interval(one),
            f"{one.loops:,}{' pairs' if one.paired else ''}",
            one.word,
        ]
        for one in comparison.differences
    ]


def _value(one: Difference, value: float) -> str:
    if one.unit == "share":
        return percent(value)
    return dollars(Decimal(repr(value))) if one.unit == "US$" else seconds(value)


def _change(one: Difference, change: float) -> str:
    said = signed_percent(change)
    return said.replace("%", " points") if one.unit == "share" else said


def _interval(one: Difference) -> str:
    if one.low is None or one.high is None or one.word == SAME:
        return NONE
    return f"{_change(one, one.low)} to {_change(one, one.high)}"
