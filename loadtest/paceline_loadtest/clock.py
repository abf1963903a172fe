"""Waiting on the clock of `time.perf_counter()`, by absolute times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter


async def sleep_until(due: float) -> float:
    """Wait until `due`, never less; returns when it was over.

    A timer may wake a hair early. With a due time that has passed it doesn't wait at all.
    """
    now = perf_counter()
    while now < due:
        await asyncio.sleep(due - now)
        now = perf_counter()
    return now


class IdleWatch:
    """Calls `give_up` once nothing has been read for `timeout_s` seconds.

    One timer that looks again: reading costs it nothing.
    """

    def __init__(
        self,
        timeout_s: float,
        last_read: Callable[[], float],
        give_up: Callable[[str], None],
    ) -> None:
        self._timeout_s = timeout_s
        self._last_read = last_read
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(timeout_s, self._look)

    def cancel(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        left_s = self._last_read() + self._timeout_s - perf_counter()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look)
        else:
            self._give_up(f"nothing came for {self._timeout_s:g} s")
