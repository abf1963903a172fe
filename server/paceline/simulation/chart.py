"""A small writer of line charts as SVG: axes with units, a legend, both light and dark.

Nothing in a chart points outside of it: no fonts, scripts or images are fetched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from paceline.simulation.axis import LETTER, Axis, axis_of, labelled, number

WIDTH, PANEL = 760, 400
"""Of a picture, and the height of one chart in it, without its legend's further lines."""
_LEFT, _RIGHT, _BOTTOM = 84, 24, 58

_STYLE = """
.plc{--bg:#fff;--fg:#1c1e21;--dim:#5c6470;--grid:#e3e6ea;--c0:#0b63c4;--c1:#c2410c;--c2:#15803d;
--c3:#7c3aed;--c4:#b4256b;--c5:#0f766e;font:12px system-ui,sans-serif}
@media(prefers-color-scheme:dark){.plc{--bg:#14171b;--fg:#e8eaed;--dim:#a3abb6;--grid:#2c3138;
--c0:#6cb2ff;--c1:#ff9f66;--c2:#5fd38a;--c3:#c4a5ff;--c4:#ff8cc3;--c5:#5eead4}}
.plc .b{fill:var(--bg)}.plc text{fill:var(--fg)}.plc .d{fill:var(--dim)}.plc .t{font-weight:600;
font-size:14px}.plc .g{stroke:var(--grid)}.plc .a{stroke:var(--dim)}.plc .l{fill:none;
stroke-width:2;stroke-linejoin:round}.plc .n{paint-order:stroke;stroke:var(--bg);stroke-width:4px;
stroke-linejoin:round}
"""
COLOURS = 6
"""After so many a colour comes again."""
GREY = -1
"""The colour of what is there to compare with."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve. `marks` draws its points too; `colour` is a place in the palette.

    Points alone, for a scatter plot, are drawn without `joined`.
    """

    label: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    dashed: bool = False
    marks: bool = False
    joined: bool = True


@dataclass(frozen=True, slots=True)
class Note:
    """A word at a point of the chart."""

    x: float
    y: float
    text: str
    colour: int = 0


@dataclass(frozen=True, slots=True)
class Chart:
    """One panel: what is on its axes (with units), its curves and its notes."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    notes: Sequence[Note] = ()
    x_log: bool = False
    y_log: bool = False


def svg_document(charts: Sequence[Chart], title: str) -> str:
    """An SVG file with the charts one below the other."""
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + svg_element(charts, title) + "\n"


def svg_element(
    charts: Sequence[Chart],
    title: str,
    about: str = "",
    *,
    width: int = WIDTH,
    panel: int = PANEL,
) -> str:
    """The same as an element for an HTML page; `about` is read to those who can't see it."""
    heights = [panel + 18 * (len(_legend_rows(chart, width)) - 1) for chart in charts]
    body, top = [], 0
    for chart, height in zip(charts, heights, strict=True):
        body.append(f'<g transform="translate(0 {top})">{_panel(chart, width, height)}</g>')
        top += height
    described = f"<desc>{escape(about)}</desc>" if about else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plc" viewBox="0 0 {width} {top}" '
        f'width="{width}" height="{top}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{described}<style>{_STYLE}</style>"
        f'<rect class="b" width="{width}" height="{top}"/>{"".join(body)}</svg>'
    )


def _legend_rows(chart: Chart, width: int) -> list[list[Line]]:
    """The legend's entries in rows that fit the width."""
    rows: list[list[Line]] = [[]]
    used = 0.0
    for line in chart.lines:
        taken = 40 + len(line.label) * LETTER
        if rows[-1] and used + taken > width - _LEFT - _RIGHT:
            rows.append([])
            used = 0.0
        rows[-1].append(line)
        used += taken
    return rows


def _panel(chart: Chart, width: int, height: int) -> str:
    rows = _legend_rows(chart, width)
    top = 46 + 18 * len(rows)
    points = [p for line in chart.lines for p in line.points]
    x = axis_of([p[0] for p in points], chart.x_log, _LEFT, width - _RIGHT)
    y = axis_of([p[1] for p in points], chart.y_log, height - _BOTTOM, top)
    parts = [f'<text class="t" x="{_LEFT}" y="24">{escape(chart.title)}</text>']
    for i, row in enumerate(rows):
        parts.append(_legend(row, 44 + 18 * i))
    for tick in y.ticks:
        at = f"{y.at(tick):.1f}"
        parts.append(
            f'<path class="g" d="M{_LEFT} {at}H{width - _RIGHT}"/>'
            f'<text class="d" x="{_LEFT - 8}" y="{at}" dy=".35em" text-anchor="end">'
            f"{number(tick)}</text>"
        )
    for tick in labelled(x, 10.0):
        at, bottom = f"{x.at(tick):.1f}", height - _BOTTOM
        parts.append(
            f'<path class="a" d="M{at} {bottom}v5"/><text class="d" x="{at}" y="{bottom + 19}" '
            f'text-anchor="middle">{number(tick)}</text>'
        )
    parts.append(f'<path class="a" d="M{_LEFT} {height - _BOTTOM}H{width - _RIGHT}"/>')
    middle = (top + height - _BOTTOM) / 2
    parts.append(
        f'<text x="{(width - _RIGHT + _LEFT) / 2}" y="{height - 14}" text-anchor="middle">'
        f"{escape(chart.x_label)}</text>"
        f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(chart.y_label)}</text>"
    )
    parts += [_curve(line, x, y) for line in chart.lines]
    parts += [_note(note, x, y, width) for note in chart.notes if math.isfinite(note.y)]
    return "".join(parts)


def _legend(row: Sequence[Line], top: float) -> str:
    parts, left = [], float(_LEFT)
    for line in row:
        sign = f'<path class="l" {_stroke(line)} d="M{left:.0f} {top - 4}h22"/>'
        if not line.joined:
            sign = f'<circle {_fill(line.colour)} cx="{left + 11:.0f}" cy="{top - 4}" r="4"/>'
        parts.append(f'{sign}<text x="{left + 28:.0f}" y="{top}">{escape(line.label)}</text>')
        left += 40 + len(line.label) * LETTER
    return "".join(parts)


def _stroke(line: Line) -> str:
    dash = ' stroke-dasharray="5 4"' if line.dashed else ""
    return f'style="stroke:{_paint(line.colour)}"{dash}'


def _fill(colour: int) -> str:
    return f'style="fill:{_paint(colour)}"'


def _paint(colour: int) -> str:
    return "var(--dim)" if colour == GREY else f"var(--c{colour % COLOURS})"


def _curve(line: Line, x: Axis, y: Axis) -> str:
    shown = [(a, b) for a, b in line.points if math.isfinite(b) and (b > 0 or not y.log)]
    points = [(x.at(a), y.at(b)) for a, b in shown]
    if not points:
        return ""
    path = "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
    marks = ""
    if line.marks or not line.joined or len(points) == 1:
        colour, size = _fill(line.colour), 3 if line.joined else 4
        marks = "".join(
            f'<circle {colour} cx="{a:.1f}" cy="{b:.1f}" r="{size}"/>' for a, b in points
        )
    if not line.joined:
        return marks
    return f'<path class="l" {_stroke(line)} d="M{path}"/>{marks}'


def _note(note: Note, x: Axis, y: Axis, width: int) -> str:
    left, top = x.at(note.x), y.at(note.y)
    end = left + 10 + len(note.text) * LETTER > width - _RIGHT
    anchor, shift = ("end", -7) if end else ("start", 7)
    return (
        f'<circle {_fill(note.colour)} cx="{left:.1f}" cy="{top:.1f}" '
        f'r="4"/><text class="n" x="{left + shift:.1f}" y="{top - 8:.1f}" text-anchor="{anchor}">'
        f"{escape(note.text)}</text>"
    )
