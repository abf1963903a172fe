from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from paceline.race.wrap import Wrapper

TEXTS = st.lists(st.text(st.sampled_from("ab \n\u6d77"), max_size=12), max_size=12)


def rows(pieces: list[str], width: int) -> list[str]:
    wrapper = Wrapper(width)
    wrapper.take(pieces)
    return wrapper.tail(1_000)


@given(TEXTS, st.integers(2, 12))
def test_pieces_give_what_the_whole_gives(pieces: list[str], width: int) -> None:
    wrapper = Wrapper(width)
    for count in range(len(pieces) + 1):
        wrapper.take(pieces[:count])
    assert [row.rstrip() for row in wrapper.tail(1_000)] == [
        row.rstrip() for row in rows(["".join(pieces)], width)
    ]


@given(TEXTS, st.integers(2, 12))
def test_rows_fit_and_nothing_is_lost(pieces: list[str], width: int) -> None:
    found = rows(pieces, width)
    assert all(cell_len(row) <= width for row in found)
    assert "".join("".join(found).split()) == "".join("".join(pieces).split())


@given(TEXTS, st.integers(4, 12))
def test_words_that_fit_are_not_cut(pieces: list[str], width: int) -> None:
    words = [word for word in "".join(pieces).split() if cell_len(word) <= width]
    found = [word for row in rows(pieces, width) for word in row.split()]
    assert all(word in found for word in words)


def test_a_row_that_is_full_ends_its_word() -> None:
    wrapper = Wrapper(7)
    pieces = ["foo bar", " "]
    wrapper.take(pieces)
    assert wrapper.tail(9) == ["foo bar"]
    pieces.append("baz")
    wrapper.take(pieces)
    assert wrapper.tail(9) == ["foo bar", "baz"]


def test_only_the_last_rows_are_shown() -> None:
    wrapper = Wrapper(3)
    wrapper.take(["one two six"])
    assert wrapper.tail(2) == ["two", "six"]
    assert wrapper.tail(0) == []


def test_the_gap_between_paragraphs_is_not_shown_first() -> None:
    wrapper = Wrapper(9)
    pieces = ["one\n\ntwo\n"]
    wrapper.take(pieces)
    assert wrapper.tail(9) == ["one", "", "two", ""]
    assert wrapper.tail(3) == ["two", ""]
    pieces.append("three")
    wrapper.take(pieces)
    assert wrapper.tail(3) == ["two", "three"]
    assert wrapper.tail(2) == ["two", "three"]


def test_nothing_in_a_text_can_move_the_cursor() -> None:
    assert rows(["a\x1b[2Jb\x07\u202ec\td"], 40) == ["a[2Jbc d"]
