"""What all items of a response's output share: the stream they write to, and how they end."""

from __future__ import annotations

from paceline.core.plan import Pieces
from paceline.wire.jsonbytes import inner
from paceline.wire.responses.events import Framing, Numbers, PlainDeltas

Status = bytes
COMPLETED, INCOMPLETE, IN_PROGRESS = b"completed", b"incomplete", b"in_progress"


class Writer:
    """What all items of one stream share: framing, numbers, and the size of a delta."""

    __slots__ = ("framing", "numbers", "obfuscation", "per_event")

    def __init__(self, framing: Framing, per_event: int, obfuscation: bytes) -> None:
        self.framing = framing
        self.numbers = Numbers()
        self.per_event = per_event
        self.obfuscation = obfuscation
        """A key and its value for the end of each delta; empty without."""

    def event(self, kind: bytes, inside: bytes) -> bytes:
        """One event; `inside` begins with a comma."""
        return b'%b%b,"sequence_number":%d%b' % (
            self.framing.begin(kind),
            inside,
            self.numbers.take(),
            self.framing.end,
        )

    def deltas(self, kind: bytes, inside: bytes, pieces: Pieces, tail: bytes = b"") -> PlainDeltas:
        """The deltas of one channel; `tail` follows the text."""
        return PlainDeltas(
            pieces,
            b'%b%b,"sequence_number":' % (self.framing.begin(kind), inside),
            b'"%b%b%b' % (tail, self.obfuscation, self.framing.end),
            self.per_event,
            self.numbers,
        )


class OutputItem:
    """One item: opened, cut into deltas, closed."""

    def __init__(self, writer: Writer, index: int, item_id: str) -> None:
        self.writer = writer
        self.id = item_id
        self.at = b',"output_index":%d' % index
        self.place = b',"item_id":"%b"%b' % (item_id.encode(), self.at)
        self.opened = False
        self.closed = False

    def open(self) -> bytes:
        """The events that begin it."""
        self.opened = True
        return self.added(self.begun())

    def cut(self, start: int, stop: int) -> bytes:
        """The deltas of its tokens start..stop."""
        raise NotImplementedError

    def close(self) -> bytes:
        """The events that end it."""
        self.closed = True
        return self.done(self.final())

    def begun(self) -> bytes:
        """The item as it is added."""
        raise NotImplementedError

    def final(self) -> bytes:
        """The item as it ends."""
        raise NotImplementedError

    def added(self, item: bytes) -> bytes:
        """`output_item.added`."""
        return self.writer.event(b"response.output_item.added", b'%b,"item":%b' % (self.at, item))

    def done(self, item: bytes) -> bytes:
        """`output_item.done`."""
        return self.writer.event(b"response.output_item.done", b'%b,"item":%b' % (self.at, item))


def obfuscation(text: str) -> bytes:
    """The end of each delta of a response: a key, and a value that means nothing."""
    return b',"obfuscation":"%b"' % inner(text)
