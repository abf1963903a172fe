"""A run's report for a terminal: errors first, then what was measured and what it means."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paceline_loadtest.report.compare import METHOD, Comparison
from paceline_loadtest.report.figures import Figures, figures
from paceline_loadtest.report.results import Results
from paceline_loadtest.report.tables import COMPARISON_HEADS, Row, comparison_rows, rows
from paceline_loadtest.report.words import NONE, errors_line, name_of, sentence

_NAMES_WIDTH, _COLUMN_WIDTH = 28, 24
"""Of a terminal, in letters: less for a target, and its numbers would break over lines."""


def print_report(results: Results, console: Console) -> None:
    """Print the report: errors, a column a target, sentences, and what spoils any of it."""
    found = figures(results)
    names = [name_of(one, found) for one in found]
    console.print(_errors(found, names))
    for line in _warnings(results, found, names):
        console.print(line)
    beside = max(1, (console.width - _NAMES_WIDTH) // _COLUMN_WIDTH)
    for first in range(0, len(found), beside):
        part = slice(first, first + beside)
        console.print(_table(results, rows(found), names, part))
    for one in found:
        console.print(Text(sentence(one)))
    for line in _thresholds(results):
        console.print(line)


def _errors(found: Sequence[Figures], names: Sequence[str]) -> Text:
    bad = any(one.failed for one in found)
    text = Text(errors_line(found), style="bold red" if bad else "bold green")
    for one, name in zip(found, names, strict=True):
        for kind, count in one.errors.items():
            text.append(f"\n  {name}: {count:,} × {kind}", style="red")
        for why, count in one.stopped.items():
            loops = "loop" if count == 1 else "loops"
            text.append(f"\n  {name}: {count:,} {loops} stopped: {why}", style="red")
    return text


def _warnings(results: Results, found: Sequence[Figures], names: Sequence[str]) -> list[Text]:
    lines = []
    if not results.info.complete:
        lines.append(Text("Broken off: these are the results up to then.", style="bold yellow"))
    for one, name in zip(found, names, strict=True):
        late = one.run.lateness
        if late is not None and late.spoils is not None:
            lines.append(Text(f"SPOILED  {name}: {late.spoils}", style="bold white on red"))
        lines += [Text(f"{name}: {note}", style="yellow") for note in one.run.notes]
    lines += [Text(note, style="dim") for note in results.info.notes]
    return lines


def _table(results: Results, lines: Sequence[Row], names: Sequence[str], part: slice) -> Table:
    """Some of the targets beside each other: as many as the terminal is wide."""
    info = results.info
    table = Table(
        title=Text(f"{info.scenario} · {info.client} · {info.dialect} · seed {info.seed}"),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("", no_wrap=True)
    for name in names[part]:
        table.add_column(Text(name), justify="right")
    for label, cells in lines:
        table.add_row(label, *map(Text, cells[part]))
    return table


def _thresholds(results: Results) -> list[Text]:
    lines = []
    styles = {"failed": "bold red", "passed": "green", "unknown": "yellow"}
    for one in results.thresholds:
        value = NONE if one.value is None else f"{one.value:g}"
        where = f" on {one.target}" if one.target is not None else ""
        words = f"--fail-if {one.rule!r}{where}: {one.outcome} (measured {value})"
        lines.append(Text(words, style=styles[one.outcome]))
    return lines


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print what differs between two runs: a table a target, a metric a line."""
    title = f"{comparison.before.info.started} → {comparison.after.info.started}"
    console.print(Text(title, style="bold"))
    of_target: dict[str, list[list[str]]] = {}
    for target, *line in comparison_rows(comparison):
        of_target.setdefault(target, []).append(line)
    for target, lines in of_target.items():
        console.print(_differences(target, lines))
    if of_target:
        console.print(Text(f"Noise: {METHOD}; pairs are the same loops in both.", style="dim"))
    for note in comparison.notes:
        console.print(Text(note, style="yellow"))
    for name in comparison.only:
        console.print(Text(f"Only in one run: {name}", style="yellow"))


def _differences(target: str, lines: Sequence[Sequence[str]]) -> Table:
    # How many loops there were stands in the title: of a target they are nearly always as many.
    loops = COMPARISON_HEADS.index("loops") - 1
    counts = ", ".join(dict.fromkeys(line[loops] for line in lines))
    table = Table(
        title=Text(f"{target} · loops: {counts}"),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    heads = COMPARISON_HEADS[1:]
    for i, head in enumerate(heads):
        if i != loops:
            words = i in {0, len(heads) - 1}
            table.add_column(head, justify="left" if words else "right", no_wrap=not words)
    for line in lines:
        table.add_row(*(Text(cell) for i, cell in enumerate(line) if i != loops))
    return table
