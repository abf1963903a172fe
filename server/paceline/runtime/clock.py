"""The clocks that drive the pacer: the machine's own, and one that a test moves by hand.

Time is in whole nanoseconds since some fixed moment. A clock gives out timers, each of which is
armed for one moment at a time and calls back at or after it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Protocol

from paceline.runtime.timerfd import TimerFd


class Timer(Protocol):
    """Calls back once after each `arm`."""

    def arm(self, at_ns: int) -> None:
        """Call back at `at_ns`, in place of the moment armed before; a past one means at once."""
        ...

    def close(self) -> None:
        """Call back no more."""
        ...


class Clock(Protocol):
    """Tells the time and wakes people up."""

    def now_ns(self) -> int:
        """The present (ns)."""
        ...

    def timer(self, callback: Callable[[], None]) -> Timer:
        """A new timer, not yet armed."""
        ...


class RealClock:
    """CLOCK_MONOTONIC, with timerfd where the system has it and the event loop elsewhere.

    A timerfd is some 30 µs late at the median; an event loop's timers count whole milliseconds.
    """

    now_ns = staticmethod(time.monotonic_ns)

    def timer(self, callback: Callable[[], None]) -> Timer:
        """A timer on the running event loop."""
        loop = asyncio.get_running_loop()
        return TimerFd(loop, callback) if TimerFd.available() else LoopTimer(loop, callback)


class LoopTimer:
    """A timer of the event loop, for systems without timerfd."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, at_ns: int) -> None:
        """Call back at `at_ns` on the monotonic clock."""
        self.close()
        delay = (at_ns - time.monotonic_ns()) / 1e9
        self._handle = self._loop.call_later(max(delay, 0.0), self._callback)

    def close(self) -> None:
        """Call back no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class ScaledClock:
    """The machine's clock run `speed` times as fast: a second of its time takes 1 / `speed`.

    The pacing's own resolution doesn't shrink with it, so at a speed of 100 the timers are late by
    100 times as much of this clock's time.
    """

    def __init__(self, speed: float, clock: Clock | None = None) -> None:
        """`speed` is above 0. Raises ValueError for any other."""
        if not 0.0 < speed < math.inf:
            raise ValueError(f"speed must be a finite number above 0, not {speed!r}")
        self.speed = speed
        self._clock = clock or RealClock()
        self._origin_ns = self._clock.now_ns()

    def now_ns(self) -> int:
        """The present (ns of this clock's time)."""
        origin_ns = self._origin_ns
        return origin_ns + int((self._clock.now_ns() - origin_ns) * self.speed)

    def timer(self, callback: Callable[[], None]) -> Timer:
        """A timer that is armed in this clock's time."""
        return _ScaledTimer(self._clock.timer(callback), self._origin_ns, self.speed)


class _ScaledTimer:
    def __init__(self, timer: Timer, origin_ns: int, speed: float) -> None:
        self._timer = timer
        self._origin_ns = origin_ns
        self._speed = speed

    def arm(self, at_ns: int) -> None:
        # Rounded up, or the timer might fire when this clock is not yet there.
        self._timer.arm(self._origin_ns + math.ceil((at_ns - self._origin_ns) / self._speed))

    def close(self) -> None:
        self._timer.close()


class ManualClock:
    """A clock that stands still until a test moves it; its timers fire in order, on time.

    `late_ns` makes every timer that much late, as a busy machine would.
    """

    def __init__(self, now_ns: int = 0, late_ns: int = 0) -> None:
        self.late_ns = late_ns
        self._now_ns = now_ns
        self._timers: list[_ManualTimer] = []

    def now_ns(self) -> int:
        """The present (ns)."""
        return self._now_ns

    def timer(self, callback: Callable[[], None]) -> Timer:
        """A timer that fires while `advance` passes its moment."""
        timer = _ManualTimer(self, callback)
        self._timers.append(timer)
        return timer

    def advance(self, by_ns: int) -> None:
        """Move on, stopping at each armed timer on the way."""
        end_ns = self._now_ns + by_ns
        while True:
            due = [t for t in self._timers if t.at_ns is not None and t.at_ns <= end_ns]
            if not due:
                break
            timer = min(due, key=lambda t: t.at_ns or 0)
            self._now_ns = max(self._now_ns, timer.at_ns or 0)
            timer.at_ns = None
            timer.callback()
        self._now_ns = end_ns

    def forget(self, timer: _ManualTimer) -> None:
        """Drop a closed timer."""
        self._timers.remove(timer)


class _ManualTimer:
    def __init__(self, clock: ManualClock, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.at_ns: int | None = None
        self._clock = clock

    def arm(self, at_ns: int) -> None:
        self.at_ns = max(at_ns, self._clock.now_ns()) + self._clock.late_ns

    def close(self) -> None:
        self.at_ns = None
        self._clock.forget(self)
