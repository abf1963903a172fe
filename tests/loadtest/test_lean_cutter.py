"""Events out of bytes: the fast way gives what the standard's way gives, however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.client.sse import SseParser
from paceline_loadtest.lean.cutter import EventCutter

STREAM = (
    'data: {"a":"漢字 👩‍👩‍👧"}\n\n: a comment\n\nevent: x\ndata: {"b":1}\n\ndata:{"c":2}\n\n'
    "data: two\ndata: lines\n\nid: 7\n\ndata: \n\nretry: 5\ndata: last\n\ndata: unended"
).encode()


def by_standard(data: bytes) -> list[bytes]:
    return [event.data.encode() for event in SseParser().feed(data)]


def by_cutter(pieces: list[bytes]) -> list[bytes]:
    cutter = EventCutter()
    return [found for piece in pieces for found in cutter.feed(piece)]


def split(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted(place % (len(data) + 1) for place in places)
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


def test_a_whole_stream() -> None:
    assert by_cutter([STREAM]) == by_standard(STREAM)
    assert by_cutter([STREAM])[0] == '{"a":"漢字 👩‍👩‍👧"}'.encode()
    assert len(by_cutter([STREAM])) == 6


@given(st.lists(st.integers(0, 10_000), max_size=30), st.sampled_from(["\n", "\r\n", "\r"]))
def test_cut_anywhere(places: list[int], line_end: str) -> None:
    data = STREAM.replace(b"\n", line_end.encode())
    assert by_cutter(split(data, places)) == by_standard(data)


@given(st.text("dat: \nevx7", max_size=60), st.lists(st.integers(0, 100), max_size=8))
def test_any_lines(text: str, places: list[int]) -> None:
    assert by_cutter(split(text.encode(), places)) == by_standard(text.encode())


def test_byte_by_byte() -> None:
    assert by_cutter([bytes([byte]) for byte in STREAM]) == by_standard(STREAM)


def test_a_mark_of_byte_order_is_no_part_of_the_first_event() -> None:
    assert by_cutter([b"\xef\xbb\xbfdata: 1\n\n"]) == [b"1"]


@pytest.mark.parametrize("piece", [b"", b"data: 1", b"data: 1\n", b"\n", b": ping\n\n"])
def test_no_event_yet(piece: bytes) -> None:
    assert EventCutter().feed(piece) == []


def test_a_long_event_in_small_pieces_costs_no_more_than_in_one() -> None:
    # Bytes are joined once, at the line's end: a million pieces are no million copies.
    cutter = EventCutter()
    for _ in range(200_000):
        assert cutter.feed(b"xxxxxxxx") == []
    assert cutter.feed(b"\n\ndata: 1\n\n") == [b"1"]
