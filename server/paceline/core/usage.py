"""How many tokens a request took, by kind: the one source of every dialect's usage object."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one response, summed over its choices.

    `cached_tokens` and `cache_write_tokens` are parts of `prompt_tokens`; `reasoning_tokens` is a
    part of `completion_tokens`.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens
