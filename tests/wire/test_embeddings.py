from __future__ import annotations

import base64
import json
import struct
from array import array
from typing import Any

import pytest
from openai.types import CreateEmbeddingResponse

from paceline.core.request import TextPrompt, TokenPrompt
from paceline.wire.embeddings import EmbeddingRequest, encode_embeddings, parse_embeddings
from paceline.wire.errors import ApiError

VECTORS = [array("f", [0.6, -0.8]), array("f", [1.0, 0.0])]


def parse(**body: Any) -> EmbeddingRequest:
    return parse_embeddings({"model": "m", **body}, {})


def test_inputs_of_every_form() -> None:
    assert parse(input="a") == EmbeddingRequest("m", (TextPrompt("a"),))
    assert parse(input=["a", "b"]).inputs == (TextPrompt("a"), TextPrompt("b"))
    assert parse(input=[1, 2]).inputs == (TokenPrompt((1, 2)),)
    assert parse(input=[[1], [2]]).inputs == (TokenPrompt((1,)), TokenPrompt((2,)))
    got = parse(input="a", dimensions=3, encoding_format="base64", user="u", odd=1)
    assert (got.dimensions, got.encoding, got.unknown) == (3, "base64", ("odd",))
    assert parse(input="a", dimensions=None, encoding_format=None) == parse(input="a")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": []}, "input"),
        ({"input": [[]]}, "input[0]"),
        ({"input": 3}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": 4097}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "model": None}, "model"),
    ],
)
def test_a_wrong_value_is_refused_by_name(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(**body)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_floats() -> None:
    body = encode_embeddings(parse(input=["a", "b"]), VECTORS, 7)
    got = CreateEmbeddingResponse.model_validate_json(body, strict=True)
    assert [(d.index, d.embedding) for d in got.data] == [
        (i, vector.tolist()) for i, vector in enumerate(VECTORS)
    ]
    assert (got.usage.prompt_tokens, got.usage.total_tokens) == (7, 7)


def test_base64_is_little_endian_singles() -> None:
    request = parse(input=["a", "b"], encoding_format="base64")
    got = json.loads(encode_embeddings(request, VECTORS, 7))
    for entry, vector in zip(got["data"], VECTORS, strict=True):
        raw = base64.b64decode(entry["embedding"], validate=True)
        assert list(struct.unpack("<2f", raw)) == vector.tolist()
