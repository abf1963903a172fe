"""A streamed answer around its choices: what chat and text completions have in common."""

from __future__ import annotations

from paceline.core.encode import ChoiceEncoder
from paceline.core.plan import Plan
from paceline.core.usage import Usage
from paceline.wire import sse
from paceline.wire.errors import ApiError
from paceline.wire.head import Head
from paceline.wire.usage import RunningUsage, usage_json


class Stream:
    """The StreamEncoder of both dialects; subclasses fill `choices`.

    `opening` is a chunk up to its choices.
    """

    content_type = sse.CONTENT_TYPE

    def __init__(self, plan: Plan, head: Head, opening: bytes) -> None:
        request = plan.request
        self.choices: list[ChoiceEncoder] = []
        self._head = head
        self._opening = opening
        self._include_usage = request.include_usage
        self._usage_key = b',"usage":null' if request.include_usage else b""
        self._running = (
            RunningUsage(plan.prompt_tokens, len(plan.choices))
            if request.continuous_usage
            else None
        )

    def start(self) -> bytes:
        """Nothing: no byte of a body leaves before the first token."""
        return b""

    def end(self, usage: Usage) -> bytes:
        """The usage chunk where it was asked for, and `[DONE]`."""
        if not self._include_usage:
            return sse.DONE
        return b'%b"choices":[],"usage":%b%b}\n\n%b' % (
            self._opening,
            usage_json(usage),
            self._head.cost(usage),
            sse.DONE,
        )

    def fail(self, status: int, message: str, code: str) -> bytes:
        """The error event; neither a finish chunk nor `[DONE]` follows it."""
        return sse.event(ApiError(status, message, code=code).body())
