"""The server's vocabulary in the two forms that the judges read, made from what ships with it.

None of them can then reach for a hub, and all count tokens as the server does.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from paceline.runtime.vocabulary import ORIGINAL_SHA256, PATTERN, SPECIAL_TOKENS, unpack_ranks

TIKTOKEN_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""What tiktoken calls its cached o200k_base: the SHA-1 of the address that it would fetch."""


def write(folder: Path) -> None:
    """A cache for tiktoken and a tokenizer for Hugging Face's libraries, in one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks = unpack_ranks()
    cached = tiktoken_file(ranks)
    if hashlib.sha256(cached).hexdigest() != ORIGINAL_SHA256:
        raise RuntimeError("the shipped vocabulary doesn't give tiktoken's file")
    (folder / TIKTOKEN_FILE).write_bytes(cached)
    made = json.dumps(hugging_face(ranks), ensure_ascii=False)
    (folder / "tokenizer.json").write_text(made, "utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|endoftext|>",
                "model_max_length": 1_000_000,
                "clean_up_tokenization_spaces": False,
            }
        ),
        "utf-8",
    )


def tiktoken_file(ranks: dict[bytes, int]) -> bytes:
    """`base64(token) rank`, a line each."""
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())


def hugging_face(ranks: dict[bytes, int]) -> dict[str, object]:
    """The content of tokenizer.json: byte-level BPE with the ranks as its merges.

    tiktoken merges whichever neighbours make the token of the lowest rank; so every pair that
    makes a token is a merge, in the order of what it makes.
    """
    shown = _shown_bytes()
    text = {token: "".join(shown[byte] for byte in token) for token in ranks}
    merges: list[list[str]] = []
    for token in sorted(ranks, key=ranks.__getitem__):
        cuts = [(token[:i], token[i:]) for i in range(1, len(token))]
        pairs = [(a, b) for a, b in cuts if a in ranks and b in ranks]
        pairs.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [[text[a], text[b]] for a, b in pairs]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated"}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": rank,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token, rank in SPECIAL_TOKENS.items()
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{**split, "invert": False}, {**byte_level, "use_regex": False}],
        },
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": {text[token]: rank for token, rank in ranks.items()},
            "merges": merges,
        },
    }


def _shown_bytes() -> dict[int, str]:
    """The character that stands for each byte: itself where it is printable, as GPT-2 has it."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = (byte for byte in range(256) if byte not in printable)
    shown = {byte: chr(256 + i) for i, byte in enumerate(others)}
    return {byte: shown.get(byte, chr(byte)) for byte in range(256)}
