"""The log probability of one token, as every dialect reports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A generated token's natural-log probability and the most likely tokens at its place.

    `token` is the token's text (U+FFFD where it isn't whole characters), `bytes` its UTF-8.
    `top` lists (token, logprob, bytes), the most likely first; all log probabilities are finite
    and at most 0.
    """

    token: str
    logprob: float
    bytes: list[int]
    top: list[tuple[str, float, list[int]]]
