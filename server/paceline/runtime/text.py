"""The text of answers, by token: windows on a ring of prose, or an explicit list.

The ring is made once, at start. A choice's text is a window on it, so an answer of any length
costs no memory of its own and no work a token.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import TypeVar

import orjson

from paceline.core.rng import mix64
from paceline.runtime.prose import paragraphs
from paceline.runtime.tokenizer import Tokenizer

# Legal inside a JSON string, but some readers of event streams and of JavaScript end a line there.
_LINE_ENDS = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")
_LINE_END_ESCAPES = {
    b"\xc2\x85": b"\\u0085",
    b"\xe2\x80\xa8": b"\\u2028",
    b"\xe2\x80\xa9": b"\\u2029",
}

T = TypeVar("T")


def escape_json(text: str) -> bytes:
    """The UTF-8 of a text, escaped for the inside of a JSON string.

    Quotes, backslashes, control characters and U+0085, U+2028, U+2029 are escaped, nothing else.
    A lone surrogate becomes U+FFFD.
    """
    try:
        data = orjson.dumps(text)[1:-1]
    except TypeError:
        data = orjson.dumps(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        data = data[1:-1]
    if data.isascii():
        return data
    return _LINE_ENDS.sub(lambda found: _LINE_END_ESCAPES[found[0]], data)


class Ring:
    """Prose whose every token is one word or mark, joined end to start.

    It begins with a paragraph and ends with one, and so every stretch of it that begins with a
    paragraph, over the joint too, is encoded to exactly its own tokens. `size` is in tokens.
    """

    def __init__(self, tokenizer: Tokenizer, tokens: int = 65_536, seed: int = 1) -> None:
        texts: list[str] = []
        self._starts: list[int] = []
        for paragraph in paragraphs(seed):
            if len(texts) >= tokens:
                break
            self._starts.append(len(texts))
            texts += paragraph
        ids = tokenizer.encode("".join(texts))
        if len(ids) != len(texts):
            raise RuntimeError("the default text holds a word that is not one token")
        self.size = len(texts)
        # One object a word, however often it occurs.
        shared = {text: text for text in texts}
        escaped = {text: escape_json(text) for text in shared}
        self._texts = [shared[text] for text in texts]
        self._escaped = [escaped[text] for text in texts]
        self._ids = array("I", ids)
        # After a full stop inside a paragraph; one with an empty line behind it is no neat end.
        self._ends = array("I", (at + 1 for at, text in enumerate(texts) if text == "."))
        self.words: dict[int, str] = dict(zip(self._ids, self._texts, strict=True))
        """Every distinct token of the ring by its id."""

    def start(self, key: int) -> int:
        """Where the paragraph begins that `key` picks."""
        return self._starts[mix64(key) % len(self._starts)]

    def window(self, key: int, length: int) -> RingPieces:
        """A window of `length` tokens that begins with the paragraph that `key` picks."""
        return RingPieces(self, self.start(key), length)

    def neat_length(self, start: int, length: int) -> int:
        """The length next to `length` at which a sentence ends, inside a paragraph."""
        target = (start + length) % self.size
        at = bisect_left(self._ends, target)
        above = self._ends[at] if at < len(self._ends) else self._ends[0] + self.size
        below = self._ends[at - 1] if at else self._ends[-1] - self.size
        longer = length + above - target
        shorter = length + below - target
        return shorter if shorter > 0 and length - shorter < longer - length else longer

    def slice_texts(self, start: int, count: int) -> list[str]:
        """The texts of `count` tokens from `start`, over the joint where need be."""
        return _around(self._texts, start % self.size, count)

    def slice_escaped(self, start: int, count: int) -> list[bytes]:
        """The same, as UTF-8 escaped for JSON."""
        start %= self.size
        end = start + count
        # On the way of every token of every stream: the usual case without another call.
        return (
            self._escaped[start:end] if end <= self.size else _around(self._escaped, start, count)
        )

    def slice_ids(self, start: int, count: int) -> list[int]:
        """The ids of the same."""
        start %= self.size
        taken = self._ids[start : start + count]
        while len(taken) < count:
            taken.extend(self._ids[: count - len(taken)])
        return taken.tolist()


def _around(items: list[T], start: int, count: int) -> list[T]:
    end = start + count
    if end <= len(items):
        return items[start:end]
    taken = items[start:]
    while len(taken) < count:
        taken += items[: count - len(taken)]
    return taken


class RingPieces:
    """A window on the ring: the tokens of a default text, as `Pieces`."""

    __slots__ = ("_length", "_ring", "start")

    dense = True

    def __init__(self, ring: Ring, start: int, length: int) -> None:
        self._ring = ring
        self._length = length
        self.start = start

    def __len__(self) -> int:
        return self._length

    def escaped(self, start: int, stop: int) -> list[bytes]:
        """See `Pieces`."""
        return self._ring.slice_escaped(self.start + start, min(stop, self._length) - start)

    def text(self) -> str:
        """See `Pieces`."""
        return "".join(self._ring.slice_texts(self.start, self._length))

    def ids(self, start: int, stop: int) -> list[int]:
        """See `Pieces`."""
        return self._ring.slice_ids(self.start + start, min(stop, self._length) - start)

    def tokens(self, start: int, stop: int) -> list[str]:
        """See `Pieces`."""
        return self._ring.slice_texts(self.start + start, min(stop, self._length) - start)

    def releases(self) -> list[str]:
        """What each token releases."""
        return self._ring.slice_texts(self.start, self._length)


class ListPieces:
    """Tokens given one by one, as `Pieces`; `texts` are what each of `ids` releases."""

    __slots__ = ("_ids", "_texts", "_tokenizer", "dense")

    def __init__(self, tokenizer: Tokenizer, ids: Iterable[int], texts: list[str]) -> None:
        self._tokenizer = tokenizer
        self._ids = array("I", ids)
        self._texts = texts
        self.dense = all(texts)
        if len(self._ids) != len(texts):
            raise ValueError("a piece for every token, and a token for every piece")

    @classmethod
    def of_text(cls, tokenizer: Tokenizer, text: str) -> ListPieces:
        """A text cut into its own tokens."""
        ids = tokenizer.encode(text)
        return cls(tokenizer, ids, tokenizer.pieces(ids))

    def __len__(self) -> int:
        return len(self._texts)

    def escaped(self, start: int, stop: int) -> list[bytes]:
        """See `Pieces`."""
        return [escape_json(text) for text in self._texts[start:stop]]

    def text(self) -> str:
        """See `Pieces`."""
        return "".join(self._texts)

    def ids(self, start: int, stop: int) -> list[int]:
        """See `Pieces`."""
        return self._ids[start:stop].tolist()

    def tokens(self, start: int, stop: int) -> list[str]:
        """See `Pieces`."""
        return [self._tokenizer.token_text(token) for token in self._ids[start:stop]]

    def releases(self) -> list[str]:
        """What each token releases."""
        return self._texts
