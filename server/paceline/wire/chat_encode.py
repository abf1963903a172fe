"""Chat completions, the answer: a Plan -> chunks, or one object."""

from __future__ import annotations

from paceline.core.encode import ChoiceEncoder
from paceline.core.plan import Plan
from paceline.core.usage import Usage
from paceline.wire import sse
from paceline.wire.head import Head, LogprobsFn


class ChatStream:
    """The StreamEncoder of a chat completion (one ChoiceEncoder for each of plan.choices)."""

    content_type = sse.CONTENT_TYPE
    choices: list[ChoiceEncoder]

    def __init__(
        self,
        plan: Plan,
        head: Head,
        *,
        tokens_per_chunk: int = 1,
        show_reasoning: bool = False,
        logprobs: LogprobsFn | None = None,
    ) -> None:
        raise NotImplementedError

    def start(self) -> bytes:
        """Nothing: the role chunk leaves with the first token."""
        return b""

    def end(self, usage: Usage) -> bytes:
        """The usage chunk where it was asked for, and `[DONE]`."""
        raise NotImplementedError

    def fail(self, status: int, message: str, code: str) -> bytes:
        """The error event; neither a finish chunk nor `[DONE]` follows it."""
        raise NotImplementedError


def whole_chat(
    plan: Plan,
    head: Head,
    usage: Usage,
    *,
    show_reasoning: bool = False,
    logprobs: LogprobsFn | None = None,
) -> bytes:
    """The `chat.completion` object that a stream of the same plan adds up to."""
    raise NotImplementedError
