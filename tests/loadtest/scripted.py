"""A server that sends exactly what a test says, piece by piece, and notes what it was asked."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

CERTIFICATE = Path(__file__).parent.parent / "data" / "tls" / "cert.pem"
"""For 127.0.0.1, signed by itself, with a key that everybody can read."""

Piece = bytes | float
"""What is sent, or for how many seconds nothing is."""

DROP: Piece = b""
"""At the end of a script: the connection is broken off."""


@dataclass
class Asked:
    """A request as it came."""

    at: float
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Scripted:
    """The server: where it is, and what it was asked."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    open_now: int = 0
    most_open: int = 0


Script = Callable[[int, Asked], Sequence[Piece]]
"""What is sent to request number so and so, from 0."""


def head(status: int = 200, kind: str = "text/event-stream", **more: str) -> bytes:
    """The headers of an answer whose end is told by chunks."""
    names = {"content-type": kind, "transfer-encoding": "chunked"}
    names |= {name.replace("_", "-"): value for name, value in more.items()}
    lines = [f"HTTP/1.1 {status} OK", *(f"{k}: {v}" for k, v in names.items() if v)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunk(data: bytes) -> bytes:
    """A chunk of HTTP's framing; an empty one is the end."""
    return b"%x\r\n%b\r\n" % (len(data), data)


END = chunk(b"")


def event(value: Any) -> bytes:
    """An event of a chat stream, in a chunk of its own."""
    data = value if isinstance(value, str) else json.dumps(value)
    return chunk(b"data: %b\n\n" % data.encode())


def delta(finish: str | None = None, **content: Any) -> bytes:
    """A chunk of a chat completion."""
    return event({"choices": [{"index": 0, "delta": content, "finish_reason": finish}]})


def usage(tokens: int, prompt: int = 5) -> bytes:
    """The chunk that tells the tokens."""
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}})


DONE = event("[DONE]")


def answer(*words: str, tail: Sequence[Piece] = ()) -> list[Piece]:
    """A whole answer, without waits, with what is to come before the usage."""
    said = [delta(content=word) for word in words]
    return [head(), *said, delta("stop"), *tail, usage(len(words)), DONE, END]


def refusal(status: int, message: str, **headers: str) -> list[Piece]:
    """An error in OpenAI's envelope."""
    body = json.dumps({"error": {"message": message, "type": "requests", "code": None}}).encode()
    return [head(status, "application/json", **headers), chunk(body), END]


@asynccontextmanager
async def scripted(script: Script, *, tls: bool = False) -> AsyncIterator[Scripted]:
    """Serve by a script for as long as the block lasts."""
    state = Scripted()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        state.connections += 1
        try:
            while True:
                if not await _one(state, script, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            tasks.discard(task)

    context = None
    if tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_name("key.pem"))
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512, ssl=context)
    scheme = "https" if tls else "http"
    state.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield state
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _one(
    state: Scripted, script: Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Answer one request; tells whether the connection goes on."""
    raw = await reader.readuntil(b"\r\n\r\n")
    at = perf_counter()
    first, *lines = raw.decode("latin-1").strip().split("\r\n")
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    asked = Asked(at, first.split(" ")[1], headers, json.loads(body or b"{}"))
    number = len(state.asked)
    state.asked.append(asked)
    state.open_now += 1
    state.most_open = max(state.most_open, state.open_now)
    try:
        for piece in script(number, asked):
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            elif piece == DROP:
                return False
            else:
                writer.write(piece)
                await writer.drain()
    finally:
        state.open_now -= 1
    return True
