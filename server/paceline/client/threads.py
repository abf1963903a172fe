"""Threads that read streams beside one that computes or draws."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

_SWITCH_S = 0.000_5


@contextlib.contextmanager
def quick_threads() -> Iterator[None]:
    """Let threads take turns every half millisecond, so that a stamp isn't late by others' work.

    Python hands over after 5 ms unless told otherwise, which is five tokens of a fast stream.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
