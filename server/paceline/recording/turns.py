"""A recorded WebSocket turn by turn: what the client said, and what the server said to that."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from paceline.recording.document import Chunk, Exchange, is_whole


@dataclass(slots=True)
class Turn:
    """A client's frame, and the server's up to the client's next; times count from the former."""

    asked: bytes
    frames: list[Chunk] = field(default_factory=list)
    name: str = ""
    """Where it was read from."""


def turns_of(exchange: Exchange) -> list[Turn]:
    """The turns of one connection that were recorded to their end.

    A frame of the server's belongs to the latest turn with its `stream_id`, or to the latest of
    all. Of a connection that was broken off each stream's last turn is left out.
    """
    turns: list[Turn] = []
    began: list[int] = []
    latest: dict[Any, int] = {}
    for chunk in exchange.chunks:
        stream = stream_of(chunk.data)
        if chunk.sender == "client":
            latest[stream] = len(turns)
            began.append(chunk.at_ns)
            turns.append(Turn(chunk.data, name=exchange.name))
        elif turns:
            at = latest.get(stream, len(turns) - 1)
            turns[at].frames.append(
                Chunk(max(chunk.at_ns - began[at], 0), chunk.data, binary=chunk.binary)
            )
    unfinished = set() if is_whole(exchange) else set(latest.values())
    return [turn for at, turn in enumerate(turns) if at not in unfinished]


def stream_of(frame: bytes) -> str | None:
    """A frame's `stream_id`."""
    if b'"stream_id"' not in frame:
        return None
    try:
        data = json.loads(frame)
    except ValueError:
        return None
    found = data.get("stream_id") if isinstance(data, dict) else None
    return found if isinstance(found, str) else None
