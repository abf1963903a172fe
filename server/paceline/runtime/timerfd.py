"""Linux's timerfd on an event loop, by ctypes: Python has its own only from 3.13 on.

An absolute deadline on CLOCK_MONOTONIC, read through `loop.add_reader`. One a process is enough.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK = 0o4000
_TFD_CLOEXEC = 0o2000000
_TFD_TIMER_ABSTIME = 1


class _TimeSpec(ctypes.Structure):
    _fields_ = (("sec", ctypes.c_long), ("nsec", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


class TimerFd:
    """A timer armed for absolute moments of CLOCK_MONOTONIC."""

    @staticmethod
    def available() -> bool:
        """Whether this system has timerfd where ctypes finds it."""
        return sys.platform == "linux" and hasattr(_libc(), "timerfd_create")

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        """Raises OSError when the system has no timer to give."""
        libc = _libc()
        self._fd = libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
        if self._fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._set = libc.timerfd_settime
        self._spec = _TimerSpec()
        self._ref = ctypes.byref(self._spec)
        self._loop = loop
        self._callback = callback
        loop.add_reader(self._fd, self._expired)

    def arm(self, at_ns: int) -> None:
        """Call back at `at_ns`; a moment that has passed fires at once."""
        # Zero would disarm the timer instead of firing it.
        at_ns = max(at_ns, 1)
        value = self._spec.value
        value.sec = at_ns // 1_000_000_000
        value.nsec = at_ns % 1_000_000_000
        self._set(self._fd, _TFD_TIMER_ABSTIME, self._ref, None)

    def close(self) -> None:
        """Call back no more and give the descriptor back."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _expired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            # A timer armed anew between its firing and this call has nothing to read.
            return
        self._callback()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
