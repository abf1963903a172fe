"""Log probabilities that look like a model's: finite, ordered, the same each time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from paceline.core.logprobs import TokenLogprob
from paceline.core.rng import mix64, unit
from paceline.runtime.text import Ring
from paceline.runtime.tokenizer import Tokenizer


class LogprobSource:
    """Draws log probabilities; alternatives are words of the default text."""

    def __init__(self, tokenizer: Tokenizer, ring: Ring) -> None:
        self._tokenizer = tokenizer
        self._words = sorted(ring.words.items(), key=lambda word: mix64(word[0]))

    def tokens(self, seed: int, start: int, ids: Sequence[int], top: int) -> list[TokenLogprob]:
        """The entries of `ids`, the first of which is token `start` of a choice with that seed.

        The chosen token has a probability between 0.5 and 1 and so is the likeliest; each
        alternative has a fixed part of what is left over. `top` is how many to list, the chosen
        one included. Their texts differ from each other and from the chosen one's.
        """
        return [
            self._token(mix64(seed + 0x632BE59BD9B4E019 * (start + at)), token, top)
            for at, token in enumerate(ids)
        ]

    def _token(self, key: int, token: int, top: int) -> TokenLogprob:
        data = self._tokenizer.token_bytes(token)
        text = data.decode("utf-8", "replace")
        # A uniform number to the fourth power: most tokens are nearly certain, as a model's are.
        rest = 0.5 * max(unit(key) ** 4, 1e-9)
        chosen = math.log1p(-rest)
        if not top:
            return TokenLogprob(text, chosen, data)
        keep = 0.4 + 0.3 * unit(key ^ 1)
        logprob = math.log(rest) + math.log1p(-keep)
        listed = [TokenLogprob(text, chosen, data)]
        at = key % len(self._words)
        while len(listed) < min(top, len(self._words)):
            word = self._words[at][1]
            at = (at + 1) % len(self._words)
            if word != text:
                listed.append(TokenLogprob(word, logprob, word.encode()))
                logprob += math.log(keep)
        return TokenLogprob(text, chosen, data, tuple(listed))
