"""The fault that changes nothing, and how to write the next.

A fault is a `Sink` in front of an answer's own. To write one: copy this class's way of handing
things on for what it spoils and inherit the rest; name it in `faults.FAULTS`, and its arguments
in `paceline.wire.faults`. Three rules:

- Whatever it waits for can be interrupted: `close` comes when the client has left.
- It waits until a moment, never for a while, so that waits don't add up to more than was asked.
- It does what it does the same each time: no random numbers but those of a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paceline.core.encode import StreamEncoder
from paceline.core.plan import Plan
from paceline.core.request import Fault
from paceline.core.usage import Usage
from paceline.runtime.engine import LiveEngine
from paceline.runtime.sink import Sink, Timing
from paceline.runtime.stream import Answer


@dataclass(slots=True)
class Scene:
    """Where a fault happens; an answer that isn't streamed has no encoder.

    `drop` ends the client's connection without a word.
    """

    engine: LiveEngine
    plan: Plan
    sink: Sink
    encoder: StreamEncoder | None
    drop: Callable[[], None]


class Nothing:
    """Hands everything on."""

    def __init__(self, asked: Fault, scene: Scene) -> None:
        self.asked = asked
        self.scene = scene
        self.inner = scene.sink
        self.answer: Answer | None = None
        """Set as soon as there is one, before anything is sent."""

    @property
    def spoils(self) -> bool:
        """Whether an answer that isn't streamed ends here, in an error that is the server's."""
        return False

    @property
    def drained(self) -> Callable[[], None] | None:
        """What the real sink calls when it can take more."""
        return self.inner.drained

    @drained.setter
    def drained(self, call: Callable[[], None] | None) -> None:
        self.inner.drained = call

    @property
    def blocked(self) -> bool:
        """Whether nothing may be written now."""
        return self.inner.blocked

    def begin(self, timing: Timing | None) -> None:
        """The headers of a stream."""
        self.inner.begin(timing)

    def write(self, data: bytes) -> None:
        """A part of a stream."""
        self.inner.write(data)

    def end(self, data: bytes) -> None:
        """Its last part."""
        self.inner.end(data)

    def refuse(self, status: int, message: str, code: str) -> None:
        """An error in place of the answer."""
        self.inner.refuse(status, message, code)

    def whole(self, usage: Usage, timing: Timing) -> None:
        """An answer that isn't streamed."""
        self.inner.whole(usage, timing)

    def close(self) -> None:
        """Nobody waits any more: stop whatever was to come."""
