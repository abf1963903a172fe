"""The log probability of one token, as every dialect reports it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token, its natural log probability (finite, at most 0), its bytes, its alternatives.

    `token` is the token's text, with U+FFFD where it isn't whole characters; `data` its UTF-8.
    `top` lists the likeliest tokens at its place, best first, the token itself among them; it is
    empty where no alternatives were asked for, and its own entries have none.
    """

    token: str
    logprob: float
    data: bytes
    top: tuple[TokenLogprob, ...] = ()
