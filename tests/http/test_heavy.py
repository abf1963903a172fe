"""One request must not keep the others waiting, however much it asks for."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.live import CHAT, Server, chat


def _schema(**schema: Any) -> dict[str, Any]:
    named = {"name": "x", "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


LONG = "hello world " * 30_000

HEAVY = {
    "echo": (chat("flat-1000", LONG, n=16, stream=True, paceline={"mode": "echo"}), 0),
    "log probabilities": (
        chat("instant", max_tokens=8_000, ignore_eos=True, logprobs=True, top_logprobs=20),
        200,
    ),
    "paced log probabilities": (
        chat("flat-1000000", max_tokens=8_000, ignore_eos=True, logprobs=True, top_logprobs=20),
        200,
    ),
    "json": (chat("instant", n=32, **_schema(type="string", minLength=99_000)), 200),
    "embeddings": (
        {
            "model": "instant",
            "input": [f"a{i}" for i in range(600)],
            "dimensions": 4_096,
            "encoding_format": "base64",
        },
        200,
    ),
    "fields that nobody knows": (chat("instant", **{f"f{i}": 1 for i in range(100_000)}), 200),
    "backtracking": (
        chat("instant", **_schema(pattern="^(a|b|ab)*c$", type="string", default="ab" * 5_000)),
        200,
    ),
    "references": (
        chat(
            "instant",
            **_schema(
                **{
                    "$ref": "#/$defs/a0",
                    "$defs": {
                        f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 4} if i < 12 else False
                        for i in range(13)
                    },
                }
            ),
        ),
        400,
    ),
}


# By the endpoint of those that aren't chats.
ELSEWHERE = {"embeddings": "/v1/embeddings"}


@pytest.mark.realtime
@pytest.mark.parametrize("name", HEAVY)
def test_others_do_not_wait(server: Server, name: str) -> None:
    body, status = HEAVY[name]
    witness = chat("flat-500", stream=True, max_tokens=1_000, ignore_eos=True)
    rid = "witness-" + name.replace(" ", "-")
    watching = threading.Thread(target=server.post, args=(CHAT, witness, {"X-Request-Id": rid}))
    watching.start()
    try:
        if status:
            answer = server.post(ELSEWHERE.get(name, CHAT), body)
            assert answer.status == status
            if "logprobs" in body:
                assert len(answer.object["choices"][0]["logprobs"]["content"]) == 8_000
        else:
            _break_off(server, body)
    finally:
        watching.join()
    chunks = server.record(rid)["choices"][0]["chunks"]
    assert max(chunk["left_ms"] - chunk["due_ms"] for chunk in chunks) < 150


def _break_off(server: Server, body: dict[str, Any]) -> None:
    """Wait for an answer's first bytes, and leave."""
    with server.http().stream("POST", CHAT, json=body, timeout=30) as answer:
        assert answer.status_code == 200
        next(answer.iter_raw())
