"""Random numbers by key: the same key gives the same number, whatever else runs.

There is no generator with a state, and so nothing that the order of requests could change.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from statistics import NormalDist

_NORMAL = NormalDist()
_Z90 = _NORMAL.inv_cdf(0.9)
_MASK = (1 << 64) - 1


def hash64(*key: int | str | bytes) -> int:
    """A 64-bit hash of the key's parts; the type and the border of each part count."""
    digest = blake2b(digest_size=8)
    for part in key:
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        digest.update(b"%s%d:" % (type(part).__name__[:1].encode(), len(data)))
        digest.update(data)
    return int.from_bytes(digest.digest(), "little")


def mix64(x: int) -> int:
    """Scramble a 64-bit number (the finaliser of splitmix64): a cheap step from key to key."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def unit(key: int) -> float:
    """A uniform number in the open interval (0, 1) from a 64-bit key."""
    return ((mix64(key) >> 11) + 0.5) / (1 << 53)


def normal(key: int) -> float:
    """A standard normal number from a 64-bit key."""
    return _NORMAL.inv_cdf(unit(key))


def lognormal(key: int, p50: float, p90: float) -> float:
    """A log-normal number given by its median and its 90th percentile, in their unit.

    `p90` must not be below `p50`. Where p50 is 0 the answer is 0; where p90 equals p50 it is that
    value.
    """
    if p50 <= 0.0 or p90 == p50:
        return p50 if p50 > 0.0 else 0.0
    return p50 * math.exp(normal(key) / _Z90 * math.log(p90 / p50))
