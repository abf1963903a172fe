"""Token counts as OpenAI's usage object (chat and text completions)."""

from __future__ import annotations

from paceline.core.usage import Usage


def usage_json(usage: Usage) -> bytes:
    """The whole object; every detail is a number, 0 and not null where there is nothing."""
    return (
        b'{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,'
        b'"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d,"audio_tokens":0},'
        b'"completion_tokens_details":{"reasoning_tokens":%d,"audio_tokens":0,'
        b'"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}'
        % (
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.prompt_tokens + usage.completion_tokens,
            usage.cached_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
        )
    )


class RunningUsage:
    """What a stream has generated so far, over all its choices (`continuous_usage_stats`).

    The details are left out: what was cached is known for certain only at the end.
    """

    __slots__ = ("_completion", "_of", "_prompt")

    def __init__(self, prompt_tokens: int, choices: int) -> None:
        self._prompt = prompt_tokens
        self._completion = 0
        self._of = [0] * choices

    def advance(self, slot: int, tokens: int) -> bytes:
        """Choice number `slot` has come to `tokens` in all; the usage from there."""
        self._completion += tokens - self._of[slot]
        self._of[slot] = tokens
        return self.json()

    def json(self) -> bytes:
        """The usage as it stands, with its key and the comma before it."""
        return b',"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}' % (
            self._prompt,
            self._completion,
            self._prompt + self._completion,
        )
