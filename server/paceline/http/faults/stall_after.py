"""Nothing moves for a while, then what has come due meanwhile arrives at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from paceline.core.request import Fault
from paceline.core.usage import Usage
from paceline.http.faults.after import After
from paceline.http.faults.nothing import Scene
from paceline.runtime.clock import Timer
from paceline.runtime.sink import Timing


class StallAfter(After):
    """Holds everything back until a moment. Tokens stay due when they were, as on a network."""

    breaks = False

    def __init__(self, asked: Fault, scene: Scene) -> None:
        super().__init__(asked, scene)
        self._timer: Timer | None = None
        self._held: list[Callable[[], None]] = []

    @property
    def blocked(self) -> bool:
        """Whether nothing may be written now."""
        return self._timer is not None or self.inner.blocked

    def strike(self) -> bool:
        """The pause begins; the answer goes on behind it."""
        clock = self.scene.engine.clock
        self._timer = clock.timer(self._resume)
        self._timer.arm(clock.now_ns() + round(self.asked.ms * 1e6))
        return True

    def strike_whole(self, usage: Usage, timing: Timing) -> None:
        """The answer comes late."""
        self.strike()
        self._held.append(partial(self.inner.whole, usage, timing))

    def write(self, data: bytes) -> None:
        """A part of a stream, now or after the pause."""
        if self._timer is None:
            self.inner.write(data)
        else:
            self._held.append(partial(self.inner.write, data))

    def end(self, data: bytes) -> None:
        """The last part; what breaks an answer off breaks the pause off too."""
        if self._timer is not None and self.victim.record.state in ("failed", "aborted"):
            self._resume()
        if self._timer is None:
            self.inner.end(data)
        else:
            self._held.append(partial(self.inner.end, data))

    def close(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None
            self._held.clear()

    def _resume(self) -> None:
        held = list(self._held)
        self.close()
        for send in held:
            send()
        if not self.victim.over:
            self.scene.engine.pacer.resume(self.victim)
