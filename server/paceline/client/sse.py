"""Reading server-sent events from bytes, however the network has cut them.

The format is the one of the HTML standard, section 9.2 "Server-sent events".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DONE: Final = "[DONE]"
"""The data of the event that ends an OpenAI stream."""

_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event; several `data` lines are joined with line feeds."""

    data: str
    event: str = "message"
    """Its type."""
    id: str = ""
    """The last id that the stream gave, in this event or an earlier one."""


class SseParser:
    """Takes the bytes of one stream piece by piece and gives its events as they are completed.

    Lines may end with LF, CRLF or CR. Comments and `retry` are skipped, an event without data is
    none, and one that no blank line has ended yet is held back, for good if the stream stops
    there. Bytes that aren't UTF-8 become U+FFFD. Nothing raises.
    """

    __slots__ = ("_at_start", "_data", "_id", "_pieces", "_skip_lf", "_type")

    def __init__(self) -> None:
        # Pieces of a line that has not ended; joined once, so that a long line in small pieces
        # costs no more than in one.
        self._pieces: list[bytes] = []
        self._at_start = True
        self._skip_lf = False
        self._data: list[str] = []
        self._type = ""
        self._id = ""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes; it may be cut anywhere, and may be empty."""
        if self._skip_lf and chunk:
            # The CR that ended the last piece has ended its line; its LF says nothing new.
            self._skip_lf = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            if chunk:
                self._pieces.append(chunk)
            return []
        first, *lines = chunk.split(b"\n")
        tail = lines.pop()
        events: list[Event] = []
        self._line(b"".join([*self._pieces, first]), events)
        for line in lines:
            self._line(line, events)
        self._pieces = [tail] if tail else []
        return events

    def _line(self, line: bytes, events: list[Event]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            self._end_event(events)
            return
        name, _, rest = line.partition(b":")
        value = rest.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value
        elif name == b"id" and "\0" not in value:
            self._id = value

    def _end_event(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event("\n".join(self._data), self._type or "message", self._id))
            self._data = []
        self._type = ""
