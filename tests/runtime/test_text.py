from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.runtime.text import ListPieces, Ring, RingPieces, escape_json
from paceline.runtime.tokenizer import Tokenizer


@given(key=st.integers(0, 2**64 - 1), length=st.integers(0, 3_000))
def test_a_window_encodes_to_its_own_ids(
    tokenizer: Tokenizer, ring: Ring, key: int, length: int
) -> None:
    window = ring.window(key, length)
    assert len(window) == length
    assert tokenizer.encode(window.text()) == window.ids(0, length)


@given(key=st.integers(0, 100), length=st.integers(0, 1_000), data=st.data())
def test_windows_over_the_joint_are_exact_and_sliced_alike(
    tokenizer: Tokenizer, small_ring: Ring, key: int, length: int, data: st.DataObject
) -> None:
    window = small_ring.window(key, length)
    start = data.draw(st.integers(0, length))
    stop = data.draw(st.integers(start, length))
    assert tokenizer.encode(window.text()) == window.ids(0, length)
    assert window.ids(start, stop) == window.ids(0, length)[start:stop]
    assert window.tokens(start, stop) == window.tokens(0, length)[start:stop]
    assert window.escaped(start, stop) == window.escaped(0, length)[start:stop]
    assert "".join(window.tokens(0, length)) == window.text()
    assert json.loads(b'"%b"' % b"".join(window.escaped(0, length))) == window.text()


def test_a_window_ends_where_it_ends(ring: Ring) -> None:
    window = ring.window(1, 10)
    assert len(window.escaped(8, 99)) == 2
    assert len(window.ids(8, 99)) == 2
    assert len(window.tokens(8, 99)) == 2
    assert window.dense


def test_every_window_begins_a_paragraph(ring: Ring) -> None:
    firsts = {ring.window(key, 1).text() for key in range(300)}
    assert len(firsts) > 10
    assert all(first[0].isupper() for first in firsts)


def test_windows_differ_by_key_alone(ring: Ring) -> None:
    starts = [ring.window(key, 5).start for key in range(1_000)]
    assert len(set(starts)) > 500
    assert starts == [ring.window(key, 5).start for key in range(1_000)]


def test_the_ring_is_made_the_same_each_time(tokenizer: Tokenizer, small_ring: Ring) -> None:
    again = Ring(tokenizer, tokens=150)
    size = small_ring.size
    assert again.slice_ids(0, size) == small_ring.slice_ids(0, size)


@given(length=st.integers(1, 500), key=st.integers(0, 1_000))
def test_a_neat_length_ends_the_nearest_sentence(ring: Ring, length: int, key: int) -> None:
    start = ring.start(key)
    neat = ring.neat_length(start, length)
    assert neat > 0
    texts = RingPieces(ring, start, length + 200).releases()
    ends = [at + 1 for at, text in enumerate(texts) if text == "."]
    assert neat in ends
    assert abs(neat - length) == min(abs(end - length) for end in ends)


def test_a_neat_length_is_found_over_the_joint(small_ring: Ring) -> None:
    size = small_ring.size
    for length in range(1, 3 * size):
        neat = small_ring.neat_length(0, length)
        assert RingPieces(small_ring, 0, neat).text().endswith(".")
        assert abs(neat - length) < 60


def test_a_word_of_several_tokens_is_refused(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "paceline.runtime.text.paragraphs", lambda _seed: iter([["Pneumonoultra", ".\n\n"]] * 9)
    )
    with pytest.raises(RuntimeError, match="one token"):
        Ring(tokenizer, tokens=10)


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_escaping_round_trips(text: str) -> None:
    escaped = escape_json(text)
    assert json.loads(b'"%b"' % escaped) == text
    shown = escaped.decode()
    assert not any(char in shown for char in "\n\r\x85\u2028\u2029\x00\x1f")


def test_escaping_leaves_the_rest_alone() -> None:
    assert escape_json('é🙂"\\\n\x85\u2028\u2029') == (
        'é🙂\\"\\\\\\n\\u0085\\u2028\\u2029'.encode()
    )
    assert escape_json("a\ud800b") == "a\ufffdb".encode()


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
def test_list_pieces_of_a_text(tokenizer: Tokenizer, text: str) -> None:
    pieces = ListPieces.of_text(tokenizer, text)
    count = len(pieces)
    assert pieces.ids(0, count) == tokenizer.encode(text)
    assert pieces.text() == text
    assert json.loads(b'"%b"' % b"".join(pieces.escaped(0, count))) == text
    assert pieces.dense == all(pieces.releases())
    assert len(pieces.tokens(0, count)) == count


def test_list_pieces_need_a_text_for_each_id(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="every token"):
        ListPieces(tokenizer, [1, 2], ["a"])
