"""The vocabulary of o200k_base, shipped with the server so that it starts without a network.

tiktoken (MIT licence) downloads the ranks when it is first asked for an encoding. Here they lie
beside the code, packed by `tools/build_vocabulary.py`, and go into `tiktoken.Encoding` directly.
"""

from __future__ import annotations

import hashlib
import lzma
from functools import cache
from importlib import resources

import tiktoken

ORIGINAL_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""Of the original text file, `base64(token) rank` a line, as tiktoken's own source states it."""

PACKED_SHA256 = "bac143fe7fe950090c6e4ed9a2f80de5412a92495758b52becbbe5a7eea25ecb"
"""Of the packed file's content; a test ties it to the original's."""

SPECIAL_TOKENS = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}

# How o200k_base splits a text before it merges bytes (tiktoken_ext/openai_public.py).
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_SUFFIX}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_SUFFIX}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


class VocabularyError(RuntimeError):
    """The shipped vocabulary is not what it should be: a damaged installation."""


def unpack_ranks() -> dict[bytes, int]:
    """The rank of every token, by the token's bytes, in rank order.

    Raises VocabularyError for a damaged file.
    """
    path = resources.files("paceline.runtime") / "data" / "o200k_base.xz"
    try:
        packed = lzma.decompress(path.read_bytes())
    except lzma.LZMAError as error:
        raise VocabularyError(f"{path}: {error}") from error
    if hashlib.sha256(packed).hexdigest() != PACKED_SHA256:
        raise VocabularyError(f"{path}: wrong SHA-256; install the package again")
    ranks: dict[bytes, int] = {}
    at, end, rank = 0, len(packed), 0
    while at < end:
        start = at + 1
        at = start + packed[at]
        ranks[packed[start:at]] = rank
        rank += 1
    return ranks


@cache
def load_encoding() -> tiktoken.Encoding:
    """o200k_base, made once a process."""
    ranks = unpack_ranks()
    encoding = tiktoken.Encoding(
        "o200k_base", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=dict(SPECIAL_TOKENS)
    )
    # The encoder below has its own copy, and only pickling would read this one, of 20 MB.
    ranks.clear()
    return encoding
