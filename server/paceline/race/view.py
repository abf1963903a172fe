"""The picture of a race: a frame of exact size, made anew for each redraw.

Colours are the terminal's own sixteen, and text keeps the terminal's, so that both suit light and
dark ones. Every figure has a fixed place, so that nothing moves but what changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from paceline.race import digits
from paceline.race.lane import Lane
from paceline.race.result import place, ranking, seconds, standing
from paceline.race.wrap import Wrapper

_COLOURS = ("magenta", "cyan", "green", "blue", "red", "yellow")
_PLAIN = Style()
_BOLD = Style(bold=True)
_DIM = Style(dim=True)
_ERROR = Style(color="red")

_HEAD_ROWS = 2
_FOOT_ROWS = 2
_GUTTER = 2
_DIGIT_PLACES = 4
_ROWS_WITH_DIGITS = 12
"""Rows of a lane from which on its rate is written large."""
_ROWS_WITH_AIR = 14
"""Rows of a lane from which on its text keeps a distance from its bar."""
_EIGHTHS = " ▏▎▍▌▋▊▉"

Line = list[Segment]


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What lines and bars are drawn with."""

    gutter: str = "▌"
    full: str = "█"
    track: str = "─"
    dot: str = "·"
    partial: bool = True


ASCII = Glyphs(gutter="|", full="#", track="-", dot="-", partial=False)


class View:
    """Draws the lanes of one race, at any size, at any moment."""

    def __init__(self, lanes: Sequence[Lane], title: str, glyphs: Glyphs | None = None) -> None:
        self.lanes = lanes
        self._title = title
        self._glyphs = glyphs or Glyphs()
        self._wrappers: list[Wrapper] = []

    def lines(self, now: float, width: int, height: int) -> list[Line]:
        """The frame as rows of at most `width` cells; at most `height` of them."""
        if not self._wrappers or self._wrappers[0].width != max(1, width - _GUTTER):
            self._wrappers = [Wrapper(width - _GUTTER) for _ in self.lanes]
        each = max(2, (height - _HEAD_ROWS - _FOOT_ROWS) // max(1, len(self.lanes)))
        ranks = {id(lane): rank for rank, lane in enumerate(ranking(self.lanes), 1)}
        lines = [self._head(width), []]
        for index, (lane, wrapper) in enumerate(zip(self.lanes, self._wrappers, strict=True)):
            style = Style(color=_COLOURS[index % len(_COLOURS)])
            badge = _badge(lane, style, ranks.get(id(lane)))
            lines += self._lane(
                lane, wrapper, style, badge=badge, now=now, width=width, height=each
            )
        lines += self._foot(width)
        return [Segment.adjust_line_length(line, width, pad=False) for line in lines[:height]]

    def _head(self, width: int) -> Line:
        line = [Segment("paceline race", _BOLD)]
        room = width - cell_len("paceline race") - 2
        if room > 0:
            line.append(Segment("  " + _fitted(self._title, room), _DIM))
        return line

    def _foot(self, width: int) -> list[Line]:
        words = standing(self.lanes)
        if not words:
            note = f"The same prompt, seed and length in each lane {self._glyphs.dot} Ctrl-C ends"
            return [[Segment(_fitted(note, width), _DIM)], []]
        wrapper = Wrapper(width)
        wrapper.take([words])
        rows = wrapper.tail(_FOOT_ROWS)
        return [[Segment(row, _BOLD)] for row in rows] + [[]] * (_FOOT_ROWS - len(rows))

    def _lane(
        self,
        lane: Lane,
        wrapper: Wrapper,
        style: Style,
        *,
        badge: Segment,
        now: float,
        width: int,
        height: int,
    ) -> Iterator[Line]:
        """`height` rows, the last one empty where there is room for that."""
        inner = width - _GUTTER
        gap = 1 if height > 3 else 0
        large = height >= _ROWS_WITH_DIGITS
        rows: list[Line] = []
        if large:
            rows.append(_spread([Segment(lane.model, style + _BOLD)], badge, inner))
            rows += [*_large_figures(lane, style, now), []]
        else:
            rows.append(_spread(_figures(lane, style, now, inner - 7), badge, inner))
        rows.append(self._bar(lane, style, inner))
        if height >= _ROWS_WITH_AIR:
            rows.append([])
        rows += self._text(lane, wrapper, height - gap - len(rows))
        gutter = [Segment(self._glyphs.gutter, style), Segment(" ")]
        yield from ([*gutter, *row] for row in rows)
        yield from [[]] * gap

    def _bar(self, lane: Lane, style: Style, width: int) -> Line:
        eighths = int(lane.progress * width * 8)
        full, part = divmod(eighths, 8)
        # A background of the same colour closes the seams between the cells.
        line = [Segment(self._glyphs.full * full, style + Style(bgcolor=style.color))]
        if part and self._glyphs.partial:
            line.append(Segment(_EIGHTHS[part], style))
            full += 1
        line.append(Segment(self._glyphs.track * (width - full), _DIM))
        return line

    def _text(self, lane: Lane, wrapper: Wrapper, rows: int) -> Iterator[Line]:
        wrapper.take(lane.pieces)
        shown, style = wrapper.tail(rows), _PLAIN
        if lane.error:
            told = Wrapper(wrapper.width)
            told.take([lane.error])
            shown, style = told.tail(rows), _ERROR
        for row in shown:
            yield [Segment(row, style)]
        for _ in range(rows - len(shown)):
            yield []


class Frame:
    """A moment of a view, as large as where it is drawn, or as told."""

    def __init__(self, view: View, now: float, height: int | None = None) -> None:
        self._view = view
        self._now = now
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # One row less than the screen, so that the last frame and a shell's prompt fit it.
        height = self._height or max(1, options.size.height - 1)
        for line in self._view.lines(self._now, options.max_width, height):
            yield from line
            yield Segment.line()


def _figures(lane: Lane, style: Style, now: float, width: int) -> Line:
    """Name and figures in one row, as many of them as fit."""
    name = max(14, cell_len(lane.model) + 1)
    line = [
        Segment(set_cell_size(lane.model, min(name, width)), style + _BOLD),
        Segment(f"{_rate(lane, now):>7} tok/s", _BOLD),
        Segment("  TTFT ", _DIM),
        Segment(f"{_ttft(lane):>6}"),
        Segment(f"  {seconds(lane.elapsed_s(now)):>6}"),
        Segment(f"  {_tokens(lane):>{2 * len(f'{lane.max_tokens:,}') + 4}}"),
        Segment(" tokens", _DIM),
    ]
    while len(line) > 1 and Segment.get_line_length(line) > width:
        line.pop()
    return line


def _large_figures(lane: Lane, style: Style, now: float) -> list[Line]:
    rate = lane.live_rate(now)
    whole = "-" if rate is None else f"{rate:.0f}"
    facts: list[Line] = [
        [Segment("tokens a second", _BOLD)],
        [],
        _fact("TTFT", _ttft(lane)),
        _fact("elapsed", seconds(lane.elapsed_s(now))),
        _fact("tokens", _tokens(lane).strip()),
    ]
    lines: list[Line] = []
    if len(whole) > _DIGIT_PLACES:
        facts[0] = [Segment(f"{_rate(lane, now)} tokens a second", _BOLD)]
        return facts
    on = style + Style(bgcolor=style.color)
    for row, fact in zip(digits.rows(whole, _DIGIT_PLACES), facts, strict=True):
        cells = [
            Segment(("█" if filled else " ") * n, on if filled else _PLAIN) for filled, n in row
        ]
        lines.append([*cells, Segment("    "), *fact])
    return lines


def _fact(label: str, value: str) -> Line:
    return [Segment(f"{label:<9}", _DIM), Segment(value, _BOLD)]


def _rate(lane: Lane, now: float) -> str:
    rate = lane.live_rate(now)
    if rate is None:
        return "-"
    return f"{rate:,.0f}" if rate >= 99.95 else f"{rate:.1f}"


def _ttft(lane: Lane) -> str:
    if lane.ttft_s is None:
        return "-"
    return f"{lane.ttft_s * 1000:.0f} ms" if lane.ttft_s < 9.9995 else seconds(lane.ttft_s)


def _tokens(lane: Lane) -> str:
    return f"{lane.tokens:,} of {lane.max_tokens:,}"


def _badge(lane: Lane, style: Style, rank: int | None) -> Segment:
    if rank is not None:
        return Segment(f" {place(rank)} ", style + Style(bold=True, reverse=rank == 1))
    if lane.state == "streaming":
        return Segment(f"{lane.progress:.0%}", _DIM)
    return Segment(lane.state, _ERROR if lane.state == "failed" else _DIM)


def _spread(line: Line, right: Segment, width: int) -> Line:
    """The line, and something at the right end."""
    free = width - Segment.get_line_length(line) - right.cell_length
    return [*line, Segment(" " * max(1, free)), right]


def _fitted(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)) + "…"
