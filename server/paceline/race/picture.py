"""A frame as an SVG file that needs nothing from anywhere: no font, no style, no script."""

from __future__ import annotations

import io
import re

from rich.console import Console, RenderableType
from rich.terminal_theme import TerminalTheme

_ASPECT = 0.61
_CELL = 20
"""Rich draws letters of this size, 1.22 of it from row to row."""

# A font's own blocks leave seams between rows, so none is left in the picture: whole ones stand on
# a background of their colour and can go, parts of one become rectangles.
_EIGHTHS = "▏▎▍▌▋▊▉"
_WHOLE = re.compile(r"<text [^>]*>█+</text>")
_PART = re.compile(
    rf'<text class="(?P<style>[\w-]+)" x="(?P<x>[\d.]+)" y="(?P<y>[\d.]+)"[^>]*>'
    rf"(?P<block>[{_EIGHTHS}])</text>"
)

_THEME = TerminalTheme(
    background=(13, 17, 23),
    foreground=(222, 228, 236),
    normal=[
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (227, 179, 65),
        (88, 166, 255),
        (219, 97, 162),
        (57, 197, 207),
        (222, 228, 236),
    ],
)

_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "SF Mono", "DejaVu Sans Mono", "Cascadia Mono", Consolas, monospace;
  font-size: {char_height}px;
  line-height: {line_height}px;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def svg(frame: RenderableType, width: int, height: int, title: str) -> str:
    """The frame in a terminal of that many cells."""
    console = Console(
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        width=width,
        height=height,
        legacy_windows=False,
        _environ={},
    )
    console.print(frame, end="")
    picture = console.export_svg(
        title=title, theme=_THEME, code_format=_FORMAT, font_aspect_ratio=_ASPECT, unique_id="race"
    )
    picture = _PART.sub(_as_rectangle, _WHOLE.sub("", picture))
    # Any font's letters are fitted to the cells, so that rows of them have no gaps.
    return picture.replace("textLength=", 'lengthAdjust="spacingAndGlyphs" textLength=')


def _as_rectangle(text: re.Match[str]) -> str:
    x, y = float(text["x"]), float(text["y"])
    part = (_EIGHTHS.index(text["block"]) + 1) / 8
    return (
        f'<rect class="{text["style"]}" x="{x:g}" y="{y - _CELL + 1.5:g}" '
        f'width="{_CELL * _ASPECT * part:g}" height="{_CELL * 1.22 + 0.25:g}" '
        f'shape-rendering="crispEdges"/>'
    )
