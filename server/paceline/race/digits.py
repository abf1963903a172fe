"""Large digits, readable from the back of a room: five rows high, in cells of colour."""

from __future__ import annotations

from typing import Final

HEIGHT: Final = 5
PIXEL: Final = 2
"""Cells across for one dot: a cell is about twice as high as it is wide."""

_DOTS: Final = {
    "0": ("###", "# #", "# #", "# #", "###"),
    "1": (" # ", "## ", " # ", " # ", "###"),
    "2": ("###", "  #", "###", "#  ", "###"),
    "3": ("###", "  #", "###", "  #", "###"),
    "4": ("# #", "# #", "###", "  #", "  #"),
    "5": ("###", "#  ", "###", "  #", "###"),
    "6": ("###", "#  ", "###", "# #", "###"),
    "7": ("###", "  #", "  #", "  #", "  #"),
    "8": ("###", "# #", "###", "# #", "###"),
    "9": ("###", "# #", "###", "  #", "###"),
    "-": ("   ", "   ", "###", "   ", "   "),
}
_ACROSS: Final = 4
"""Dots for a digit and the gap behind it."""


def width(places: int) -> int:
    """Cells that this many digits take."""
    return (places * _ACROSS - 1) * PIXEL


def rows(text: str, places: int) -> list[list[tuple[bool, int]]]:
    """Each row as runs of (filled, cells), the text at the right of `places` digits."""
    return [_runs(row) for row in _rows(text, places)]


def _rows(text: str, places: int) -> list[str]:
    return [
        "".join(f"{_DOTS[c][y] if c in _DOTS else '':3} " for c in text.rjust(places))[:-1]
        for y in range(HEIGHT)
    ]


def _runs(row: str) -> list[tuple[bool, int]]:
    runs: list[tuple[bool, int]] = []
    for dot in row:
        filled = dot == "#"
        if runs and runs[-1][0] == filled:
            runs[-1] = (filled, runs[-1][1] + PIXEL)
        else:
            runs.append((filled, PIXEL))
    return runs
