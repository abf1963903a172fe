"""What will be said: decided in full before the first byte of an answer.

A plan holds the text of every choice, token by token, and why each ends; the engine only adds
the time. Streamed and whole answers are read off the same plan, so they can't disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from paceline.core.profile import Profile
from paceline.core.request import GenerationRequest
from paceline.core.tools import Tool

FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


class Pieces(Protocol):
    """The text of a run of tokens, by token.

    A token may release no text: it ends inside a character, or what it says is held back as the
    possible beginning of a stop string. Such a piece is empty, and a later one carries the text.
    Pieces joined are the whole text.
    """

    def __len__(self) -> int:
        """Number of tokens, the silent ones included."""
        ...

    @property
    def dense(self) -> bool:
        """Whether every token releases some text."""
        ...

    def escaped(self, start: int, stop: int) -> list[bytes]:
        """The pieces of tokens start..stop as UTF-8, escaped for the inside of a JSON string."""
        ...

    def text(self) -> str:
        """The whole text."""
        ...

    def ids(self, start: int, stop: int) -> list[int]:
        """The token ids (o200k_base) of tokens start..stop."""
        ...

    def tokens(self, start: int, stop: int) -> list[str]:
        """What each token is by itself, for logprobs, with U+FFFD where it isn't whole text."""
        ...


@dataclass(slots=True)
class CallPlan:
    """One tool call: its head (the name and what frames it), then its arguments or input.

    `tool` is what it calls; `id` is unique in the conversation. A call's first `head_tokens`
    tokens show nothing; those of `arguments` follow.
    """

    id: str
    tool: Tool
    arguments: Pieces
    head_tokens: int = 0

    @property
    def tokens(self) -> int:
        """All tokens of the call."""
        return self.head_tokens + len(self.arguments)


@dataclass(slots=True)
class ChoicePlan:
    """One choice: `reasoning_tokens` first, then the visible `pieces`, then the tool `calls`."""

    index: int
    prompt_index: int
    pieces: Pieces
    finish_reason: FinishReason
    reasoning_tokens: int = 0
    reasoning: Pieces | None = None
    """The reasoning's own text, where it is shown; its length is `reasoning_tokens`."""
    seed: int = 0
    """Keys whatever else is drawn for this choice (logprobs)."""
    calls: list[CallPlan] = field(default_factory=list)
    stop_string: str = ""
    """The caller's stop string that ended the text, where one did."""

    @property
    def output_tokens(self) -> int:
        """All tokens the choice generates, hidden ones included."""
        said = self.reasoning_tokens + len(self.pieces)
        return said + sum(call.tokens for call in self.calls) if self.calls else said


@dataclass(slots=True)
class PromptPlan:
    """One prompt, counted; `blocks` are the hashes of its whole prefix-cache blocks in order."""

    tokens: int
    blocks: tuple[int, ...] = ()
    text: str = ""
    """The text, kept only where it will be echoed."""
    digest: int = 0
    """A 64-bit hash of the whole content: what an answer without a seed is drawn from."""


@dataclass(slots=True)
class Plan:
    """Everything that is known of an answer before its first token is due."""

    request: GenerationRequest
    profile: Profile
    prompts: list[PromptPlan]
    choices: list[ChoicePlan] = field(default_factory=list)
    tier: str = "default"
    """The service tier that really serves it, in the words of an answer."""

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of the whole request: each prompt counts once, whatever n is."""
        prompts = self.prompts
        return prompts[0].tokens if len(prompts) == 1 else sum(p.tokens for p in prompts)

    @property
    def completion_tokens(self) -> int:
        """Tokens generated over all choices."""
        choices = self.choices
        return (
            choices[0].output_tokens if len(choices) == 1 else sum(c.output_tokens for c in choices)
        )

    @property
    def reasoning_tokens(self) -> int:
        """Reasoning tokens over all choices."""
        choices = self.choices
        if len(choices) == 1:
            return choices[0].reasoning_tokens
        return sum(c.reasoning_tokens for c in choices)
