from __future__ import annotations

import base64
import hashlib
import importlib
import lzma
from pathlib import Path

import pytest

from paceline.runtime import vocabulary
from paceline.runtime.vocabulary import (
    ORIGINAL_SHA256,
    PATTERN,
    SPECIAL_TOKENS,
    VocabularyError,
    load_encoding,
    unpack_ranks,
)


def test_the_original_file_can_be_rebuilt_to_the_byte() -> None:
    digest = hashlib.sha256()
    for token, rank in unpack_ranks().items():
        digest.update(b"%b %d\n" % (base64.b64encode(token), rank))
    assert digest.hexdigest() == ORIGINAL_SHA256


def test_pattern_special_tokens_and_hash_are_those_of_tiktoken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = importlib.import_module("tiktoken_ext.openai_public")
    hashes: list[str] = []

    def load(_url: str, expected_hash: str) -> dict[bytes, int]:
        hashes.append(expected_hash)
        return {}

    monkeypatch.setattr(original, "load_tiktoken_bpe", load)
    made = original.o200k_base()
    assert made["pat_str"] == PATTERN
    assert made["special_tokens"] == SPECIAL_TOKENS
    assert hashes == [ORIGINAL_SHA256]


def test_known_ids() -> None:
    # The first and the last line of the original file.
    encoding = load_encoding()
    assert encoding.encode_ordinary("!") == [0]
    assert encoding.encode_ordinary(" cocos") == [199_997]
    assert encoding.n_vocab == 200_019
    assert load_encoding() is encoding


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_file_is_refused(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = Path(vocabulary.__file__).parent / "data" / "o200k_base.xz"
    data = packed.read_bytes()
    (tmp_path / "data").mkdir()
    if damage == "cut":
        data = data[:1000]
    else:
        data = lzma.compress(lzma.decompress(data)[:-1] + b"?")
    (tmp_path / "data" / "o200k_base.xz").write_bytes(data)
    monkeypatch.setattr("importlib.resources.files", lambda _package: tmp_path)
    with pytest.raises(VocabularyError, match="o200k_base"):
        unpack_ranks()
