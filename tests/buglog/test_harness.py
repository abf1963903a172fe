"""What the load test's own clients must get right of other programs' faults."""

from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_loadtest.caller import Ask
from paceline_loadtest.clients import CLIENTS, ClientKind, make_client
from paceline_loadtest.lean.cutter import EventCutter
from paceline_loadtest.lean.marks import marks_of
from paceline_loadtest.model import Call
from paceline_loadtest.retries import Retries
from tests.live import CHAT, Server, chat
from tests.loadtest.scripted import Piece, answer, delta, event, head, refusal, scripted

BOTH = pytest.mark.parametrize("kind", CLIENTS)
HARD_TO_CUT = "漢字かな交じり文 👩‍👩‍👧‍👦 🏳️‍🌈 नमस्ते — ẍ́ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢"


@pytest.fixture(scope="module")
def recorded(server: Server) -> bytes:
    """A stream as it came, its text hard to cut."""
    body = chat("instant", HARD_TO_CUT, stream=True, paceline={"mode": "echo"})
    return server.post(CHAT, body).body


def text_of(pieces: list[bytes]) -> str:
    call = Call(0.0)
    marks, cutter = marks_of("chat", call), EventCutter()
    for piece in pieces:
        for data in cutter.feed(piece):
            marks.event(data, 1.0)
    reply = marks.finish()
    assert call.error is None
    return reply.text


def test_b03_every_split_in_two_gives_the_same_text(recorded: bytes) -> None:
    for at in range(len(recorded) + 1):
        assert text_of([recorded[:at], recorded[at:]]) == HARD_TO_CUT


@given(data=st.data())
def test_b03_any_split_gives_the_same_text(recorded: bytes, data: st.DataObject) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(recorded)), max_size=40)))
    pieces = [recorded[a:b] for a, b in zip([0, *places], [*places, len(recorded)], strict=True)]
    assert text_of(pieces) == HARD_TO_CUT


async def failing(kind: ClientKind, pieces: list[Piece]) -> Call:
    async with scripted(lambda *_: pieces) as server:
        client = make_client(kind, server.url, "key", retries=Retries(0), idle_timeout_s=20.0)
        call = Call(perf_counter())
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
        await client.call(Ask("chat", body), call)
        await client.aclose()
    return call


@BOTH
async def test_g01_a_stream_that_breaks_off_is_a_failure(kind: ClientKind) -> None:
    end: list[Piece] = [b"0\r\n\r\n"]
    said = event({"error": {"message": "It broke.", "type": "server_error"}})
    told = await failing(kind, [head(), delta(content="x"), said, *end])
    silent = await failing(kind, [head(), delta(content="x"), *end])
    dropped = await failing(kind, [head(), delta(content="x"), 0.05, b""])
    assert told.error == "It broke. (server_error)"
    assert silent.error == "the stream ended before its answer did"
    assert dropped.error is not None
    for call in (told, silent, dropped):
        # What there was stays, and is no success.
        assert call.first_at is not None
        assert not call.ok


@BOTH
@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [({"retry_after": "3"}, 3.0), ({"retry_after": "1", "retry_after_ms": "700"}, 0.7)],
)
async def test_g04_nobody_comes_back_before_the_time_that_was_told(
    kind: ClientKind, headers: dict[str, str], wait_s: float
) -> None:
    def script(number: int, _: object) -> list[Piece]:
        if number == 0:
            body = refusal(429, "Slow down.")[1:]
            lines = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
            first = "HTTP/1.1 429 No\r\ncontent-type: application/json\r\n"
            return [f"{first}transfer-encoding: chunked\r\n{lines}\r\n".encode(), *body]
        return answer("x")

    async with scripted(script) as server:
        client = make_client(kind, server.url, "key", retries=Retries(2), idle_timeout_s=20.0)
        call = Call(perf_counter())
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
        reply = await client.call(Ask("chat", body), call)
        await client.aclose()
    first, second = server.asked
    assert second.at - first.at >= wait_s - 0.001
    assert (call.error, call.retries, reply.text) == (None, 1, "x")
    # The wait is told, and is in the latency.
    assert call.waited_s >= wait_s - 0.001
    assert call.first_at is not None
    assert call.first_at - call.scheduled_at >= wait_s
