"""Playing recorded answers: one timer for all of them, absolute deadlines, one write a chunk.

What is late is written at once, and the next deadline stays where it is, so that lateness never
adds up. A reader that can't take more waits alone, with nothing piling up for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from paceline.http.sink import HandSender, Message, Send
from paceline.runtime.clock import Clock, Timer

_BUDGET_NS = 8_000_000
"""Longest stretch of writes before the event loop gets its turn."""


class Step(NamedTuple):
    """Something that happens at a moment of the clock; without a message the connection ends."""

    due_ns: int
    message: Message | None


class Play:
    """One answer being played."""

    __slots__ = ("_done", "_hang_up", "_steps", "over", "queued", "sender")

    def __init__(self, send: Send, steps: Sequence[Step], hang_up: Callable[[], None]) -> None:
        """`steps` are in order of time."""
        self.sender = HandSender(send)
        self.over = not steps
        self.queued = False
        self._steps = steps
        self._done = 0
        self._hang_up = hang_up

    @property
    def due_ns(self) -> int:
        """When something is to happen next."""
        return self._steps[self._done].due_ns

    def advance(self, now_ns: int) -> None:
        """Let everything happen that is due, as far as the reader goes along."""
        steps = self._steps
        while not self.over and not self.sender.blocked and steps[self._done].due_ns <= now_ns:
            message = steps[self._done].message
            self._done += 1
            self.over = self._done == len(steps)
            if message is None:
                self.over = True
                self._hang_up()
            else:
                self.sender.post(message)

    def break_off(self) -> None:
        """End it before its time, and the connection with it."""
        self.stop()
        self._hang_up()

    def stop(self) -> None:
        """Nobody listens any more."""
        self.over = True
        self.sender.drained = None


class Player:
    """All answers that are being played. Lives on the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None
        self._due: list[tuple[int, int, Play]] = []
        self._count = itertools.count()
        self._passing = False

    def start(self, play: Play) -> None:
        """Begin; what is due already is written before this returns."""
        if self._timer is None:
            self._timer = self._clock.timer(self._pass)
        play.sender.drained = lambda: self._queue(play)
        play.advance(self._clock.now_ns())
        self._queue(play)

    def close(self) -> None:
        """Stop for good."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None
        for _, _, play in self._due:
            play.stop()
        self._due.clear()

    def _queue(self, play: Play) -> None:
        # A blocked one comes back by itself, when its reader has caught up.
        if play.over or play.queued or play.sender.blocked or self._timer is None:
            return
        play.queued = True
        heappush(self._due, (play.due_ns, next(self._count), play))
        if self._due[0][2] is play and not self._passing:
            self._timer.arm(play.due_ns)

    def _pass(self) -> None:
        now_ns = self._clock.now_ns()
        stop_ns = now_ns + _BUDGET_NS
        due = self._due
        self._passing = True
        while due and (due[0][0] <= now_ns or due[0][2].over):
            play = heappop(due)[2]
            play.queued = False
            play.advance(now_ns)
            self._queue(play)
            now_ns = self._clock.now_ns()
            if now_ns >= stop_ns:
                break
        self._passing = False
        if due and self._timer is not None:
            self._timer.arm(due[0][0])
