"""Both clients against a real server, in every dialect: the same call gives the same account."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import pytest

from paceline_loadtest.caller import Ask, Caller, Reply
from paceline_loadtest.clients import CLIENTS, ClientKind, client_name, make_client
from paceline_loadtest.model import DIALECTS, Call, Dialect
from paceline_loadtest.retries import Retries
from tests.live import Server
from tests.loadtest.scripted import END, Piece, answer, chunk, head, scripted

BOTH = pytest.mark.parametrize("kind", CLIENTS)
EVERY = pytest.mark.parametrize("dialect", DIALECTS)


@asynccontextmanager
async def client_of(
    kind: ClientKind, server: Server, retries: int = 0, idle_timeout_s: float = 20.0
) -> AsyncIterator[Caller]:
    client = make_client(
        kind,
        f"{server.url}/v1",
        "key",
        retries=Retries(retries),
        idle_timeout_s=idle_timeout_s,
    )
    try:
        yield client
    finally:
        await client.aclose()


def ask(dialect: Dialect, model: str, *, stream: bool = True, **paceline: Any) -> Ask:
    fixed = {"output_tokens": 25, "reasoning_tokens": 5, **paceline}
    body: dict[str, Any] = {"model": model, "paceline": fixed}
    if dialect in {"chat", "messages"}:
        body["messages"] = [{"role": "user", "content": "Tell me."}]
    else:
        body |= {"input": "Tell me.", "store": False}
    if dialect == "chat" and stream:
        body["stream_options"] = {"include_usage": True}
    if dialect == "messages":
        body["max_tokens"] = 1000
    if dialect != "responses-websocket":
        body["stream"] = stream
    return Ask(dialect, body, thread="agent", stream=stream)


async def made(client: Caller, asked: Ask) -> tuple[Call, Reply]:
    call = Call(perf_counter())
    return call, await client.call(asked, call)


@BOTH
@EVERY
async def test_a_stream(server: Server, kind: ClientKind, dialect: Dialect) -> None:
    async with client_of(kind, server) as client:
        # An SDK builds its types as it first meets them, which takes it a while.
        await made(client, ask(dialect, "instant"))
        call, reply = await made(client, ask(dialect, "flat-500"))
    assert call.error is None
    assert call.status == 200
    assert (call.output_tokens, call.reasoning_tokens) == (25, 5)
    assert call.prompt_tokens is not None
    assert call.prompt_tokens > 3
    assert len(call.chunk_at) == 20
    assert call.chunk_at.tolist() == sorted(call.chunk_at)
    assert call.server.profile in {"flat-500", None}
    assert len(reply.text.split()) > 10
    assert call.first_at is not None
    assert call.last_at is not None
    assert call.end_at is not None
    assert call.sent_at is not None
    # Twenty visible tokens at 500 a second: 19 gaps of 2 ms.
    # A first token that is held up on its way takes nothing off what is due later.
    assert call.last_at - call.first_at >= 0.015
    assert call.scheduled_at <= call.sent_at <= call.first_at <= call.last_at <= call.end_at


@BOTH
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_an_answer_in_one_piece(server: Server, kind: ClientKind, dialect: Dialect) -> None:
    async with client_of(kind, server) as client:
        call, reply = await made(client, ask(dialect, "instant", stream=False))
    assert call.error is None
    assert (call.output_tokens, call.reasoning_tokens) == (25, 5)
    assert call.first_at == call.last_at
    assert call.last_at is not None
    assert len(reply.text.split()) > 10


@BOTH
@EVERY
@pytest.mark.parametrize(
    ("fault", "status_and_words"),
    [
        ("fail_after:8", ({200, None}, "server_error|api_error")),
        ("drop_after:8", ({200, None}, "connection")),
        ("error:400", ({400}, "invalid_request_error|server had an error")),
        ("error:429", ({429}, "server had an error|rate_limit")),
    ],
)
async def test_every_failure_is_one(
    server: Server,
    kind: ClientKind,
    dialect: Dialect,
    fault: str,
    status_and_words: tuple[set[int | None], str],
) -> None:
    status, says = status_and_words
    async with client_of(kind, server) as client:
        call, _ = await made(client, ask(dialect, "flat-2000", fault=fault))
        assert call.error is not None
        assert any(word in call.error for word in says.split("|")), call.error
        assert call.status in status
        assert call.end_at is not None
        assert not call.ok
        # The client goes on after it.
        again, _ = await made(client, ask(dialect, "instant"))
        assert again.error is None


@BOTH
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_headers_of_a_request_s_own_are_sent(
    server: Server, kind: ClientKind, dialect: Dialect
) -> None:
    asked = ask(dialect, "flat-2000")
    asked.headers = {"X-Paceline-Fault": "fail_after:9", "X-Request-Id": f"own-{kind}-{dialect}"}
    async with client_of(kind, server) as client:
        call, _ = await made(client, asked)
    assert call.error is not None
    assert call.request_id == f"own-{kind}-{dialect}"
    # Five of the nine are hidden.
    assert len(call.chunk_at) == 4
    assert server.record(call.request_id)["state"] == "failed"


@BOTH
@EVERY
async def test_a_refused_call_is_made_again_when_it_is_told_to(
    server: Server, kind: ClientKind, dialect: Dialect
) -> None:
    async with client_of(kind, server, retries=1) as client:
        began = perf_counter()
        call, _ = await made(client, ask(dialect, "instant", fault="error:429,1"))
    assert call.status == 429
    assert call.retries == 1
    assert 1.0 <= call.waited_s <= perf_counter() - began
    assert call.error is not None


@BOTH
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
@pytest.mark.parametrize("fault", ["slice:1", "slice:7,3"])
async def test_a_stream_that_is_cut_anywhere(
    server: Server, kind: ClientKind, dialect: Dialect, fault: str
) -> None:
    async with client_of(kind, server) as client:
        whole, said = await made(client, ask(dialect, "instant", seed=4))
        cut, same = await made(client, ask(dialect, "instant", seed=4, fault=fault))
    assert cut.error is None
    assert same.text == said.text
    assert (cut.output_tokens, cut.prompt_tokens) == (whole.output_tokens, whole.prompt_tokens)
    assert len(cut.chunk_at) == 20


@BOTH
@EVERY
async def test_a_stall_is_waited_for_until_it_is_too_long(
    server: Server, kind: ClientKind, dialect: Dialect
) -> None:
    stalled = ask(dialect, "flat-2000", fault="stall_after:8,30000")
    async with client_of(kind, server, idle_timeout_s=0.4) as client:
        call, _ = await made(client, stalled)
    assert call.error is not None
    assert "nothing came" in call.error


@BOTH
@EVERY
async def test_a_cut_call_keeps_what_it_saw(
    server: Server, kind: ClientKind, dialect: Dialect
) -> None:
    async with client_of(kind, server) as client:
        await made(client, ask(dialect, "instant"))
        call = Call(perf_counter())
        slow = ask(dialect, "flat-20", reasoning_tokens=0)
        task = asyncio.ensure_future(client.call(slow, call))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert call.first_at is not None
    assert call.end_at is None
    assert 1 < len(call.chunk_at) < 25


@BOTH
async def test_a_chain_over_one_websocket(server: Server, kind: ClientKind) -> None:
    async with client_of(kind, server) as client:
        first, reply = await made(client, ask("responses-websocket", "instant"))
        following = ask("responses-websocket", "instant")
        following.body["previous_response_id"] = reply.response_id
        second, _ = await made(client, following)
        # Another agent's connection knows nothing of it.
        following.thread = "another"
        third, _ = await made(client, following)
    assert first.prompt_tokens is not None
    assert second.prompt_tokens is not None
    assert second.prompt_tokens > first.prompt_tokens
    assert third.error is not None
    assert "previous_response_not_found" in third.error


@BOTH
async def test_an_upgrade_that_is_refused(kind: ClientKind) -> None:
    with Server("--no-websocket") as without:
        async with client_of(kind, without) as client:
            call, _ = await made(client, ask("responses-websocket", "instant"))
    assert call.status == 426
    assert call.error is not None
    assert call.error.startswith("426: ")


@BOTH
@EVERY
async def test_a_server_that_isn_t_there(kind: ClientKind, dialect: Dialect) -> None:
    client = make_client(
        kind, "http://127.0.0.1:9/v1", "key", retries=Retries(0), idle_timeout_s=5.0
    )
    call, _ = await made(client, ask(dialect, "instant"))
    await client.aclose()
    assert call.error is not None
    assert call.end_at is not None


@BOTH
@pytest.mark.parametrize("piece", [b"data: {not json\n\n", b"data: 7\n\n", b"data: [1]\n\n"])
async def test_what_no_client_can_read_fails_that_call_alone(
    kind: ClientKind, piece: bytes
) -> None:
    def script(number: int, _: object) -> list[Piece]:
        return [head(), chunk(piece), END] if number == 0 else answer("x")

    async with scripted(script) as other:
        client = make_client(kind, other.url, "key", retries=Retries(0), idle_timeout_s=20.0)
        broken, _ = await made(client, ask("chat", "m"))
        fine, _ = await made(client, ask("chat", "m"))
        await client.aclose()
    assert broken.error is not None
    assert fine.error is None


def test_what_a_report_calls_them() -> None:
    assert client_name("lean", "chat") == "lean"
    assert client_name("sdk", "chat").startswith("openai 3.")
    assert client_name("sdk", "messages").startswith("anthropic 2.")


@BOTH
async def test_what_comes_with_the_headers_is_stamped_with_them(kind: ClientKind) -> None:
    first, *rest = answer("One", " two")
    assert isinstance(first, bytes)
    body = [piece for piece in rest if isinstance(piece, bytes)]
    together: list[Piece] = [first + body[0], 0.1, *body[1:]]
    apart: list[Piece] = [first, 0.1, *body]
    async with scripted(lambda number, _: (together, together, apart)[number]) as server:
        client = make_client(kind, server.url, "key", retries=Retries(0), idle_timeout_s=5.0)
        # An SDK builds its types as it first meets them.
        calls = [(await made(client, ask("chat", "m")))[0] for _ in range(3)]
        await client.aclose()
    _, one, other = calls
    assert one.error is other.error is None
    assert one.first_at == one.headers_at
    assert other.first_at is not None
    assert other.headers_at is not None
    assert other.first_at - other.headers_at > 0.05
