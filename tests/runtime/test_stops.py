from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from paceline.runtime.stops import StopScan, scan

TOKENS = st.lists(st.text("abc", max_size=4), max_size=25)
STOPS = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=4)


def _first_stop(texts: list[str], stops: list[str], ignored: int) -> tuple[int, int] | None:
    """The slow way: the token that completes a stop string and where the text is cut."""
    past = sum(map(len, texts[:ignored]))
    for count in range(ignored + 1, len(texts) + 1):
        line = "".join(texts[:count])
        before = len(line) - len(texts[count - 1])
        found = [
            at
            for stop in stops
            for at in range(len(line) - len(stop) + 1)
            if line.startswith(stop, at) and at + len(stop) > max(before, past)
        ]
        if found:
            return count, min(found)
    return None


@given(texts=TOKENS, stops=STOPS, ignored=st.sampled_from([0, 0, 0, 1, 5, 30]))
def test_the_text_ends_before_the_first_stop(
    texts: list[str], stops: list[str], ignored: int
) -> None:
    found = scan(texts, stops, ignored)
    whole = "".join(texts)
    first = _first_stop(texts, stops, ignored)
    if first is None:
        assert not found.stopped
        assert not found.stop
        assert len(found.pieces) == len(texts)
        assert "".join(found.pieces) == whole
    else:
        assert found.stopped
        assert len(found.pieces) == first[0]
        assert "".join(found.pieces) == whole[: first[1]]
        assert found.stop in stops
        assert whole.startswith(found.stop, first[1])
    if not ignored and first is not None:
        assert not any(stop in "".join(found.pieces) for stop in stops)


@given(texts=TOKENS, stops=STOPS)
def test_nothing_is_released_that_might_begin_a_stop(texts: list[str], stops: list[str]) -> None:
    found = scan(texts, stops)
    for count in range(1, len(found.pieces)):
        seen = "".join(texts[:count])
        released = "".join(found.pieces[:count])
        withheld = seen[len(released) :]
        assert seen.startswith(released)
        longest = max(
            size
            for size in range(len(seen) + 1)
            if not size or any(len(stop) > size and stop.startswith(seen[-size:]) for stop in stops)
        )
        assert len(withheld) == longest


@given(texts=TOKENS, stops=STOPS)
def test_held_says_whether_any_piece_changed(texts: list[str], stops: list[str]) -> None:
    found = scan(texts, stops)
    if not found.held:
        assert found.pieces == texts
    elif not found.stopped and texts:
        assert "".join(found.pieces) == "".join(texts)


def test_a_stop_across_tokens_shows_nothing_of_itself() -> None:
    found = scan(["AB", "CDE", "F", "GHI", "J", "KL"], ["DEFGHIJ"])
    assert found == StopScan(["AB", "C", "", "", ""], stopped=True, held=True, stop="DEFGHIJ")


def test_an_unfinished_stop_is_flushed_with_the_last_token() -> None:
    found = scan(["AB", "CDE", "F"], ["DEFGHIJ"])
    assert found == StopScan(["AB", "C", "DEF"], stopped=False, held=True)


def test_what_turns_out_harmless_comes_with_the_token_that_says_so() -> None:
    assert scan(["a", "#", "#", "b"], ["###"]).pieces == ["a", "", "", "##b"]


def test_min_tokens_lets_early_stops_through() -> None:
    texts = ["one", ".", " two", ".", " three"]
    assert scan(texts, ["."], ignored=2).pieces == ["one", ".", " two", ""]
    assert not scan(texts, ["."], ignored=5).stopped


def test_empty_stops_and_texts() -> None:
    assert scan([], ["a"]) == StopScan([], stopped=False, held=False)
    assert scan(["a"], [""]) == StopScan(["a"], stopped=False, held=False)
    assert scan(["a"], []) == StopScan(["a"], stopped=False, held=False)


def test_a_long_beginning_of_a_stop_string_costs_no_memory_for_each_step() -> None:
    texts = ["ab"] * 4_000 + ["!"]
    tracemalloc.start()
    found = scan(texts, ["ab" * 4_001])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "".join(found.pieces) == "".join(texts)
    assert not found.stopped
    assert peak < 4_000_000
