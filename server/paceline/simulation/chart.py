"""A small writer of line charts as SVG: axes with units, a legend, both light and dark.

Nothing in a chart points outside of it: no fonts, scripts or images are fetched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, PANEL = 760, 400
_LEFT, _RIGHT, _BOTTOM = 84, 24, 58
_CHAR = 6.6
"""Width of a letter of the chart's text, as far as that can be known."""

_STYLE = """
.plc{--bg:#fff;--fg:#1c1e21;--dim:#5c6470;--grid:#e3e6ea;--c0:#0b63c4;--c1:#c2410c;--c2:#15803d;
--c3:#7c3aed;--c4:#b4256b;--c5:#0f766e;font:12px system-ui,sans-serif}
@media(prefers-color-scheme:dark){.plc{--bg:#14171b;--fg:#e8eaed;--dim:#a3abb6;--grid:#2c3138;
--c0:#6cb2ff;--c1:#ff9f66;--c2:#5fd38a;--c3:#c4a5ff;--c4:#ff8cc3;--c5:#5eead4}}
.plc .b{fill:var(--bg)}.plc text{fill:var(--fg)}.plc .d{fill:var(--dim)}.plc .t{font-weight:600;
font-size:14px}.plc .g{stroke:var(--grid)}.plc .a{stroke:var(--dim)}.plc .l{fill:none;
stroke-width:2;stroke-linejoin:round}
"""
_COLOURS = 6


@dataclass(frozen=True, slots=True)
class Line:
    """One curve. `marks` draws its points too; `colour` is a place in the palette."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: int = 0
    dashed: bool = False
    marks: bool = False


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


def svg_element(charts: Sequence[Chart], title: str) -> str:
    """The same as an element for an HTML page."""
    heights = [PANEL + 18 * (len(_legend_rows(chart)) - 1) for chart in charts]
    body, top = [], 0
    for chart, height in zip(charts, heights, strict=True):
        body.append(f'<g transform="translate(0 {top})">{_panel(chart, height)}</g>')
        top += height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plc" viewBox="0 0 {WIDTH} {top}" '
        f'width="{WIDTH}" height="{top}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        f'<rect class="b" width="{WIDTH}" height="{top}"/>{"".join(body)}</svg>'
    )


@dataclass(slots=True)
class _Axis:
    """From values to pixels."""

    low: float
    high: float
    log: bool
    start: float
    end: float
    ticks: list[float] = field(default_factory=list)

    def at(self, value: float) -> float:
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            value = math.log(max(value, self.low))
        else:
            low, high = self.low, self.high
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def _axis(values: Sequence[float], log: bool, start: float, end: float) -> _Axis:
    shown = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
    low, high = min(shown), max(shown)
    if log:
        ticks = _log_ticks(low, high)
        return _Axis(min(low, ticks[0]), max(high, ticks[-1]), True, start, end, ticks)
    ticks = _ticks(high)
    return _Axis(0.0, max(ticks[-1], high), False, start, end, ticks)


def _ticks(high: float) -> list[float]:
    """Some five round numbers from 0 to at least `high`."""
    high = high if high > 0 else 1.0
    raw = high / 5
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= raw * (1 - 1e-9))
    return [step * i for i in range(math.ceil(high / step - 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten that enclose the values, with 2s and 5s where they are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    if last - first > 3:
        return [10.0**e for e in range(first, last + 1)]
    fine = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
    begin = max((t for t in fine if t <= low * (1 + 1e-9)), default=fine[0])
    end = min((t for t in fine if t >= high * (1 - 1e-9)), default=fine[-1])
    found = [t for t in fine if begin <= t <= end]
    return found if len(found) > 1 else [begin, begin * 10]


def _number(value: float) -> str:
    if value and abs(value) < 0.01:
        return f"{value:.1g}"
    text = f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"
    return text.rstrip("0").rstrip(".")


def _legend_rows(chart: Chart) -> list[list[Line]]:
    """The legend's entries in rows that fit the width."""
    rows: list[list[Line]] = [[]]
    used = 0.0
    for line in chart.lines:
        width = 40 + len(line.label) * _CHAR
        if rows[-1] and used + width > WIDTH - _LEFT - _RIGHT:
            rows.append([])
            used = 0.0
        rows[-1].append(line)
        used += width
    return rows


def _panel(chart: Chart, height: int) -> str:
    rows = _legend_rows(chart)
    top = 46 + 18 * len(rows)
    points = [p for line in chart.lines for p in line.points]
    x = _axis([p[0] for p in points], chart.x_log, _LEFT, WIDTH - _RIGHT)
    y = _axis([p[1] for p in points], chart.y_log, height - _BOTTOM, top)
    parts = [f'<text class="t" x="{_LEFT}" y="24">{escape(chart.title)}</text>']
    for i, row in enumerate(rows):
        parts.append(_legend(row, 44 + 18 * i))
    for tick in y.ticks:
        at = f"{y.at(tick):.1f}"
        parts.append(
            f'<path class="g" d="M{_LEFT} {at}H{WIDTH - _RIGHT}"/>'
            f'<text class="d" x="{_LEFT - 8}" y="{at}" dy=".35em" text-anchor="end">'
            f"{_number(tick)}</text>"
        )
    for tick in x.ticks:
        at, bottom = f"{x.at(tick):.1f}", height - _BOTTOM
        parts.append(
            f'<path class="a" d="M{at} {bottom}v5"/><text class="d" x="{at}" y="{bottom + 19}" '
            f'text-anchor="middle">{_number(tick)}</text>'
        )
    parts.append(f'<path class="a" d="M{_LEFT} {height - _BOTTOM}H{WIDTH - _RIGHT}"/>')
    middle = (top + height - _BOTTOM) / 2
    parts.append(
        f'<text x="{(WIDTH - _RIGHT + _LEFT) / 2}" y="{height - 14}" text-anchor="middle">'
        f"{escape(chart.x_label)}</text>"
        f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(chart.y_label)}</text>"
    )
    parts += [_curve(line, x, y) for line in chart.lines]
    parts += [_note(note, x, y) for note in chart.notes if math.isfinite(note.y)]
    return "".join(parts)


def _legend(row: Sequence[Line], top: float) -> str:
    parts, left = [], float(_LEFT)
    for line in row:
        parts.append(
            f'<path class="l" {_stroke(line)} d="M{left:.0f} {top - 4}h22"/>'
            f'<text x="{left + 28:.0f}" y="{top}">{escape(line.label)}</text>'
        )
        left += 40 + len(line.label) * _CHAR
    return "".join(parts)


def _stroke(line: Line) -> str:
    dash = ' stroke-dasharray="5 4"' if line.dashed else ""
    return f'style="stroke:var(--c{line.colour % _COLOURS})"{dash}'


def _curve(line: Line, x: _Axis, y: _Axis) -> str:
    shown = [(a, b) for a, b in line.points if math.isfinite(b) and (b > 0 or not y.log)]
    points = [(x.at(a), y.at(b)) for a, b in shown]
    if not points:
        return ""
    path = "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
    marks = ""
    if line.marks or len(points) == 1:
        colour = f'style="fill:var(--c{line.colour % _COLOURS})"'
        marks = "".join(f'<circle {colour} cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points)
    return f'<path class="l" {_stroke(line)} d="M{path}"/>{marks}'


def _note(note: Note, x: _Axis, y: _Axis) -> str:
    left, top = x.at(note.x), y.at(note.y)
    end = left + 10 + len(note.text) * _CHAR > WIDTH - _RIGHT
    anchor, shift = ("end", -7) if end else ("start", 7)
    return (
        f'<circle style="fill:var(--c{note.colour % _COLOURS})" cx="{left:.1f}" cy="{top:.1f}" '
        f'r="4"/><text x="{left + shift:.1f}" y="{top - 8:.1f}" text-anchor="{anchor}">'
        f"{escape(note.text)}</text>"
    )
