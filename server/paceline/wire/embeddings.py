"""Embeddings: a JSON object -> EmbeddingRequest, vectors -> one object."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from paceline.core.request import NO_OVERRIDES, Overrides, TextPrompt, TokenPrompt


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts or token ids to embed, each into `dimensions` numbers (None: the model's own)."""

    model: str
    inputs: tuple[TextPrompt | TokenPrompt, ...]
    dimensions: int | None = None
    encoding: Literal["float", "base64"] = "float"
    overrides: Overrides = NO_OVERRIDES
    unknown: tuple[str, ...] = ()


def parse_embeddings(body: Any, headers: Mapping[str, str]) -> EmbeddingRequest:
    """The request that a body of POST /v1/embeddings makes; raises ApiError."""
    raise NotImplementedError


def encode_embeddings(
    request: EmbeddingRequest, vectors: Sequence[array[float]], prompt_tokens: int
) -> bytes:
    """The `list` object, one 32-bit vector for each input in its order."""
    raise NotImplementedError
