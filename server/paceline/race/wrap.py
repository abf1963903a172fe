"""Text broken into rows while it streams in: what stands in a row stays there."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from rich.cells import cell_len, chop_cells

_PARTS = re.compile(r"\n|[^\S\n]+|\S+")


class Wrapper:
    """Rows of at most `width` cells, filled word by word.

    Pieces may end within a word; a row is never changed by what follows, but for its last word,
    which moves down when it grows too long.
    """

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self._rows: list[str] = [""]
        self._taken = 0
        # A space came after a full row: what follows is another word, on the next row.
        self._row_is_over = False

    def take(self, pieces: list[str]) -> None:
        """Add those of the pieces that have not been taken yet; the list only ever grows."""
        fresh = pieces[self._taken :]
        self._taken += len(fresh)
        text = "".join(_printable("".join(fresh)))
        if not text:
            return
        # The last word may go on, so it is placed again together with what continues it.
        if not self._row_is_over:
            row, space, word = self._rows[-1].rpartition(" ")
            self._rows[-1] = row + space
            text = word + text
        for part in _PARTS.findall(text):
            self._place(part)

    def tail(self, rows: int) -> list[str]:
        """All rows while they fit, the last ones after that; an empty one never comes first."""
        shown = self._rows[-rows:] if rows > 0 else []
        return shown if not shown or shown[0].strip() else shown[1:]

    def _place(self, part: str) -> None:
        if part == "\n":
            self._next_row()
        elif part.isspace():
            if cell_len(self._rows[-1]) >= self.width:
                self._row_is_over = True
            elif self._rows[-1] and not self._rows[-1].endswith(" "):
                self._rows[-1] += " "
        elif self._row_is_over:
            self._next_row()
            self._place(part)
        elif cell_len(self._rows[-1]) + cell_len(part) <= self.width:
            self._rows[-1] += part
        elif self._rows[-1].strip():
            self._next_row()
            self._place(part)
        else:
            first, *more = chop_cells(part, self.width)
            self._rows[-1] = first
            self._rows.extend(more)

    def _next_row(self) -> None:
        self._rows[-1] = self._rows[-1].rstrip()
        self._rows.append("")
        self._row_is_over = False


def _printable(text: str) -> Iterable[str]:
    """The text without what would move a terminal's cursor or change its colours."""
    for character in text:
        if character in "\n ":
            yield character
        elif character.isspace():
            yield " "
        elif unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn"}:
            yield character
