"""Embeddings: a JSON object -> EmbeddingRequest, vectors -> one object."""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from paceline.core.request import NO_OVERRIDES, Overrides, TextPrompt, TokenPrompt
from paceline.wire.fields import (
    Check,
    any_text,
    anything,
    body_object,
    missing,
    name_text,
    one_of,
    read,
    unknown_fields,
    whole,
    wrong_value,
)
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.overrides import parse_overrides
from paceline.wire.prompts import parse_prompts
from paceline.wire.sampling import check_model

MAX_DIMENSIONS = 4096


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
    body = body_object(body)
    found = read(body, _TABLE)
    model = check_model(found)
    inputs = found.get("input")
    if inputs is None:
        raise missing("input")
    return EmbeddingRequest(
        model=model,
        inputs=inputs,
        dimensions=found.get("dimensions"),
        encoding=found.get("encoding_format", "float"),
        overrides=parse_overrides(headers, found.get("paceline")),
        unknown=unknown_fields(body, _TABLE),
    )


def _inputs(value: Any, path: str) -> tuple[TextPrompt | TokenPrompt, ...]:
    """Prompts, none of them empty."""
    inputs = parse_prompts(value, path)
    for i, item in enumerate(inputs):
        if isinstance(item, TextPrompt) and not item.text:
            where = f"{path}[{i}]" if isinstance(value, list) else path
            raise wrong_value(where, "a string that isn't empty", "", "empty_string")
    return inputs


_TABLE: dict[str, Check] = {
    "model": name_text,
    "input": _inputs,
    "dimensions": whole(1, MAX_DIMENSIONS),
    "encoding_format": one_of("float", "base64"),
    "user": any_text,
    "paceline": anything,  # overrides.py reads it, together with the headers
}


def encode_embeddings(
    request: EmbeddingRequest, vectors: Sequence[array[float]], prompt_tokens: int
) -> bytes:
    """The `list` object, one 32-bit vector for each input in its order.

    Base64 holds the numbers as little-endian IEEE 754 singles, as OpenAI's does.
    """
    encode = _base64 if request.encoding == "base64" else _floats
    data = b",".join(
        [
            b'{"object":"embedding","index":%d,"embedding":%b}' % (index, encode(vector))
            for index, vector in enumerate(vectors)
        ]
    )
    return (
        b'{"object":"list","data":[%b],"model":%b,'
        b'"usage":{"prompt_tokens":%d,"total_tokens":%d}}'
        % (data, json_bytes(request.model), prompt_tokens, prompt_tokens)
    )


def _floats(vector: array[float]) -> bytes:
    return orjson.dumps(vector.tolist())


def _base64(vector: array[float]) -> bytes:
    if sys.byteorder == "big":
        vector = array("f", vector)
        vector.byteswap()
    return b'"%b"' % base64.b64encode(vector)
