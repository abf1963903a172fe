"""The lean client on the wire: what it sends, what it stamps, and that no failure is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

import pytest

from paceline_loadtest.caller import Ask, Reply
from paceline_loadtest.lean import LeanClient
from paceline_loadtest.model import Call, Dialect
from paceline_loadtest.retries import Retries
from tests.loadtest.scripted import (
    CERTIFICATE,
    DONE,
    DROP,
    END,
    Piece,
    Script,
    Scripted,
    answer,
    chunk,
    delta,
    event,
    head,
    refusal,
    scripted,
    usage,
)


@asynccontextmanager
async def client_of(
    script: Script, *, retries: int = 0, idle_timeout_s: float = 20.0
) -> AsyncIterator[tuple[LeanClient, Scripted]]:
    async with scripted(script) as server:
        client = LeanClient(
            server.url, "key", retries=Retries(retries), idle_timeout_s=idle_timeout_s
        )
        try:
            yield client, server
        finally:
            await client.aclose()


def chat(*, stream: bool = True, dialect: Dialect = "chat") -> Ask:
    return Ask(dialect, {"model": "m", "messages": [], "stream": stream}, stream=stream)


async def made(client: LeanClient, ask: Ask | None = None) -> tuple[Call, Reply]:
    call = Call(perf_counter())
    return call, await client.call(ask or chat(), call)


async def one(*pieces: Piece, ask: Ask | None = None, idle_timeout_s: float = 20.0) -> Call:
    """The call that gets these pieces for an answer."""
    async with client_of(lambda *_: pieces, idle_timeout_s=idle_timeout_s) as (client, _):
        call, _ = await made(client, ask)
    return call


async def test_a_call_from_its_request_to_its_end() -> None:
    async with client_of(lambda *_: answer("One", " two")) as (client, server):
        call, reply = await made(client)
    asked = server.asked[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer key"
    assert asked.body == {"model": "m", "messages": [], "stream": True}
    assert reply.text == "One two"
    assert (call.status, call.error, call.retries) == (200, None, 0)
    assert (call.output_tokens, call.prompt_tokens) == (2, 5)
    assert call.sent_at is not None
    assert call.headers_at is not None
    assert call.first_at is not None
    assert call.last_at is not None
    assert call.end_at is not None
    times = [call.scheduled_at, call.sent_at, call.headers_at, call.first_at, call.last_at]
    assert [*times, call.end_at] == sorted([*times, call.end_at])


async def test_anthropic_s_key_is_sent_its_way() -> None:
    async with client_of(lambda *_: [head(), END]) as (client, server):
        await made(client, chat(dialect="messages"))
    assert server.asked[0].path == "/v1/messages"
    assert server.asked[0].headers["x-api-key"] == "key"
    assert "authorization" not in server.asked[0].headers


async def test_stamps_are_those_of_receipt_and_not_of_reading() -> None:
    # The pieces wait in a batch until the end; their times are those at which they came.
    call = await one(
        head(), delta(content="a"), 0.05, delta(content="b"), 0.05, delta("stop"), 0.05, DONE, END
    )
    a, b = call.chunk_at
    assert b - a >= 0.045
    assert call.end_at is not None
    assert call.end_at - b >= 0.09


async def test_headers_tell_the_id_and_where_the_time_went() -> None:
    timing = "overhead;dur=300.000, queue;dur=1.500, prefill;dur=6.000, total;dur=307.5"
    first = head(x_request_id="req_7", server_timing=timing, x_paceline_profile="wafer-750")
    call = await one(first, *answer("x")[1:])
    assert call.request_id == "req_7"
    assert call.server.profile == "wafer-750"
    assert (call.server.overhead_s, call.server.queue_s, call.server.prefill_s) == pytest.approx(
        (0.3, 0.0015, 0.006)
    )


class TestConnections:
    async def test_one_is_used_again(self) -> None:
        async with client_of(lambda *_: answer("x")) as (client, server):
            for _ in range(3):
                call, _ = await made(client)
                assert call.ok
        assert (server.connections, len(server.asked)) == (1, 3)

    async def test_as_many_as_calls_at_once(self) -> None:
        slow = [head(), 0.3, *answer("x")[1:]]
        async with client_of(lambda *_: slow) as (client, server):
            found = await asyncio.gather(*(made(client) for _ in range(150)))
        assert all(call.ok for call, _ in found)
        assert server.most_open == 150

    async def test_warm_ones_are_there_before_the_first_call(self) -> None:
        async with client_of(lambda *_: answer("x")) as (client, server):
            await client.warm(5)
            await asyncio.gather(*(made(client) for _ in range(5)))
            assert server.connections == 5

    async def test_one_that_the_server_ends_is_not_used_again(self) -> None:
        closing = [head(connection="close"), *answer("x")[1:]]
        async with client_of(lambda *_: [*closing, DROP]) as (client, server):
            for _ in range(2):
                call, _ = await made(client)
                assert call.error is None
        assert server.connections == 2

    async def test_one_that_died_idle_is_told_as_a_retry(self) -> None:
        def script(number: int, _: object) -> list[Piece]:
            # The second request comes over a connection that is gone by then.
            return [DROP] if number == 1 else answer("x")

        async with client_of(script) as (client, server):
            await made(client)
            call, _ = await made(client)
        assert (call.error, call.retries, server.connections) == (None, 1, 2)

    async def test_a_fresh_one_that_is_dropped_is_a_failure(self) -> None:
        async with client_of(lambda *_: [DROP]) as (client, server):
            call, _ = await made(client)
        assert call.error is not None
        assert call.error.startswith("the server closed the connection")
        assert len(server.asked) == 1

    async def test_a_server_that_isn_t_there(self) -> None:
        async with scripted(lambda *_: []) as server:
            url = server.url
        client = LeanClient(url, "key")
        await client.warm(3)
        call, _ = await made(client)
        await client.aclose()
        assert call.error is not None
        assert "can't be reached" in call.error
        assert call.end_at is not None


class TestTls:
    async def test_a_server_that_is_trusted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        async with scripted(lambda *_: answer("One", " two"), tls=True) as server:
            client = LeanClient(server.url, "key")
            for _ in range(2):
                call, reply = await made(client)
                assert call.error is None
                assert reply.text == "One two"
            await client.aclose()
        assert server.connections == 1

    async def test_a_server_that_is_not(self) -> None:
        async with scripted(lambda *_: answer("x"), tls=True) as server:
            client = LeanClient(server.url, "key")
            call, _ = await made(client)
            await client.aclose()
        assert call.error is not None
        assert "can't be reached" in call.error
        assert "certificate" in call.error.lower()
        assert server.asked == []


class TestFailures:
    async def test_a_refusal_says_what_the_server_says(self) -> None:
        call = await one(*refusal(400, "No such thing."))
        assert (call.status, call.error) == (400, "400: No such thing. (requests)")
        assert call.first_at is None
        assert not call.ok

    async def test_a_refusal_that_is_no_json(self) -> None:
        call = await one(head(502, "text/html"), chunk(b"<h1>Bad gateway</h1>"), END)
        assert call.error == "502: <h1>Bad gateway</h1>"

    async def test_a_refusal_without_a_word(self) -> None:
        assert (await one(head(503), END)).error == "503: no reason given"

    async def test_an_error_in_the_stream(self) -> None:
        error = {"error": {"message": "It broke.", "code": "server_error"}}
        call = await one(head(), delta(content="x"), event(error), END)
        assert call.error == "It broke. (server_error)"
        assert call.first_at is not None

    async def test_a_drop_in_the_middle(self) -> None:
        call = await one(head(), delta(content="x"), 0.05, DROP)
        assert call.error is not None
        assert not call.ok
        assert call.last_at is not None

    async def test_an_end_without_a_terminal_event(self) -> None:
        call = await one(head(), delta(content="x"), END)
        assert call.error == "the stream ended before its answer did"

    async def test_a_stream_that_is_none(self) -> None:
        call = await one(head(200, "application/json"), chunk(b"{}"), END)
        assert call.error == "200, but the answer is application/json, not a stream of events"

    async def test_what_is_not_http(self) -> None:
        call = await one(b"SSH-2.0-OpenSSH_9.6\r\n")
        assert call.error is not None
        assert call.error.startswith("the answer is not HTTP")

    async def test_nothing_for_too_long(self) -> None:
        began = perf_counter()
        call = await one(head(), delta(content="x"), 5.0, idle_timeout_s=0.2)
        assert call.error == "nothing came for 0.2 s"
        assert perf_counter() - began < 4.0

    async def test_slow_is_not_idle(self) -> None:
        words = [piece for word in "abcdef" for piece in (delta(content=word), 0.1)]
        call = await one(head(), *words, delta("stop"), END, idle_timeout_s=0.35)
        assert call.error is None

    async def test_a_cut_call_keeps_what_it_saw(self) -> None:
        async with client_of(lambda *_: [head(), delta(content="x"), 20.0]) as (client, _):
            call = Call(perf_counter())
            task = asyncio.create_task(client.call(chat(), call))
            await asyncio.sleep(0.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert call.first_at is not None
        assert not call.ok


class TestOnePiece:
    BODY = b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{}}'

    async def test_an_answer(self) -> None:
        pieces = (head(200, "application/json"), chunk(self.BODY), END)
        async with client_of(lambda *_: pieces) as (client, _):
            call, reply = await made(client, chat(stream=False))
        assert call.error is None
        assert reply.text == "Hi"
        assert call.first_at == call.last_at

    async def test_told_by_its_length(self) -> None:
        size = len(self.BODY)
        start = (
            f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n"
        )
        async with client_of(lambda *_: [start.encode() + self.BODY]) as (client, _):
            _, reply = await made(client, chat(stream=False))
        assert reply.text == "Hi"

    async def test_one_that_breaks_off(self) -> None:
        call = await one(
            head(200, "application/json"), chunk(self.BODY[:20]), DROP, ask=chat(stream=False)
        )
        assert call.error == "the answer broke off"


class TestRetries:
    async def test_never_before_the_time_that_the_server_says(self) -> None:
        def script(number: int, _: object) -> list[Piece]:
            return refusal(429, "Slow down.", retry_after="1") if number == 0 else answer("x")

        async with client_of(script, retries=2) as (client, server):
            call, _ = await made(client)
        first, second = server.asked
        assert second.at - first.at >= 1.0
        assert (call.error, call.retries, call.status) == (None, 1, 200)
        assert call.waited_s >= 1.0
        # It is the first request that was sent when it should have been.
        assert call.sent_at is not None
        assert call.sent_at <= first.at

    async def test_a_finer_wait(self) -> None:
        def script(number: int, _: object) -> list[Piece]:
            return refusal(503, "Busy.", retry_after_ms="150") if number == 0 else answer("x")

        async with client_of(script, retries=1) as (client, server):
            await made(client)
        assert 0.15 <= server.asked[1].at - server.asked[0].at < 1.0

    async def test_until_there_are_no_more(self) -> None:
        busy = refusal(429, "Busy.", retry_after_ms="1")
        async with client_of(lambda *_: busy, retries=3) as (client, server):
            call, _ = await made(client)
        assert len(server.asked) == 4
        assert (call.retries, call.error) == (3, "429: Busy. (requests)")

    async def test_what_has_begun_is_not_made_again(self) -> None:
        async with client_of(lambda *_: [head(), delta(content="x"), DROP], retries=3) as both:
            client, server = both
            call, _ = await made(client)
        assert len(server.asked) == 1
        assert call.retries == 0

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
    async def test_what_can_t_succeed_is_not_made_again(self, status: int) -> None:
        async with client_of(lambda *_: refusal(status, "No."), retries=3) as (client, server):
            await made(client)
        assert len(server.asked) == 1


def test_how_long_is_waited() -> None:
    retries = Retries(most=3)
    assert retries.wait_s(0, 429, {}) == 0.5
    assert retries.wait_s(2, 429, {}) == 2.0
    assert retries.wait_s(3, 429, {}) is None
    assert retries.wait_s(0, 429, {"retry-after": "3"}) == 3.0
    # Of two the longer one: nobody comes back too early.
    assert retries.wait_s(0, 429, {"retry-after": "3", "retry-after-ms": "2500"}) == 3.0
    assert retries.wait_s(0, 429, {"retry-after": "1", "retry-after-ms": "2500"}) == 2.5
    assert retries.wait_s(0, 429, {"retry-after": "121"}) is None
    assert retries.wait_s(0, 429, {"retry-after": "soon"}) == 0.5
    assert retries.wait_s(0, 429, {"x-should-retry": "false"}) is None
    assert retries.wait_s(0, 200, {}) is None
    assert retries.wait_s(0, None, {}) is None


def test_an_interim_answer_is_not_the_answer() -> None:
    async def run() -> Call:
        return await one(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", *answer("x"))

    call = asyncio.run(run())
    assert (call.status, call.error) == (200, None)


async def test_the_usage_chunk_comes_late_and_moves_nothing() -> None:
    call = await one(head(), delta(content="x"), delta("stop"), 0.1, usage(1), DONE, END)
    assert call.first_at == call.last_at
    assert call.end_at is not None
    assert call.last_at is not None
    assert call.end_at - call.last_at >= 0.09
