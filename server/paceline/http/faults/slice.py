"""A stream's bytes leave in small pieces, cut anywhere: inside events, lines and characters.

Each piece is a chunk of its own in HTTP's framing. All pieces leave when the whole would have.
"""

from __future__ import annotations

from paceline.core.request import Fault
from paceline.core.rng import mix64
from paceline.http.faults.nothing import Nothing, Scene


class Slice(Nothing):
    """Cuts a stream into pieces of one to `max_bytes` bytes, by the seed always the same."""

    def __init__(self, asked: Fault, scene: Scene) -> None:
        super().__init__(asked, scene)
        self._key = mix64(asked.seed & ((1 << 64) - 1))

    def write(self, data: bytes) -> None:
        """A part of a stream, piece by piece."""
        for piece in self._pieces(data):
            self.inner.write(piece)

    def end(self, data: bytes) -> None:
        """The last part."""
        self.write(data)
        self.inner.end(b"")

    def _pieces(self, data: bytes) -> list[bytes]:
        found = []
        at = 0
        while at < len(data):
            self._key = mix64(self._key)
            size = 1 + self._key % self.asked.max_bytes
            found.append(data[at : at + size])
            at += size
        return found
