"""Events out of a stream's bytes, fast where the stream looks as OpenAI's and Anthropic's do.

Those send LF alone, `data: ` with its space, and one `data` line an event. What looks otherwise
goes through `paceline.client.sse`, from there to the stream's end.
"""

from __future__ import annotations

from paceline.client.sse import SseParser

_END = b"\n\n"


class EventCutter:
    """Takes a stream piece by piece; gives the data of the events that each completes.

    A piece may be cut anywhere, inside of a character too. An event that no empty line has ended
    is held back. Types of events are left out: the data of each dialect says them again.
    """

    __slots__ = ("_parser", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._parser: SseParser | None = None

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that the piece completes."""
        if self._parser is not None:
            return [event.data.encode() for event in self._parser.feed(piece)]
        if b"\n" not in piece:
            # Joined once the line ends, so that a long event in small pieces is cheap.
            if piece:
                self._pieces.append(piece)
            if b"\r" not in piece:
                return []
        if self._pieces:
            if b"\n" in piece:
                self._pieces.append(piece)
            piece = b"".join(self._pieces)
            self._pieces = []
        if b"\r" in piece or piece.startswith(b"\xef\xbb\xbf"):
            self._parser = SseParser()
            return [event.data.encode() for event in self._parser.feed(piece)]
        events = piece.split(_END)
        tail = events.pop()
        if tail:
            self._pieces.append(tail)
        found: list[bytes] = []
        for event in events:
            if event.startswith(b"data: ") and b"\n" not in event:
                found.append(event[6:])
            else:
                _of_lines(event, found)
        return found


def _of_lines(event: bytes, found: list[bytes]) -> None:
    data = []
    for line in event.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
    if data:
        found.append(b"\n".join(data))
