"""WebSocket frames (RFC 6455, section 5) for a client: what it sends, and what it takes apart."""

from __future__ import annotations

import struct
from typing import NamedTuple

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA
_CONTINUATION, _BINARY = 0x0, 0x2
_FIN, _MASKED = 0x80, 0x80
_MASK = b"\0\0\0\0"
"""A client has to mask; with this mask the payload stays as it is."""

MOST_BYTES = 256 << 20
"""A longer message is not taken for one."""


class FrameError(ValueError):
    """Bytes that are no frames."""


class Message(NamedTuple):
    """A whole message, or a control frame."""

    kind: int
    payload: bytes


def frame(kind: int, payload: bytes) -> bytes:
    """A frame as a client sends it: whole, and masked as the standard wants it."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", _FIN | kind, _MASKED | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", _FIN | kind, _MASKED | 126, size)
    else:
        head = struct.pack("!BBQ", _FIN | kind, _MASKED | 127, size)
    return b"%b%b%b" % (head, _MASK, payload)


class FrameReader:
    """Takes a server's bytes, cut anywhere; gives whole messages."""

    __slots__ = ("_buffer", "_parts")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parts: list[bytes] | None = None

    def feed(self, data: bytes) -> list[Message]:
        """The messages that the bytes complete. Raises FrameError."""
        self._buffer += data
        buffer = self._buffer
        found: list[Message] = []
        at, end = 0, len(buffer)
        while end - at >= 2:
            first, size = buffer[at], buffer[at + 1]
            begin = at + 2
            if size & _MASKED or first & 0x70:
                raise FrameError("a frame is masked or compressed")
            if size == 126:
                if end - at < 4:
                    break
                size, begin = int.from_bytes(buffer[at + 2 : at + 4], "big"), at + 4
            elif size == 127:
                if end - at < 10:
                    break
                size, begin = int.from_bytes(buffer[at + 2 : at + 10], "big"), at + 10
            if size > MOST_BYTES:
                raise FrameError(f"a frame of {size:,} bytes")
            if end - begin < size:
                break
            at = begin + size
            self._add(first, bytes(buffer[begin:at]), found)
        del buffer[:at]
        return found

    def _add(self, first: int, payload: bytes, found: list[Message]) -> None:
        kind = first & 0x0F
        if kind >= CLOSE:
            found.append(Message(kind, payload))
        elif kind == _CONTINUATION:
            if self._parts is None:
                raise FrameError("a message goes on that hasn't begun")
            self._parts.append(payload)
            if first & _FIN:
                found.append(Message(TEXT, b"".join(self._parts)))
                self._parts = None
        elif kind in {TEXT, _BINARY} and self._parts is None:
            if first & _FIN:
                found.append(Message(TEXT, payload))
            else:
                self._parts = [payload]
        else:
            raise FrameError("a frame of an unknown kind, or out of order")
