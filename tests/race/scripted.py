"""Lanes that received what a script says, without a server or a clock."""

from __future__ import annotations

import json
from typing import Any

from paceline.client.sse import DONE, Event
from paceline.race.lane import Lane


def chunk(text: str = "", *, finish: str | None = None, usage: int | None = None) -> Event:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    body: dict[str, Any] = {"choices": [choice]}
    if usage is not None:
        body["usage"] = {"completion_tokens": usage}
    return Event(json.dumps(body))


def usage_event(tokens: int, reasoning: int = 0) -> Event:
    details = {"reasoning_tokens": reasoning}
    usage = {"completion_tokens": tokens, "completion_tokens_details": details}
    return Event(json.dumps({"choices": [], "usage": usage}))


def feed(lane: Lane, *, ttft: float, gap: float, tokens: int, word: str = " word") -> None:
    """Send at 100.0, then so many tokens; not yet the end."""
    lane.begin(100.0)
    lane.receive(100.0 + ttft / 2, [Event('{"choices":[{"delta":{"role":"assistant"}}]}')])
    for i in range(tokens):
        lane.receive(100.0 + ttft + i * gap, [chunk(word)])


def finished(model: str, *, ttft: float, gap: float, tokens: int = 101) -> Lane:
    lane = Lane(model, tokens)
    feed(lane, ttft=ttft, gap=gap, tokens=tokens)
    at = 100.0 + ttft + (tokens - 1) * gap
    lane.receive(at, [chunk(finish="length"), usage_event(tokens), Event(DONE)])
    return lane
