"""A response's events as bytes: how they are framed, numbered, and cut from tokens.

Every event bears a number, so no two are alike. What is alike is cut once; a token costs the
concatenation of its number and its text, with both taken from tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from paceline.core.plan import Pieces
from paceline.wire.cutter import EventCutter, GroupCutter
from paceline.wire.jsonbytes import json_bytes

SEPARATOR = b"\n"
"""Ends each frame that is to be a WebSocket message; JSON has no line break of its own here."""


class Framing(NamedTuple):
    """What surrounds an event: `sse`, or one JSON text a frame."""

    sse: bool
    end: bytes

    def begin(self, kind: bytes) -> bytes:
        """An event up to its type's end."""
        if self.sse:
            return b'event: %b\ndata: {"type":"%b"' % (kind, kind)
        return b'{"type":"%b"' % kind


SSE = Framing(True, b"}\n\n")


def frames(stream_id: str | None) -> Framing:
    """WebSocket frames, each with its stream's id where it has one."""
    if stream_id is None:
        return Framing(False, b"}" + SEPARATOR)
    return Framing(False, b',"stream_id":%b}%b' % (json_bytes(stream_id), SEPARATOR))


_TABLE: list[bytes] = []
_TABLE_SIZE = 32_768


def _numbers(start: int, stop: int) -> list[bytes]:
    """`N,"delta":"` for each number: most streams find theirs in a table that all share."""
    if stop > _TABLE_SIZE:
        return [b'%d,"delta":"' % i for i in range(start, stop)]
    table = _TABLE
    if stop > len(table):
        table.extend(b'%d,"delta":"' % i for i in range(len(table), min(2 * stop, _TABLE_SIZE)))
    return table[start:stop]


class Numbers:
    """The sequence numbers of one stream; `next` is that of the event to come."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 0

    def take(self) -> int:
        """The next number."""
        taken = self.next
        self.next = taken + 1
        return taken


class PlainDeltas(GroupCutter):
    """Deltas that differ in number and text alone; one without text takes no number."""

    __slots__ = ("_n",)

    def __init__(
        self, pieces: Pieces, before: bytes, after: bytes, per_event: int, numbers: Numbers
    ) -> None:
        """`before` ends with `"sequence_number":`; `after` begins with the text's quote."""
        super().__init__(pieces, before, after, per_event)
        self._n = numbers

    def cut(self, start: int, stop: int) -> bytes:
        """The events whose last token is one of start..stop."""
        if self._per_event == 1:
            texts = self._escaped(start, stop)
        else:
            texts = self._groups(start, stop)
        if not self._dense:
            texts = [text for text in texts if text]
        count = len(texts)
        if not count:
            return b""
        numbers = self._n
        first = numbers.next
        numbers.next = after = first + count
        numbered = _TABLE[first:after]
        if len(numbered) != count:
            numbered = _numbers(first, after)
        if count == 1:
            return self._before + numbered[0] + texts[0] + self._after
        # Numbers and texts interleaved, so that one join writes them all.
        parts = [self._between] * (3 * count)
        parts[0] = self._before
        parts[1::3] = numbered
        parts[2::3] = texts
        return b"".join(parts) + self._after


class DetailedDeltas(EventCutter):
    """Deltas with log probabilities, one entry a token."""

    def __init__(
        self,
        pieces: Pieces,
        before: bytes,
        after: bytes,
        per_event: int,
        *,
        numbers: Numbers,
        logprobs: Callable[[int, int], bytes],
    ) -> None:
        """`after` follows the array of log probabilities."""
        super().__init__(pieces, per_event)
        self._before = before
        self._after = after
        self._n = numbers
        self._logprobs = logprobs

    def _event(self, begin: int, end: int, text: bytes, run: list[bytes]) -> bytes:
        return b'%b%d,"delta":"%b","logprobs":%b%b' % (
            self._before,
            self._n.take(),
            text,
            self._logprobs(begin, end),
            self._after,
        )
