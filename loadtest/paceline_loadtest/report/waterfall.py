"""One loop over time: a row a turn, a lane below it for each of its sub-agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape

from paceline.simulation.axis import LETTER, axis_of, labelled, number
from paceline_loadtest.model import LoopRun, TurnRun
from paceline_loadtest.report.bars import legend_of, picture
from paceline_loadtest.report.breakdown import NAMES, PARTS, Part, Span, added, spans
from paceline_loadtest.report.words import seconds

MOST_ROWS = 60
"""Rows of a picture; what comes after is told in words."""
_ROW, _LANE, _BAR = 19, 13, 12
_LEFT, _RIGHT = 92, 22
_LETTERS = 12
_NS = 1e9


@dataclass(frozen=True, slots=True)
class Lane:
    """One row: a turn of the loop, or (`agent`) a sub-agent that one of its tools ran."""

    label: str
    spans: Sequence[Span]
    agent: bool = False


def lanes(run: LoopRun) -> list[Lane]:
    """The rows of a loop. Of parallel tools a turn's row shows the critical path."""
    path = spans(run)
    found = []
    for i, turn in enumerate(run.turns):
        own = [span for span in path if span.turn == i and not span.agent]
        # While sub-agents work, the turn itself waits for a tool.
        own += [_as_tool(span) for span in path if span.turn == i and span.agent]
        own.sort(key=lambda span: span.start)
        found.append(Lane(f"{i + 1}", own))
        found += [
            Lane(agent.loop.id.rpartition("/")[2], spans(agent), agent=True)
            for agent in _agents(turn)
        ]
    return found


def waterfall_svg(run: LoopRun, title: str, width: int) -> str:
    """The picture as an element for a page."""
    rows = lanes(run)
    shown = rows[:MOST_ROWS]
    begin = round(run.started_at * _NS)
    last = max([begin, *(span.end for row in shown for span in row.spans)])
    parts = [p for p in PARTS if any(span.part == p for row in shown for span in row.spans)]
    legend, top = legend_of(parts, 16, 36, width)
    top += 14
    axis = axis_of([(last - begin) / _NS], False, _LEFT, width - _RIGHT)
    body, y = [], top
    for row in shown:
        height = _LANE if row.agent else _ROW
        body.append(_row(row, begin, y, axis.at, width))
        y += height
    grid = [
        f'<path class="g" d="M{axis.at(tick):.1f} {top:.0f}V{y + 2:.0f}"/>' for tick in axis.ticks
    ]
    numbers = [
        f'<text class="d" x="{axis.at(tick):.1f}" y="{y + 17:.0f}" text-anchor="middle">'
        f"{number(tick)}</text>"
        for tick in labelled(axis, 6.0)
    ]
    middle = (_LEFT + width - _RIGHT) / 2
    words = (
        f'<text class="t" x="16" y="24">{escape(title)}</text>'
        f'<text class="d" x="{middle:.0f}" y="{y + 34:.0f}" text-anchor="middle">'
        "time since the loop began (s)</text>"
        f"{_turns_label(top, y)}"
    )
    y += 44
    if len(rows) > MOST_ROWS:
        left = len(rows) - MOST_ROWS
        words += f'<text class="d" x="16" y="{y + 8:.0f}">… and {left:,} more rows</text>'
        y += 18
    drawn = [*grid, *body, *numbers, words, legend]
    return picture(width, y, title, described(run), "".join(drawn))


def _turns_label(top: float, bottom: float) -> str:
    """What the rows count: along them, or below where they are too few to stand beside."""
    said = "turn (no.)"
    if bottom - top < len(said) * LETTER + 8:
        return f'<text class="d" x="16" y="{bottom + 17:.0f}">{said}</text>'
    centre = (top + bottom) / 2
    return (
        f'<text class="d" transform="translate(15 {centre:.0f}) rotate(-90)" '
        f'text-anchor="middle">{said}</text>'
    )


def described(run: LoopRun) -> str:
    """The loop in words."""
    whole = added(spans(run))
    parts = ", ".join(f"{NAMES[part]} {seconds(whole.seconds(part))}" for part in whole.parts)
    return f"{len(run.turns)} turns in {seconds(whole.total / _NS)}: {parts}"


def table(run: LoopRun) -> list[list[str]]:
    """A row a turn and lane: when it began, how long it took, and its parts; heads first."""
    rows = lanes(run)[:MOST_ROWS]
    used: list[Part] = [p for p in PARTS if any(s.part == p for row in rows for s in row.spans)]
    found = [["turn", "began", "took", *(NAMES[part] for part in used)]]
    begin = round(run.started_at * _NS)
    for row in rows:
        parts = added(row.spans)
        start = row.spans[0].start if row.spans else begin
        label = f"↳ {row.label}" if row.agent else row.label
        cells = [seconds(parts.seconds(part)) if part in parts.parts else "" for part in used]
        found.append([label, seconds((start - begin) / _NS), seconds(parts.total / _NS), *cells])
    return found


def _row(row: Lane, begin: int, y: float, at: Callable[[float], float], width: int) -> str:
    bar = _LANE - 4 if row.agent else _BAR
    drawn = []
    if row.agent:
        drawn.append(
            f'<rect class="lane" x="{_LEFT}" y="{y:.0f}" width="{width - _LEFT - _RIGHT}" '
            f'height="{_LANE}"/>'
        )
    size = ' style="font-size:10px"' if row.agent else ""
    label = row.label if len(row.label) <= _LETTERS else f"…{row.label[1 - _LETTERS :]}"
    drawn.append(
        f'<text class="d" x="{_LEFT - 7}" y="{y + bar - 1:.0f}" text-anchor="end"{size}>'
        f"{escape(label)}</text>"
    )
    for span in merged(row.spans):
        start, end = at((span.start - begin) / _NS), at((span.end - begin) / _NS)
        tip = f"{row.label}: {NAMES[span.part]}, {seconds(span.ns / _NS)}"
        drawn.append(
            f'<rect class="{span.part}" x="{start:.2f}" y="{y + 1:.0f}" '
            f'width="{max(end - start, 0.4):.2f}" height="{bar}">'
            f"<title>{escape(tip)}</title></rect>"
        )
    return "".join(drawn)


def merged(found: Sequence[Span]) -> list[Span]:
    """Spans of one part that follow each other as one."""
    kept: list[Span] = []
    for span in found:
        if kept and kept[-1].part == span.part and kept[-1].end == span.start:
            kept[-1] = replace(kept[-1], end=span.end)
        else:
            kept.append(span)
    return kept


def _as_tool(span: Span) -> Span:
    return replace(span, part="tools")


def _agents(turn: TurnRun) -> Iterator[LoopRun]:
    """Every sub-agent of a turn, those of sub-agents too."""
    for tool in turn.tools:
        for agent in tool.loops:
            yield agent
            for inner in agent.turns:
                yield from _agents(inner)
