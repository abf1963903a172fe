"""Responses over a WebSocket, by both clients, at servers that don't do as they should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from paceline_loadtest.caller import Ask, Caller
from paceline_loadtest.clients import CLIENTS, ClientKind, make_client
from paceline_loadtest.lean import LeanClient
from paceline_loadtest.model import Call
from paceline_loadtest.retries import Retries

ASK = Ask("responses-websocket", {"model": "m", "input": "Hello."}, "one")
COMPLETED: dict[str, Any] = {
    "type": "response.completed",
    "response": {"id": "resp_1", "status": "completed", "output": []},
}


def delta(text: str) -> str:
    return json.dumps({"type": "response.output_text.delta", "delta": text})


@asynccontextmanager
async def speaking(*frames: str) -> AsyncIterator[tuple[str, list[int]]]:
    """A server whose first answer is these frames, and each after it a good one.

    Gives its base URL, and of every request the number of its connection.
    """
    asked: list[int] = []
    connections = 0

    async def connected(connection: ServerConnection) -> None:
        nonlocal connections
        connections += 1
        mine = connections
        async for _ in connection:
            asked.append(mine)
            answer = frames if len(asked) == 1 else (delta("new"), json.dumps(COMPLETED))
            for frame in answer:
                await connection.send(frame)

    async with serve(connected, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1", asked


async def made(client: Caller) -> tuple[Call, str]:
    call = Call(perf_counter())
    reply = await client.call(ASK, call)
    return call, reply.text


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("broken", ["{", "[]", '{"type": 7}'])
async def test_what_follows_an_event_that_can_t_be_read_is_no_part_of_the_next_answer(
    kind: ClientKind, broken: str
) -> None:
    async with speaking(broken, delta("old"), json.dumps(COMPLETED)) as (url, asked):
        client = make_client(kind, url, "key", retries=Retries(0), idle_timeout_s=5.0)
        failed, _ = await made(client)
        assert failed.error is not None
        call, text = await made(client)
        await client.aclose()
    assert (call.error, text) == (None, "new")
    assert asked == [1, 2]


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_response_that_failed_leaves_its_connection_as_it_was(kind: ClientKind) -> None:
    failure = {"type": "error", "status": 400, "error": {"message": "No."}}
    async with speaking(json.dumps(failure)) as (url, asked):
        client = make_client(kind, url, "key", retries=Retries(0), idle_timeout_s=5.0)
        failed, _ = await made(client)
        assert (failed.error, failed.status) == ("No.", 400)
        call, text = await made(client)
        await client.aclose()
    assert (call.error, text) == (None, "new")
    assert asked == [1, 1]


async def test_a_connection_that_is_never_taken_up_is_closed() -> None:
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1 << 16):
                pass
        except ConnectionError:
            pass
        left.set()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1"
        client = LeanClient(url, "key", retries=Retries(0), connect_timeout_s=0.1)
        call, _ = await made(client)
        assert call.error is not None
        assert "no answer in 0.1 s" in call.error
        # Long before the client itself is closed.
        async with asyncio.timeout(5.0):
            await left.wait()
        await client.aclose()
