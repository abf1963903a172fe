"""A response's events as bytes: how they are framed, numbered, and cut from tokens.

Every event bears a number, so no two are alike. What is alike is cut once; a token costs the
concatenation of its number and its text, with both taken from tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from paceline.core.plan import Pieces
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


class Deltas(Protocol):
    """Cuts one channel's tokens into delta events."""

    def cut(self, start: int, stop: int) -> bytes:
        """The events whose last token is one of start..stop; runs come in order."""
        ...

    def rest(self) -> bytes:
        """What is left to say after the last token."""
        ...


class PlainDeltas:
    """Deltas that differ in number and text alone.

    Groups of `per_event` tokens count from the channel's first; one whose tokens release no text
    makes no event and takes no number.
    """

    __slots__ = ("_after", "_before", "_between", "_dense", "_escaped", "_length", "_n", "_size")

    def __init__(
        self, pieces: Pieces, before: bytes, after: bytes, per_event: int, numbers: Numbers
    ) -> None:
        """`before` ends with `"sequence_number":`; `after` begins with the text's quote."""
        self._escaped = pieces.escaped
        self._length = len(pieces)
        self._dense = pieces.dense
        self._size = per_event
        self._before = before
        self._after = after
        self._between = after + before
        self._n = numbers

    def cut(self, start: int, stop: int) -> bytes:
        """The events whose last token is one of start..stop."""
        if self._size == 1:
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

    def _groups(self, start: int, stop: int) -> list[bytes]:
        size = self._size
        start -= start % size
        if stop < self._length:
            stop -= stop % size
        texts = self._escaped(start, stop) if start < stop else []
        return [b"".join(texts[i : i + size]) for i in range(0, len(texts), size)]

    def rest(self) -> bytes:
        """Nothing: the last token took everything with it."""
        return b""


class DetailedDeltas:
    """Deltas with log probabilities, one event at a time.

    Silent tokens' entries travel with the next text, those of the last ones in an event without
    text, so that there is one entry a token.
    """

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
        self._pieces = pieces
        self._before = before
        self._after = after
        self._size = per_event
        self._n = numbers
        self._logprobs = logprobs
        self._next = 0

    def cut(self, start: int, stop: int) -> bytes:
        """The events whose last token is one of start..stop."""
        length = len(self._pieces)
        if stop < length:
            stop -= stop % self._size
        first = begin = self._next
        if stop <= first:
            return b""
        texts = self._pieces.escaped(first, stop)
        events = []
        # Groups count from the channel's first token, wherever the last event ended.
        end = first - first % self._size
        while end < stop:
            end = min(end + self._size, stop)
            text = b"".join(texts[begin - first : end - first])
            if text:
                events.append(self._event(begin, end, text))
                begin = end
        self._next = begin
        return b"".join(events)

    def _event(self, begin: int, end: int, text: bytes) -> bytes:
        return b'%b%d,"delta":"%b","logprobs":%b%b' % (
            self._before,
            self._n.take(),
            text,
            self._logprobs(begin, end),
            self._after,
        )

    def rest(self) -> bytes:
        """The entries of trailing tokens without text."""
        begin, end = self._next, len(self._pieces)
        if begin >= end:
            return b""
        self._next = end
        return self._event(begin, end, b"")
