"""Random ids, some hundred at a time: asking the system for each costs more than parsing a body."""

from __future__ import annotations

import os

_AT_ONCE = 256
_left: dict[int, list[str]] = {}
# Two processes must not go on from the same ids.
os.register_at_fork(after_in_child=_left.clear)


def random_hex(size: int) -> str:
    """So many random bytes as hex digits, never the same twice."""
    ids = _left.setdefault(size, [])
    try:
        # One step, so that no two threads get the same.
        return ids.pop()
    except IndexError:
        digits = os.urandom(size * _AT_ONCE).hex()
        ids.extend(digits[i : i + 2 * size] for i in range(2 * size, len(digits), 2 * size))
        return digits[: 2 * size]
