from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.client.sse import DONE, Event, SseParser

# As a server sends it: comments, an id, a type, data of several lines, text outside ASCII, fields
# nobody knows, an event without data, and one that never ends.
RECORDED = (
    ": hello\n\n"
    "retry: 3000\n"
    'data: {"choices":[{"delta":{"content":"The"}}]}\n\n'
    "id: 7\nevent: note\ndata: one\ndata:two\ndata\ndata:  three\n\n"
    "event: empty\n\n"
    ": ping\n"
    'data: {"text":"zo\u00eb \U0001f30a \u6d77"}\nunknown: x\n\n'
    "data: [DONE]\n\n"
    "data: cut off"
)
EVENTS = [
    Event('{"choices":[{"delta":{"content":"The"}}]}'),
    Event("one\ntwo\n\n three", "note", "7"),
    Event('{"text":"zo\u00eb \U0001f30a \u6d77"}', id="7"),
    Event(DONE, id="7"),
]
ENDINGS = ["\n", "\r\n", "\r"]


def recorded(ending: str) -> bytes:
    return RECORDED.replace("\n", ending).encode()


def parsed(*pieces: bytes) -> list[Event]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_recorded_stream(ending: str) -> None:
    assert parsed(recorded(ending)) == EVENTS


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_cut_in_two_gives_the_same(ending: str) -> None:
    stream = recorded(ending)
    for at in range(len(stream) + 1):
        assert parsed(stream[:at], stream[at:]) == EVENTS, at


@pytest.mark.parametrize("ending", ENDINGS)
def test_byte_by_byte_gives_the_same(ending: str) -> None:
    assert parsed(*(bytes([byte]) for byte in recorded(ending))) == EVENTS


@given(st.data(), st.sampled_from(ENDINGS))
def test_any_cuts_give_the_same(data: st.DataObject, ending: str) -> None:
    stream = recorded(ending)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    edges = [0, *cuts, len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    assert parsed(*pieces) == EVENTS


@given(st.lists(st.sampled_from([b"data: x", b"\r", b"\n", b":", b"id: 1", b"\xff", b""])))
def test_any_bytes_in_any_pieces_give_what_one_piece_gives(pieces: list[bytes]) -> None:
    assert parsed(*pieces) == parsed(b"".join(pieces))


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))),
    st.sampled_from(ENDINGS),
)
def test_what_is_written_is_read(texts: list[str], ending: str) -> None:
    stream = "".join(f"data: {text}{ending}{ending}" for text in texts).encode()
    assert [event.data for event in parsed(stream)] == texts


def test_an_event_is_given_with_the_byte_that_ends_it() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\n\r") == [Event("a")]
    assert parser.feed(b"\ndata: b\n\n") == [Event("b")]


def test_a_byte_order_mark_is_skipped_at_the_start_alone() -> None:
    mark = "\ufeff".encode()
    assert parsed(mark[:1], mark[1:] + b"data: a\n\n" + mark + b"data: b\n\n") == [Event("a")]


def test_bytes_that_are_not_text_are_replaced() -> None:
    assert parsed(b"data: a\xffb\n\n") == [Event("a\ufffdb")]


def test_an_id_with_a_null_is_ignored_and_an_empty_one_resets() -> None:
    events = parsed(b"id: 1\ndata: a\n\nid: 2\0\ndata: b\n\nid\ndata: c\n\n")
    assert [event.id for event in events] == ["1", "1", ""]
