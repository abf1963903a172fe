"""Embedding vectors: unit length, keyed by what is embedded and nothing else."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

DEFAULT_DIMENSIONS = 1536


def unit_vector(key: str | Sequence[int], dimensions: int = DEFAULT_DIMENSIONS) -> array[float]:
    """The vector of a text or of token ids: 32-bit floats, L2 norm 1 within 1e-6."""
    raise NotImplementedError
