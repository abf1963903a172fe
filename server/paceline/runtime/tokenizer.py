"""Text to tokens and back, as any client that uses o200k_base would count."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence

import tiktoken

from paceline.runtime.vocabulary import SPECIAL_TOKENS, load_encoding

# tiktoken's regular expression engine gives up on a run of a million white space characters, and
# takes the thread down with it. A run is cut at half of that; the count is then off by a token.
_MOST_SPACE = 500_000
_LONG_SPACE = re.compile(r"\s{64,}")

_SPECIAL_BYTES = {number: text.encode() for text, number in SPECIAL_TOKENS.items()}


class Tokenizer:
    """o200k_base, where the names of special tokens are ordinary text."""

    def __init__(self, encoding: tiktoken.Encoding | None = None) -> None:
        self._encoding = encoding or load_encoding()
        self.vocabulary_size: int = self._encoding.n_vocab

    def encode(self, text: str) -> list[int]:
        """The token ids of a text; a lone surrogate counts as U+FFFD."""
        if len(text) > _MOST_SPACE:
            return self._encode_long(text)
        return self._encoding.encode_ordinary(text)

    def count(self, text: str) -> int:
        """The number of tokens of a text."""
        return len(self.encode(text))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, with U+FFFD for bytes that make no character."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, none for a number that o200k_base leaves unused."""
        special = _SPECIAL_BYTES.get(token)
        if special is not None:
            return special
        try:
            return self._encoding.decode_single_token_bytes(token)
        except (KeyError, OverflowError):
            return b""

    def token_text(self, token: int) -> str:
        """What one token says by itself, with U+FFFD where that is no whole text."""
        return self.token_bytes(token).decode("utf-8", "replace")

    def pieces(self, ids: Iterable[int], *, flush: bool = True) -> list[str]:
        """The text that each token releases, a character only once all of its bytes are there.

        The pieces joined are `decode(ids)`: what can never become a character is released as
        U+FFFD, an unfinished one at the end with the last token, or never without `flush`.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        released = [decoder.decode(self.token_bytes(token)) for token in ids]
        if flush and (rest := decoder.decode(b"", final=True)):
            released[-1] += rest
        return released

    def _encode_long(self, text: str) -> list[int]:
        ids: list[int] = []
        done = 0
        for run in _LONG_SPACE.finditer(text):
            for cut in range(run.start() + _MOST_SPACE, run.end(), _MOST_SPACE):
                ids += self._encoding.encode_ordinary(text[done:cut])
                done = cut
        ids += self._encoding.encode_ordinary(text[done:])
        return ids
