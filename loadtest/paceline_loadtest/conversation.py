"""A loop's requests, one turn after another, in the words of each dialect.

Requests say that no tool is to be called (`tool_choice` none): when tools run, and how much they
say, is the scenario's to decide, and an answer is text of a known length. The history still reads
as an agent's: each answer is followed by calls that this client adds, and by their results. A
server that calls tools all the same gets the results under its own ids.

What a model thought stays in the context of both Responses dialects, as agents such as Codex have
it: a WebSocket's chain keeps it, and over HTTP its items are sent back. Chat and Messages leave
it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.core.rng import hash64
from paceline_loadtest.caller import Ask, Reply, ToolCall
from paceline_loadtest.model import Dialect, Loop, Target
from paceline_loadtest.prompts import (
    CALL_ARGUMENTS,
    CALL_NAME,
    Part,
    following,
    opening,
    tool_definitions,
)

_UNASKED = "Nothing."
"""The result of a call that a server makes and the scenario doesn't know."""

_ANTHROPIC_TIERS = frozenset({"auto", "standard_only"})
_ANTHROPIC_FAST = frozenset({"fast", "priority", "ultrafast"})


class Conversation:
    """One loop on one target. `thread` names it among all that run.

    `salt` makes its texts those of this run alone, so that no cache knows them from another.
    """

    def __init__(
        self,
        loop: Loop,
        target: Target,
        dialect: Dialect,
        *,
        salt: str = "",
        stream: bool = True,
        thread: str = "",
    ) -> None:
        self.turn = 0
        self._loop = loop
        self._target = target
        self._dialect = dialect
        self._salt = salt
        self._stream = stream
        self._thread = thread or loop.id
        self._tools = tool_definitions(loop, dialect, salt)
        self._system = ""
        self._history: list[dict[str, Any]] = []
        self._previous: str | None = None
        """The response that a WebSocket's next request follows; what it holds isn't sent again."""
        for part in opening(loop, salt):
            if part.role == "system" and dialect == "messages":
                self._system = part.text
            else:
                self._add(part, ())

    @property
    def most_tokens(self) -> int:
        """The most that this turn's answer may come to."""
        turn = self._loop.turns[self.turn]
        return turn.reasoning_tokens + turn.output_tokens

    def ask(self) -> Ask:
        """The request of this turn."""
        turn = self._loop.turns[self.turn]
        body = self._body(self.most_tokens)
        if self._target.paceline:
            body["paceline"] = {
                "output_tokens": self.most_tokens,
                "reasoning_tokens": turn.reasoning_tokens,
                "seed": hash64(self._loop.seed, self.turn) >> 33,
            }
        return Ask(self._dialect, body, self._thread, stream=self._stream)

    def answer(self, reply: Reply) -> None:
        """Take the answer into the history, with what follows it; the next turn is due.

        A turn that failed has an empty reply: the conversation goes on without its answer.
        """
        if self._dialect == "responses-websocket" and reply.response_id is not None:
            self._previous = reply.response_id
            self._history = []
        if self.turn + 1 < len(self._loop.turns):
            said, *rest = following(self._loop, self.turn, reply.text, self._salt)
            # The server's own calls first; they take the places of as many of the loop's.
            calls = list(reply.tool_calls)
            own = {ours: theirs.id for ours, theirs in zip(said.calls, calls, strict=False)}
            spare = calls[len(said.calls) :]
            calls += [ToolCall(i, CALL_NAME, CALL_ARGUMENTS) for i in said.calls[len(calls) :]]
            self._answered(reply, calls)
            for part in rest:
                if part.role != "tool":
                    continue
                self._add(Part("tool", part.text, call_id=own.get(part.call_id, part.call_id)), ())
            for call in spare:
                self._add(Part("tool", _UNASKED, call_id=call.id), ())
            for part in rest:
                if part.role != "tool":
                    self._add(part, ())
        self.turn += 1

    # -- requests --------------------------------------------------------------------------------

    def _body(self, most: int) -> dict[str, Any]:
        target = self._target
        body: dict[str, Any] = {"model": target.model}
        if self._dialect == "messages":
            body |= {"messages": _cached(self._history), "max_tokens": max(most, 1)}
            if self._system:
                body["system"] = self._system
            if target.service_tier in _ANTHROPIC_FAST:
                body["speed"] = "fast"
            elif target.service_tier in _ANTHROPIC_TIERS:
                body["service_tier"] = target.service_tier
        else:
            if self._dialect == "chat":
                body["messages"] = list(self._history)
                limit = "max_completion_tokens"
            else:
                # No copy is kept on the server; a WebSocket's chain lives with its connection.
                body |= {"input": list(self._history), "store": False}
                limit = "max_output_tokens"
                if self._dialect == "responses":
                    body["include"] = ["reasoning.encrypted_content"]
                elif self._previous is not None:
                    body["previous_response_id"] = self._previous
            if not target.paceline:
                body[limit] = max(most, 1)
            if target.service_tier is not None:
                body["service_tier"] = target.service_tier
        if self._tools:
            body["tools"] = self._tools
            body["tool_choice"] = {"type": "none"} if self._dialect == "messages" else "none"
        if self._dialect != "responses-websocket":
            body["stream"] = self._stream
            if self._stream and self._dialect == "chat":
                # Some servers tell a stream's tokens only to those who ask.
                body["stream_options"] = {"include_usage": True}
        return body

    # -- history ---------------------------------------------------------------------------------

    def _answered(self, reply: Reply, calls: Sequence[ToolCall]) -> None:
        if self._dialect in {"chat", "messages"}:
            if reply.text or calls:
                self._add(Part("assistant", reply.text), calls)
            return
        made = {call.id for call in reply.tool_calls}
        if self._dialect == "responses":
            self._history += reply.items
        self._history += [
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
            for call in calls
            if call.id not in made
        ]

    def _add(self, part: Part, calls: Sequence[ToolCall]) -> None:
        if self._dialect == "chat":
            self._history.append(_chat(part, calls))
        elif self._dialect == "messages":
            self._add_blocks(part, calls)
        elif part.role == "tool":
            self._history.append(
                {"type": "function_call_output", "call_id": part.call_id, "output": part.text}
            )
        else:
            self._history.append({"type": "message", "role": part.role, "content": part.text})

    def _add_blocks(self, part: Part, calls: Sequence[ToolCall]) -> None:
        """Anthropic's roles take turns, so results and the user's text are one message."""
        role = "assistant" if part.role == "assistant" else "user"
        blocks: list[dict[str, Any]] = []
        if part.role == "tool":
            blocks.append(
                {"type": "tool_result", "tool_use_id": part.call_id, "content": part.text}
            )
        elif part.text:
            blocks.append({"type": "text", "text": part.text})
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": {}} for call in calls
        ]
        if self._history and self._history[-1]["role"] == role:
            self._history[-1]["content"] += blocks
        else:
            self._history.append({"role": role, "content": blocks})


def _chat(part: Part, calls: Sequence[ToolCall]) -> dict[str, Any]:
    if part.role == "tool":
        return {"role": "tool", "tool_call_id": part.call_id, "content": part.text}
    message: dict[str, Any] = {"role": part.role, "content": part.text}
    if calls:
        message["content"] = part.text or None
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    return message


def _cached(history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The history with the mark that lets all of it be cached, which moves from turn to turn."""
    *before, last = history
    *blocks, end = last["content"]
    marked = {**end, "cache_control": {"type": "ephemeral"}}
    return [*before, {**last, "content": [*blocks, marked]}]
