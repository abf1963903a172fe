"""Streams that share a clock: a replica's, or one stream's own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from paceline.core.steps import StepClock
from paceline.runtime.clock import Clock

if TYPE_CHECKING:
    from paceline.runtime.stream import Stream


log = logging.getLogger("paceline")


class Lane:
    """The streams of one clock, flushed together when its next boundary is due."""

    __slots__ = ("changed", "clock", "due_ns", "queued", "step", "streams")

    def __init__(self, clock: StepClock) -> None:
        self.clock = clock
        self.streams: list[Stream] = []
        self.due_ns = 0
        self.queued = False
        """Whether the wheel holds it, where it belongs to one stream alone."""
        self.step = -1
        self.changed = True
        """Whether a stream came, or may write again, since the last flush."""

    @property
    def open(self) -> bool:
        """Whether any of its streams still has tokens to send."""
        return any(stream.open for stream in self.streams)

    def flush(self, now_ns: int, clock: Clock) -> list[Stream]:
        """Send what has come due, and find when there will be more.

        Returns the streams that failed: a fault in one answer's text must cost no other a token.
        """
        broken: list[Stream] = []
        step = self.clock.shown_by(now_ns)
        if step != self.step or self.changed:
            self.step, self.changed = step, False
            gone = False
            for stream in self.streams:
                try:
                    if stream.open and stream.flush(step, clock):
                        self.changed = True
                except Exception:
                    log.exception("writing an answer failed")
                    broken.append(stream)
                gone = gone or not stream.open
            if gone:
                self.streams = [stream for stream in self.streams if stream.open]
        self.due_ns = now_ns if self.changed else self.clock.next_due(step)
        return broken
