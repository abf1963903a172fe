"""WebSocket frames: what is taken apart is what was put together, however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from paceline_loadtest.lean.frames import CLOSE, PING, TEXT, FrameError, FrameReader, frame

SIZES = [0, 1, 125, 126, 127, 65_535, 65_536, 70_000]


def from_server(opcode: Opcode, payload: bytes, *, fin: bool = True) -> bytes:
    return bytes(Frame(opcode, payload, fin=fin).serialize(mask=False, extensions=[]))


def read(data: bytes, step: int) -> list[tuple[int, bytes]]:
    reader = FrameReader()
    found = []
    for at in range(0, len(data), step):
        found += [(m.kind, m.payload) for m in reader.feed(data[at : at + step])]
    return found


@pytest.mark.parametrize("size", SIZES)
def test_a_server_s_frames_of_every_length(size: int) -> None:
    data = from_server(Opcode.TEXT, b"x" * size) + from_server(Opcode.PING, b"p")
    for step in (len(data), 1 if size < 200 else 4_093):
        assert read(data, step) == [(TEXT, b"x" * size), (PING, b"p")]


@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(1, 40))
def test_cut_anywhere(payloads: list[bytes], step: int) -> None:
    data = b"".join(from_server(Opcode.TEXT, payload) for payload in payloads)
    assert read(data, step) == [(TEXT, payload) for payload in payloads]


def test_a_message_of_several_frames_with_a_ping_between() -> None:
    data = (
        from_server(Opcode.TEXT, b"a", fin=False)
        + from_server(Opcode.PING, b"")
        + from_server(Opcode.CONT, b"b", fin=False)
        + from_server(Opcode.CONT, b"c")
        + from_server(Opcode.CLOSE, b"\x03\xe8")
    )
    assert read(data, 1) == [(PING, b""), (TEXT, b"abc"), (CLOSE, b"\x03\xe8")]


@pytest.mark.parametrize("size", SIZES)
def test_what_is_sent_is_read_by_another_implementation(size: int) -> None:
    stream = StreamReader()
    stream.feed_data(frame(TEXT, b"y" * size))
    parsing = Frame.parse(stream.read_exact, mask=True)
    with pytest.raises(StopIteration) as ended:
        next(parsing)
    found = ended.value.value
    assert (found.opcode, bytes(found.data), found.fin) == (Opcode.TEXT, b"y" * size, True)


@pytest.mark.parametrize(
    "data",
    [
        frame(TEXT, b"masked"),
        b"\xc1\x00",
        from_server(Opcode.CONT, b"of nothing"),
        from_server(Opcode.TEXT, b"a", fin=False) + from_server(Opcode.TEXT, b"b"),
        b"\x83\x00",
        b"\x81\x7f" + (1 << 40).to_bytes(8, "big"),
    ],
    ids=["masked", "compressed", "goes on", "begins twice", "unknown", "endless"],
)
def test_what_is_no_frame_of_a_server_s(data: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader().feed(data)
