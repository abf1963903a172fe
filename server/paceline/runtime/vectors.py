"""Embedding vectors: unit length, keyed by what is embedded and nothing else."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Sequence
from hashlib import shake_128

DEFAULT_DIMENSIONS = 1536


def unit_vector(key: str | Sequence[int], dimensions: int = DEFAULT_DIMENSIONS) -> array[float]:
    """The vector of a text or of token ids: 32-bit floats, L2 norm 1 within 1e-6.

    Its direction is as good as random: the numbers are an extendable hash of the key and the
    dimension, so the same input gives the same vector everywhere and any change another one.
    """
    if dimensions < 1:
        raise ValueError(f"dimensions must be at least 1, not {dimensions}")
    if isinstance(key, str):
        data = b"text:" + key.encode("utf-8", "surrogatepass")
    else:
        data = b"ids:" + struct.pack(f"<{len(key)}Q", *key)
    digest = shake_128(b"%d:" % dimensions + data).digest(4 * dimensions)
    # The sum of two uniform numbers, centred: close enough to a bell that no axis stands out.
    words = struct.unpack(f"<{2 * dimensions}H", digest)
    raw = [a + b - 65535.5 for a, b in zip(words[::2], words[1::2], strict=True)]
    scale = 1.0 / math.sqrt(math.fsum([x * x for x in raw]))
    return array("f", [x * scale for x in raw])
