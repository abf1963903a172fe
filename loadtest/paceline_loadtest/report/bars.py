"""Where a task's time went, as a stacked bar a target: in seconds, and as shares of the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from paceline.simulation.axis import LETTER, Axis, axis_of, labelled, number
from paceline_loadtest.report.breakdown import NAMES, PARTS, Breakdown, Part
from paceline_loadtest.report.style import PICTURE
from paceline_loadtest.report.words import percent, seconds

WIDE, NARROW = 900, 420
_ROW, _BAR, _PANEL_GAP = 34, 22, 18
_EDGE = 16
_RIGHT = 74
_LONGEST = 24
"""Letters of a label beside a bar; longer ones, and all in a narrow picture, stand above it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One target's mean task."""

    label: str
    parts: Breakdown


def bars_document(bars: Sequence[Bar], title: str) -> str:
    """An SVG file of its own."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{bars_svg(bars, title, WIDE)}\n'


def bars_svg(bars: Sequence[Bar], title: str, width: int) -> str:
    """Both panels, one below the other, as an element for a page."""
    parts = [part for part in PARTS if any(part in bar.parts.parts for bar in bars)]
    above = width < WIDE or max(len(bar.label) for bar in bars) > _LONGEST
    left = _EDGE if above else _EDGE + round(max(len(b.label) for b in bars) * LETTER) + 12
    top = 36.0
    body = [f'<text class="t" x="{_EDGE}" y="24">{escape(title)}</text>']
    legend, top = legend_of(parts, _EDGE, top, width)
    body.append(legend)
    for share in (False, True):
        panel, top = _panel(bars, left, top + _PANEL_GAP, share=share, width=width, above=above)
        body.append(panel)
    about = ". ".join(described(bar) for bar in bars)
    return picture(width, top + 8, title, about, "".join(body))


def picture(width: int, height: float, title: str, about: str, body: str) -> str:
    """An SVG element with its title, its words for those who can't see it, and its style."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pll" viewBox="0 0 {width} {height:.0f}" '
        f'width="{width}" height="{height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title><desc>{escape(about)}</desc><style>{PICTURE}</style>"
        f'<rect class="b" width="{width}" height="{height:.0f}"/>{body}</svg>'
    )


def described(bar: Bar) -> str:
    """A bar in words."""
    parts = ", ".join(
        f"{NAMES[part]} {seconds(bar.parts.seconds(part))}" for part in bar.parts.parts
    )
    return f"{bar.label}: {seconds(bar.parts.total / 1e9)}, of that {parts}"


def legend_of(parts: Sequence[Part], left: float, top: float, width: int) -> tuple[str, float]:
    """A square and a name for each part, in lines that fit; and where they end."""
    drawn, x = [], left
    top += 14
    for part in parts:
        taken = 30 + len(NAMES[part]) * LETTER
        if x > left and x + taken > width - _EDGE:
            x, top = left, top + 19
        drawn.append(
            f'<rect class="{part}" x="{x:.0f}" y="{top - 10:.0f}" width="11" height="11" rx="2"/>'
            f'<text x="{x + 16:.0f}" y="{top:.0f}">{escape(NAMES[part])}</text>'
        )
        x += taken
    return "".join(drawn), top


def _panel(
    bars: Sequence[Bar], left: float, top: float, *, share: bool, width: int, above: bool
) -> tuple[str, float]:
    right = width - _RIGHT
    totals = [bar.parts.total / 1e9 for bar in bars]
    axis = axis_of([100.0] if share else totals, False, left, right)
    rows, y = [], top + 4
    for bar, total in zip(bars, totals, strict=True):
        name = f'<text x="{left - 12:.0f}" y="{y + 16:.0f}" text-anchor="end">'
        if above:
            y += 16
            name = f'<text x="{left:.0f}" y="{y - 4:.0f}">'
        rows.append(f"{name}{escape(bar.label)}</text>{_bar(bar, share, axis, y)}")
        end = axis.at(100.0 if share else total)
        said = percent(1.0) if share else seconds(total)
        if not share:
            rows.append(f'<text x="{end + 6:.1f}" y="{y + 16:.0f}">{escape(said)}</text>')
        y += _ROW
    label = "share of a task's time (%)" if share else "mean time of a task (s)"
    return _grid(axis, top, y, label) + "".join(rows), y + 34


def _grid(axis: Axis, top: float, bottom: float, label: str) -> str:
    """Lines up from the ticks, their numbers, and what they count."""
    drawn = []
    numbered = labelled(axis, 6.0)
    for tick in axis.ticks:
        at = axis.at(tick)
        drawn.append(f'<path class="g" d="M{at:.1f} {top:.0f}V{bottom:.0f}"/>')
        if tick in numbered:
            drawn.append(
                f'<text class="d" x="{at:.1f}" y="{bottom + 15:.0f}" text-anchor="middle">'
                f"{number(tick)}</text>"
            )
    middle = (axis.start + axis.end) / 2
    drawn.append(
        f'<text class="d" x="{middle:.0f}" y="{bottom + 32:.0f}" text-anchor="middle">'
        f"{escape(label)}</text>"
    )
    return "".join(drawn)


def _bar(bar: Bar, share: bool, axis: Axis, y: float) -> str:
    drawn, done = [], 0
    scale = 100.0 / bar.parts.total if share else 1e-9
    for part in PARTS:
        held = bar.parts.parts.get(part, 0)
        if not held:
            continue
        start, end = axis.at(done * scale), axis.at((done + held) * scale)
        done += held
        said = percent(bar.parts.share(part)) if share else seconds(held / 1e9)
        tip = f"{NAMES[part]}: {seconds(held / 1e9)}, {percent(bar.parts.share(part))}"
        drawn.append(
            f'<rect class="{part}" x="{start:.2f}" y="{y:.0f}" width="{end - start:.2f}" '
            f'height="{_BAR}"><title>{escape(f"{bar.label}, {tip}")}</title></rect>'
        )
        if end - start > len(said) * LETTER + 6:
            drawn.append(
                f'<text class="o {part}" x="{(start + end) / 2:.1f}" y="{y + 15:.0f}" '
                f'text-anchor="middle">{escape(said)}</text>'
            )
    return "".join(drawn)
