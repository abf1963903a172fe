"""The grammar of a response's events, walked event by event; its objects judged by openai's types.

`walk` takes a whole stream, checks every event's place and content, and puts together the output
that the events add up to, which must be the one that the last event tells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TERMINAL = ("response.completed", "response.incomplete", "response.failed")
_DELTAS = {
    "message": "response.output_text.delta",
    "function_call": "response.function_call_arguments.delta",
    "custom_tool_call": "response.custom_tool_call_input.delta",
    "reasoning": "response.reasoning_summary_text.delta",
}
_TEXT = {
    "response.output_text.done": "text",
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
    "response.reasoning_summary_text.done": "text",
}
BUILTIN = (
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "web_search_call",
    "file_search_call",
    "computer_call",
    "code_interpreter_call",
    "tool_search_call",
    "mcp_call",
)


def sse_events(data: bytes) -> list[dict[str, Any]]:
    """A stream's events; `event:` and `data:` must say the same, and nothing else is there."""
    assert b"\r" not in data
    *parts, rest = data.split(b"\n\n")
    assert rest == b""
    found = []
    for part in parts:
        first, second = part.split(b"\n")
        assert first.startswith(b"event: ")
        assert second.startswith(b"data: {")
        event = json.loads(second.removeprefix(b"data: "))
        assert event["type"] == first.removeprefix(b"event: ").decode()
        found.append(event)
    return found


def frame_events(data: bytes) -> list[dict[str, Any]]:
    """The same from frames."""
    *lines, rest = data.split(b"\n")
    assert rest == b""
    return [json.loads(line) for line in lines]


def checked(response: dict[str, Any]) -> dict[str, Any]:
    """A response object that openai's types accept, with counts that no client trips over."""
    Response.model_validate(response, strict=True)
    usage = response["usage"]
    if response["status"] in ("completed", "incomplete"):
        for value in (
            usage["input_tokens"],
            usage["output_tokens"],
            usage["total_tokens"],
            usage["input_tokens_details"]["cached_tokens"],
            usage["input_tokens_details"]["cache_write_tokens"],
            usage["output_tokens_details"]["reasoning_tokens"],
        ):
            assert type(value) is int
            assert value >= 0
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    else:
        assert usage is None
    return response


class _Walk:
    def __init__(self, events: Sequence[dict[str, Any]]) -> None:
        self._events = list(events)
        self._at = 0
        self.output: list[dict[str, Any]] = []

    def peek(self) -> str:
        return str(self._events[self._at]["type"]) if self._at < len(self._events) else "(end)"

    def take(self, kind: str) -> dict[str, Any]:
        assert self.peek() == kind
        event = self._events[self._at]
        assert event["sequence_number"] == self._at
        self._at += 1
        return event

    def item_event(self, kind: str, item_id: str) -> dict[str, Any]:
        event = self.take(kind)
        assert event["item_id"] == item_id
        assert event["output_index"] == len(self.output)
        return event

    def item(self) -> None:
        added = self.take("response.output_item.added")
        assert added["output_index"] == len(self.output)
        item = added["item"]
        kind, item_id = item["type"], item["id"]
        if kind == "compaction":
            self.item_event("response.compaction.compacting", item_id)
        elif kind == "reasoning":
            assert item["summary"] == []
            if self.peek() == "response.reasoning_summary_part.added":
                part = self.item_event("response.reasoning_summary_part.added", item_id)
                assert part["part"] == {"type": "summary_text", "text": ""}
                text = self.text(kind, item_id)
                part = self.item_event("response.reasoning_summary_part.done", item_id)
                assert part["part"]["text"] == text
                item["summary"] = [part["part"]]
        elif kind == "message":
            assert item["status"] == "in_progress"
            assert item["content"] == []
            self.item_event("response.content_part.added", item_id)
            text = self.text(kind, item_id)
            part = self.item_event("response.content_part.done", item_id)
            assert part["part"]["text"] == text
            assert part["content_index"] == 0
            item["content"] = [part["part"]]
        elif kind in ("function_call", "custom_tool_call"):
            key = "arguments" if kind == "function_call" else "input"
            assert item[key] == ""
            assert item["status"] == "in_progress"
            item[key] = self.text(kind, item_id)
        else:
            assert kind in BUILTIN
        done = self.take("response.output_item.done")
        assert done["output_index"] == len(self.output)
        if "status" in done["item"]:
            assert done["item"]["status"] in ("completed", "incomplete")
            item["status"] = done["item"]["status"]
        assert done["item"] == item
        self.output.append(item)

    def text(self, kind: str, item_id: str) -> str:
        parts = []
        while self.peek() == _DELTAS[kind]:
            delta = self.item_event(_DELTAS[kind], item_id)
            parts.append(delta["delta"])
        done = self.item_event(_DELTAS[kind].replace(".delta", ".done"), item_id)
        text = "".join(parts)
        assert done[_TEXT[done["type"]]] == text
        return text


def walk(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Check a whole stream; returns the response object of its last event."""
    seen = list(events)
    for event in seen:
        _EVENT.validate_python(event, strict=True)
    walk_ = _Walk(json.loads(json.dumps(seen)))
    created = walk_.take("response.created")["response"]
    if created["status"] == "queued":
        walk_.take("response.queued")
    else:
        assert created["status"] == "in_progress"
    if walk_.peek() == "response.in_progress":
        assert walk_.take("response.in_progress")["response"]["status"] == "in_progress"
    assert created["output"] == []
    assert created["usage"] is None
    while walk_.peek() == "response.output_item.added":
        walk_.item()
    kind = walk_.peek()
    assert kind in TERMINAL, kind
    last = walk_.take(kind)["response"]
    assert walk_.peek() == "(end)"
    final = checked(last)
    assert kind == f"response.{final['status']}"
    assert final["id"] == created["id"]
    if final["status"] in ("completed", "incomplete"):
        assert final["output"] == walk_.output
    same = set(created) - {
        "status", "output", "usage", "completed_at", "incomplete_details", "error",
    }  # fmt: skip
    assert {k: final[k] for k in same} == {k: created[k] for k in same}
    return final
