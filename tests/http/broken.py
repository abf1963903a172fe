"""Requests of ten tokens in every dialect, with something wrong."""

from __future__ import annotations

import json
from typing import Any

from websockets.sync.client import ClientConnection

from tests.live import CHAT, COMPLETIONS, PATIENCE_S

RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
DIALECTS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES)


def body(path: str, model: str = "quick", **fields: Any) -> dict[str, Any]:
    """Ten tokens without reasoning."""
    made: dict[str, Any] = {"model": model, **fields}
    made["paceline"] = {"output_tokens": 10, "reasoning_tokens": 0, **fields.get("paceline", {})}
    if path == COMPLETIONS:
        return {"prompt": "x", "max_tokens": 100, **made}
    if path == RESPONSES:
        return {"input": "x", **made}
    return {"messages": [{"role": "user", "content": "x"}], "max_tokens": 100, **made}


def fault(value: Any) -> dict[str, Any]:
    return {"paceline": {"fault": value}}


def create(connection: ClientConnection, **fields: Any) -> None:
    connection.send(json.dumps({"type": "response.create", **body(RESPONSES, **fields)}))


def receive(connection: ClientConnection) -> list[dict[str, Any]]:
    """Frames up to one that ends a response."""
    found: list[dict[str, Any]] = []
    ends = {"response.completed", "response.failed", "error"}
    while not found or found[-1]["type"] not in ends:
        found.append(json.loads(connection.recv(PATIENCE_S)))
    return found
