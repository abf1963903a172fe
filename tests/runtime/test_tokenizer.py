from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline.runtime.tokenizer import Tokenizer

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(text=ANY_TEXT)
def test_a_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.count(text) == len(ids)


@given(text=ANY_TEXT)
def test_pieces_release_whole_characters_only(tokenizer: Tokenizer, text: str) -> None:
    pieces = tokenizer.pieces(tokenizer.encode(text))
    assert "".join(pieces) == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)


@given(ids=st.lists(st.integers(0, 200_018), max_size=30))
def test_pieces_of_any_ids_join_to_their_decoding(tokenizer: Tokenizer, ids: list[int]) -> None:
    pieces = tokenizer.pieces(ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == tokenizer.decode(ids)


def test_a_character_of_several_tokens_comes_with_its_last(tokenizer: Tokenizer) -> None:
    text = "🧿"
    ids = tokenizer.encode(text)
    assert len(ids) > 1
    assert tokenizer.pieces(ids) == [""] * (len(ids) - 1) + [text]
    assert tokenizer.pieces(ids[:-1]) == [""] * (len(ids) - 2) + ["\ufffd"]
    assert tokenizer.pieces(ids[:-1], flush=False) == [""] * (len(ids) - 1)


def test_special_tokens_are_ordinary_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<|endoftext|>")
    assert len(ids) > 1
    assert max(ids) < 199_998
    assert tokenizer.decode(ids) == "<|endoftext|>"


def test_special_and_unused_ids_decode(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_text(199_999) == "<|endoftext|>"
    assert tokenizer.token_bytes(200_005) == b""
    assert tokenizer.token_bytes(1 << 40) == b""
    assert tokenizer.vocabulary_size == 200_019


def test_lone_surrogates_do_not_crash(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"


def test_endless_white_space_does_not_crash(tokenizer: Tokenizer) -> None:
    text = "a" + " " * 1_200_000 + "b\n" + "\t" * 600_000
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_long_text_is_counted_as_a_short_one(tokenizer: Tokenizer) -> None:
    line = "The quick brown fox jumps over the lazy dog." + " " * 100 + "\n"
    many = 5_000
    assert len(line) * many > 500_000
    assert tokenizer.count(line * many) == tokenizer.count(line) * many
