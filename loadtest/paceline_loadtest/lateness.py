"""How late the client itself was: what holds up its loop holds up every stamp that it takes."""

from __future__ import annotations

import asyncio
import gc
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from paceline.core.percentile import percentile
from paceline_loadtest.report import Lateness

DEFAULT_LIMIT_S = 0.005
"""A run whose client was later than this at its 99th percentile is marked as spoiled: the bound
that the server's own dashboard holds writes to."""

_BEAT_S = 0.004
"""Under a limit of 5 ms a shorter beat would only be more work."""

_LEAST_SAMPLES = 50
"""A 99th percentile of fewer says little; it is told and spoils nothing."""


class OwnLateness:
    """What was seen of it during one target's run, in seconds, by kind.

    `heartbeat` is how long after its due time each beat of a timer on the client's loop came;
    `send` how long after its time (a slot was free) each call began; `receipt`, of a Paceline on
    this machine alone, from the server's record of a write to its stamp here.
    """

    def __init__(self, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self.limit_s = limit_s
        self.heartbeat = array("d")
        self.send = array("d")
        self.receipt = array("d")

    def kinds(self) -> dict[str, Lateness]:
        """Each kind that has samples."""
        kinds = {"heartbeat": self.heartbeat, "send": self.send, "receipt": self.receipt}
        return {name: self._of(name, found) for name, found in kinds.items() if found}

    def worst(self) -> Lateness | None:
        """The kind that spoils the run, or the one that comes closest to it."""
        kinds = self.kinds().values()
        return max(kinds, key=lambda late: (late.spoils is not None, late.p99_s), default=None)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep the heart beating, and the collector calm; on the running loop."""
        before = gc.get_threshold()
        gc.collect()
        # What is there by now stays: no collection has to walk through it again. A full one of
        # many streams' objects would hold up the loop for longer than a token takes.
        gc.freeze()
        gc.set_threshold(20_000, 50, 1_000)
        heart = _Heart(self.heartbeat)
        try:
            yield
        finally:
            heart.stop()
            gc.set_threshold(*before)
            gc.unfreeze()

    def _of(self, name: str, found: array[float]) -> Lateness:
        ordered = sorted(found)
        p99 = percentile(ordered, 99.0)
        spoils = None
        if p99 > self.limit_s and len(ordered) >= _LEAST_SAMPLES:
            spoils = (
                f"the client itself was late: of its {name}s 1 in 100 by more than "
                f"{p99 * 1e3:.1f} ms, and the limit is {self.limit_s * 1e3:g} ms"
            )
        return Lateness(
            count=len(ordered),
            p50_s=percentile(ordered, 50.0),
            p99_s=p99,
            max_s=ordered[-1],
            limit_s=self.limit_s,
            spoils=spoils,
        )


class _Heart:
    """A timer that notes how late it is, and is due again on its own beat, never sooner."""

    def __init__(self, noted: array[float]) -> None:
        self._noted = noted
        self._loop = asyncio.get_running_loop()
        self._due = perf_counter() + _BEAT_S
        self._timer = self._loop.call_later(_BEAT_S, self._beat)

    def stop(self) -> None:
        self._timer.cancel()

    def _beat(self) -> None:
        now = perf_counter()
        self._noted.append(max(now - self._due, 0.0))
        # A beat that was missed is noted for each of its times, as one that had asked then would
        # have been kept waiting: a stall counts by its length.
        self._due += _BEAT_S
        while self._due <= now:
            self._noted.append(now - self._due)
            self._due += _BEAT_S
        self._timer = self._loop.call_later(self._due - now, self._beat)
