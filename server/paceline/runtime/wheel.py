"""The lanes of streams that share their clock with nobody, in order of when they are due.

They sit in a wheel of quarter-millisecond slots, oldest first, so that under load each is written
in its turn and carries what has come due meanwhile. First and last tokens don't wait in that
line: how long a request took, and its rate, hang on them and on no other, and there are only two
a stream.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from paceline.core.steps import FOREVER
from paceline.runtime.clock import Clock
from paceline.runtime.lane import Lane
from paceline.runtime.stream import Stream

_SLOT_NS = 250_000

_BUDGET_NS = 8_000_000
"""Longest stretch of writes before the event loop gets its turn."""

_LOOK_EVERY = 32
"""Lanes between two looks at how long the stretch has been."""

_LEAST_KEPT = 1024
"""Firsts and lasts that may be kept before it is asked which of them still matter."""


class Wheel:
    """Lanes by the time that they are due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lanes: dict[int, list[Lane]] = {}
        self._slots: list[int] = []
        self._urgent: list[tuple[int, int, Lane]] = []
        self._most = _LEAST_KEPT
        self._count = 0

    def add(self, lane: Lane, first_ns: int, last_ns: int) -> None:
        """Take a lane whose stream's first and last tokens are due at these times."""
        lane.due_ns = first_ns
        for at_ns in (first_ns, last_ns):
            self._count += 1
            heappush(self._urgent, (at_ns, self._count, lane))
        if len(self._urgent) > self._most:
            self._forget_ended()

    def flush(self, now_ns: int) -> list[Stream]:
        """Flush what is due, firsts and lasts before all others, within the budget.

        Returns the streams that failed.
        """
        stop_ns = now_ns + _BUDGET_NS
        broken: list[Stream] = []
        urgent = self._urgent
        while urgent and urgent[0][0] <= now_ns:
            self._flush(heappop(urgent)[2], now_ns, broken)
            if self._spent(stop_ns):
                return broken
        slots = self._slots
        while slots and slots[0] * _SLOT_NS <= now_ns:
            if not self._flush_slot(heappop(slots), now_ns, stop_ns, broken):
                break
        return broken

    def next_ns(self) -> int:
        """When something is due next; FOREVER when nothing is."""
        next_ns = self._urgent[0][0] if self._urgent else FOREVER
        if self._slots:
            next_ns = min(next_ns, *(lane.due_ns for lane in self._lanes[self._slots[0]]))
        return next_ns

    def _flush_slot(self, slot: int, now_ns: int, stop_ns: int, broken: list[Stream]) -> bool:
        """Flush one slot's lanes; false when some had to stay."""
        lanes = self._lanes.pop(slot)
        left: list[Lane] = []
        for i, lane in enumerate(lanes):
            lane.queued = False
            if lane.due_ns > now_ns:
                # Written out of turn, and so due later than its slot; or this slot isn't over.
                if lane.due_ns // _SLOT_NS > slot:
                    self._push(lane)
                else:
                    left.append(lane)
                continue
            self._flush(lane, now_ns, broken)
            if self._spent(stop_ns):
                left += lanes[i + 1 :]
                break
        for lane in left:
            self._push(lane, slot)
        return not left

    def _flush(self, lane: Lane, now_ns: int, broken: list[Stream]) -> None:
        broken += lane.flush(now_ns, self._clock)
        if lane.streams and not lane.queued and lane.due_ns < FOREVER:
            self._push(lane)

    def _forget_ended(self) -> None:
        """Let go of streams that were cut long before their last token would have been due."""
        self._urgent = [entry for entry in self._urgent if entry[2].open]
        heapify(self._urgent)
        self._most = max(2 * len(self._urgent), _LEAST_KEPT)

    def _spent(self, stop_ns: int) -> bool:
        """Whether it's the event loop's turn; only looked at now and then."""
        self._count += 1
        return not self._count % _LOOK_EVERY and self._clock.now_ns() > stop_ns

    def _push(self, lane: Lane, slot: int | None = None) -> None:
        lane.queued = True
        if slot is None:
            slot = lane.due_ns // _SLOT_NS
        lanes = self._lanes.get(slot)
        if lanes is None:
            self._lanes[slot] = [lane]
            heappush(self._slots, slot)
        else:
            lanes.append(lane)
