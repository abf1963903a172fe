"""What a stream's events say, dialect by dialect: when content came, what it was, how it ended.

Each event is read with the time at which the piece came in that completed it. Nothing raises: an
event that can't be read is an error of the call.
"""

from __future__ import annotations

from typing import Any

import orjson

from paceline_loadtest.caller import Reply, ToolCall
from paceline_loadtest.errors import error_text
from paceline_loadtest.model import Call, Dialect

_THOUGHTS = ("reasoning_content", "reasoning")


class Marks:
    """Reads one stream's events into a `Call` and a `Reply`."""

    __slots__ = ("_texts", "call", "ended", "reply")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.reply = Reply()
        self.ended = False
        """Whether the stream has said that it is complete, or what was wrong."""
        self._texts: list[str] = []

    def event(self, data: bytes, at: float) -> None:
        """Read the data of an event."""
        try:
            found = orjson.loads(data)
        except ValueError:
            self.fail(f"an event is not JSON: {data[:80]!r}")
            return
        if not isinstance(found, dict):
            self.fail(f"an event is not a JSON object: {data[:80]!r}")
            return
        try:
            self.read(found, at)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            self.fail(f"an event is not as its API has it ({error!r}): {data[:80]!r}")

    def read(self, event: dict[str, Any], at: float) -> None:
        """Read an event; may raise whatever its being malformed raises."""
        raise NotImplementedError

    def whole(self, body: bytes, at: float) -> None:
        """Read an answer that came in one piece."""
        try:
            self.read_whole(orjson.loads(body), at)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            self.fail(f"the answer is not as its API has it ({error!r}): {body[:80]!r}")

    def read_whole(self, answer: dict[str, Any], at: float) -> None:
        """Read it; may raise whatever its being malformed raises."""
        raise NotImplementedError

    def fail(self, why: str) -> None:
        """The stream has failed; the first reason stays."""
        if self.call.error is None:
            self.call.error = why
        self.ended = True

    def finish(self) -> Reply:
        """The stream is over: what was said."""
        if not self.ended:
            self.fail("the stream ended before its answer did")
        self.reply.text = "".join(self._texts)
        return self.reply

    def content(self, at: float) -> None:
        """Something was said, in whatever channel."""
        call = self.call
        if call.first_at is None:
            call.first_at = at
        call.last_at = at
        call.chunk_at.append(at)

    def visible(self, text: str) -> None:
        """Text, or a piece of a tool's call: what a user's program could work with."""
        self._texts.append(text)
        if self.call.first_visible_at is None:
            self.call.first_visible_at = self.call.last_at


class ChatMarks(Marks):
    """Chunks of a chat completion."""

    __slots__ = ("_calls", "_finished")

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._calls: dict[int, ToolCall] = {}
        self._finished = False

    def event(self, data: bytes, at: float) -> None:
        """A chunk, or the word that ends the stream."""
        if data == b"[DONE]":
            self.ended = True
        else:
            super().event(data, at)

    def read(self, event: dict[str, Any], at: float) -> None:
        """See `Marks`."""
        choices = event.get("choices")
        if choices:
            choice = choices[0]
            delta = choice.get("delta")
            if delta:
                text = delta.get("content")
                if text:
                    self.content(at)
                    self.visible(text)
                else:
                    self._other(delta, at)
            if choice.get("finish_reason") is not None:
                self._finished = True
                self.reply.finish_reason = choice["finish_reason"]
        elif event.get("error"):
            self.fail(error_text(event))
            return
        if (usage := event.get("usage")) is not None:
            chat_usage(self.call, usage)
        if (tier := event.get("service_tier")) is not None:
            self.call.service_tier = tier

    def read_whole(self, answer: dict[str, Any], at: float) -> None:
        """A chat completion: its message is read as one delta would be."""
        choice = answer["choices"][0]
        message = choice["message"]
        calls = [{**c, "index": i} for i, c in enumerate(message.get("tool_calls") or ())]
        delta = {**message, "tool_calls": calls}
        self.read({**answer, "choices": [{**choice, "delta": delta}]}, at)
        self.ended = True

    def _other(self, delta: dict[str, Any], at: float) -> None:
        if any(delta.get(name) for name in _THOUGHTS):
            self.content(at)
        if delta.get("refusal"):
            self.content(at)
            self.visible(delta["refusal"])
        calls = delta.get("tool_calls")
        for piece in calls or ():
            call = self._calls.setdefault(piece["index"], ToolCall("", "", ""))
            function = piece.get("function") or piece.get("custom") or {}
            call.id = piece.get("id") or call.id
            call.name = function.get("name") or call.name
            call.arguments += function.get("arguments") or function.get("input") or ""
        if calls:
            self.content(at)
            self.visible("")

    def finish(self) -> Reply:
        """A stream that names its finish and then closes has ended well without `[DONE]`."""
        self.ended = self.ended or self._finished
        if self.call.error is None and self.ended and not self._finished:
            self.fail("the stream ended without a finish reason")
        self.reply.tool_calls = list(self._calls.values())
        return super().finish()


def chat_usage(call: Call, usage: dict[str, Any]) -> None:
    """Note a chat completion's usage."""
    call.prompt_tokens = usage.get("prompt_tokens")
    call.output_tokens = usage.get("completion_tokens")
    call.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    call.reasoning_tokens = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")


RESPONSE_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
"""The events behind which nothing more comes of a response."""


class ResponseMarks(Marks):
    """Events of the Responses API, over HTTP or a WebSocket."""

    __slots__ = ()

    def read(self, event: dict[str, Any], at: float) -> None:
        """See `Marks`."""
        kind: str = event["type"]
        if kind.endswith(".delta"):
            text = event["delta"]
            if text:
                self.content(at)
                # Thoughts, and what they are summed up as, are no part of the answer.
                if kind.startswith(("response.output_text", "response.refusal")):
                    self.visible(text)
                elif not kind.startswith("response.reasoning"):
                    self.visible("")
        elif kind in {"response.completed", "response.incomplete"}:
            self._end(event["response"])
        elif kind == "response.failed":
            self._end(event["response"])
            self.fail(error_text(event["response"]))
        elif kind == "error":
            self.fail(error_text(event))

    def read_whole(self, answer: dict[str, Any], at: float) -> None:
        """A response object."""
        if answer["status"] == "failed":
            self.fail(error_text(answer))
        self._end(answer)
        for item in self.reply.items:
            if item["type"] == "message":
                self.content(at)
                for part in item["content"]:
                    self.visible(part.get("text") or part.get("refusal") or "")
            elif item["type"] != "reasoning":
                self.content(at)
                self.visible("")

    def _end(self, response: dict[str, Any]) -> None:
        self.ended = True
        self.reply.response_id = response.get("id")
        self.reply.items = response.get("output") or []
        self.reply.finish_reason = response.get("status")
        self.reply.tool_calls = [
            ToolCall(item["call_id"], item["name"], item.get("arguments") or item.get("input", ""))
            for item in self.reply.items
            if item["type"] in {"function_call", "custom_tool_call"}
        ]
        self.call.service_tier = response.get("service_tier")
        reason = (response.get("incomplete_details") or {}).get("reason")
        if reason not in {None, "max_output_tokens"}:
            self.fail(f"the response is incomplete: {reason}")
        if usage := response.get("usage"):
            response_usage(self.call, usage)


def response_usage(call: Call, usage: dict[str, Any]) -> None:
    """Note a response's usage."""
    call.prompt_tokens = usage.get("input_tokens")
    call.output_tokens = usage.get("output_tokens")
    call.cached_tokens = (usage.get("input_tokens_details") or {}).get("cached_tokens")
    call.reasoning_tokens = (usage.get("output_tokens_details") or {}).get("reasoning_tokens")


class MessageMarks(Marks):
    """Events of Anthropic's Messages."""

    __slots__ = ("_blocks",)

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self._blocks: dict[int, ToolCall] = {}

    def read(self, event: dict[str, Any], at: float) -> None:
        """See `Marks`."""
        kind = event["type"]
        if kind == "content_block_delta":
            delta = event["delta"]
            if text := delta.get("text"):
                self.content(at)
                self.visible(text)
            elif delta.get("thinking"):
                self.content(at)
            elif delta["type"] == "input_json_delta" and delta.get("partial_json"):
                self.content(at)
                self.visible("")
                self._blocks[event["index"]].arguments += delta["partial_json"]
        elif kind == "content_block_start":
            block = event["content_block"]
            if block["type"] == "tool_use":
                self._blocks[event["index"]] = ToolCall(block["id"], block["name"], "")
        elif kind == "message_start":
            message_usage(self.call, event["message"].get("usage") or {})
        elif kind == "message_delta":
            self.reply.finish_reason = event["delta"].get("stop_reason")
            message_usage(self.call, event.get("usage") or {})
        elif kind == "message_stop":
            self.ended = True
        elif kind == "error":
            self.fail(error_text(event))

    def read_whole(self, answer: dict[str, Any], at: float) -> None:
        """A message."""
        for i, block in enumerate(answer["content"]):
            self.content(at)
            if block["type"] == "text":
                self.visible(block["text"])
            elif block["type"] == "tool_use":
                self.visible("")
                arguments = orjson.dumps(block["input"]).decode()
                self._blocks[i] = ToolCall(block["id"], block["name"], arguments)
        self.reply.finish_reason = answer.get("stop_reason")
        message_usage(self.call, answer.get("usage") or {})
        self.ended = True

    def finish(self) -> Reply:
        """See `Marks`."""
        self.reply.tool_calls = list(self._blocks.values())
        return super().finish()


def message_usage(call: Call, usage: dict[str, Any]) -> None:
    """Note a message's usage; its three kinds of input are one prompt here."""
    if usage.get("input_tokens") is not None:
        cached = usage.get("cache_read_input_tokens") or 0
        written = usage.get("cache_creation_input_tokens") or 0
        call.prompt_tokens = usage["input_tokens"] + cached + written
        call.cached_tokens = cached
    if usage.get("output_tokens") is not None:
        call.output_tokens = usage["output_tokens"]
    details = usage.get("output_tokens_details") or {}
    if details.get("thinking_tokens") is not None:
        call.reasoning_tokens = details["thinking_tokens"]
    # What was served faster is a tier of its own here, whatever its API calls it.
    if usage.get("speed") == "fast":
        call.service_tier = "fast"
    elif usage.get("service_tier") is not None:
        call.service_tier = usage["service_tier"]


_MARKS: dict[Dialect, type[Marks]] = {
    "chat": ChatMarks,
    "responses": ResponseMarks,
    "responses-websocket": ResponseMarks,
    "messages": MessageMarks,
}


def marks_of(dialect: Dialect, call: Call) -> Marks:
    """A reader for a dialect's events."""
    return _MARKS[dialect](call)
