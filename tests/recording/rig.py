"""An upstream that says exactly what a test has written down, and a recorder in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from paceline.recording.document import Added, Chunk, Exchange, Request, Response
from paceline.recording.files import load, open_writer
from paceline.recording.proxy import Recorder
from paceline.recording.upstream import Base
from paceline.testing.server import TestServer
from tests.connection import Answer, Wire
from tests.live import PATIENCE_S, wait_until

HOST = "127.0.0.1"
DROP = "drop"
"""A step of a script: the connection ends here."""

KEY = "sk-this-is-a-secret-0123456789"

Step = bytes | float | str
"""Bytes to send, seconds to wait, or DROP."""


@dataclass
class Asked:
    """A request as it came over the wire."""

    head: str
    body: bytes

    @property
    def line(self) -> str:
        return self.head.split("\r\n", 1)[0]

    def header(self, name: str) -> str | None:
        for line in self.head.split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return None


@dataclass
class Upstream:
    """A server on a port of its own; `answer` gives the steps for a request."""

    answer: Callable[[Asked], list[Step]]
    asked: list[Asked] = field(default_factory=list)
    gone: int = 0
    """Connections that the other side has ended in the middle of an answer."""
    connections: int = 0

    def __post_init__(self) -> None:
        self._socket = socket.create_server((HOST, 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}/v1"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader, contextlib.suppress(OSError):
            while (asked := _read(reader)) is not None:
                self.asked.append(asked)
                for step in self.answer(asked):
                    if isinstance(step, float):
                        time.sleep(step)
                    elif isinstance(step, bytes):
                        try:
                            connection.sendall(step)
                        except OSError:
                            self.gone += 1
                            return
                    else:
                        return


def _read(reader: Any) -> Asked | None:
    lines = []
    while line := reader.readline():
        if line == b"\r\n":
            break
        lines.append(line.decode("latin-1").rstrip("\r\n"))
    if not lines:
        return None
    asked = Asked("\r\n".join(lines), b"")
    if asked.header("transfer-encoding") == "chunked":
        while size := int(reader.readline(), 16):
            asked.body += reader.read(size)
            reader.readline()
        reader.readline()
    else:
        asked.body = reader.read(int(asked.header("content-length") or 0))
    return asked


def chunked(data: bytes) -> bytes:
    """A piece of a chunked body; the empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream_head(extra: str = "") -> bytes:
    return (
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
        f"X-Request-Id: req_upstream\r\n{extra}Transfer-Encoding: chunked\r\n\r\n"
    ).encode()


def stream(*parts: bytes, pause_s: float = 0.02, extra: str = "") -> list[Step]:
    """A streamed answer whose parts are that far apart."""
    steps: list[Step] = [stream_head(extra)]
    for part in parts:
        steps += [pause_s, chunked(part)]
    return [*steps, chunked(b"")]


def whole(
    body: bytes, status: str = "200 OK", headers: Mapping[str, str] | None = None
) -> list[Step]:
    """An answer in one piece."""
    named = {"Content-Type": "application/json", **(headers or {})}
    lines = [f"HTTP/1.1 {status}", *(f"{k}: {v}" for k, v in named.items())]
    lines.append(f"Content-Length: {len(body)}")
    return ["\r\n".join([*lines, "", ""]).encode() + body]


def packed(body: bytes) -> list[Step]:
    """One that is compressed whether or not that was asked for."""
    return whole(gzip.compress(body), headers={"Content-Encoding": "gzip"})


@contextlib.contextmanager
def upstream(answer: Callable[[Asked], list[Step]] | list[Step]) -> Iterator[Upstream]:
    """An upstream that gives each request the same answer, or what a function says."""
    script = answer if callable(answer) else lambda _asked: answer
    made = Upstream(script)
    try:
        yield made
    finally:
        made.close()


class _Server(uvicorn.Server):
    loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)


class Running:
    """A recorder at work in a thread."""

    def __init__(self, base: str, out: Path) -> None:
        self.host = HOST
        self.out = out
        self.recorder = Recorder(Base.parse(base), open_writer(out))
        self._socket = socket.create_server((HOST, 0))
        self.port: int = self._socket.getsockname()[1]
        self.base_url = f"http://{HOST}:{self.port}/v1"
        config = uvicorn.Config(
            self.recorder,
            loop="uvloop",
            http="httptools",
            ws="websockets-sansio",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def start(self) -> None:
        self._thread.start()
        wait_until(lambda: self._server.started, "the recorder runs", every_s=0.005)

    def tell_to_stop(self) -> None:
        """What the command does on a signal."""
        assert self._server.loop is not None
        self._server.loop.call_soon_threadsafe(self.recorder.stop)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        self._socket.close()

    def kept(self, count: int = 1) -> list[Exchange]:
        """The exchanges, once there are so many."""
        wait_until(lambda: self.recorder.kept >= count, f"{count} are kept", every_s=0.005)
        return load(self.out)

    def text(self) -> str:
        """All that is on the disk."""
        files = self.out.iterdir() if self.out.is_dir() else [self.out]
        return "".join(file.read_text("utf-8") for file in sorted(files))


@contextlib.contextmanager
def recording(base: str, out: Path) -> Iterator[Running]:
    running = Running(base, out)
    running.start()
    try:
        yield running
    finally:
        running.stop()


MS = 1_000_000


def exchange(
    *parts: tuple[float, bytes],
    body: Any = None,
    path: str = "/chat/completions",
    status: int = 200,
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/event-stream"),),
    **fields: Any,
) -> Exchange:
    """A recorded answer of parts at milliseconds; its head comes with the first."""
    chunks = tuple(Chunk(round(at * MS), data) for at, data in parts)
    head_ns = chunks[0].at_ns if chunks else 0
    asked = json.dumps({"model": "gpu-40"} if body is None else body).encode()
    given: dict[str, Any] = {
        "upstream": "http://upstream.test/v1",
        "request": Request("POST", path, "", (("content-type", "application/json"),), asked),
        "response": Response(status, headers, head_ns),
        "chunks": chunks,
        "end": "complete",
        "end_ns": chunks[-1].at_ns if chunks else head_ns,
        "added": Added(),
        **fields,
    }
    return Exchange(**given)


def keep(out: Path, *exchanges: Exchange) -> str:
    """Write exchanges down, as a server's setting wants to be told of them."""
    writer = open_writer(out)
    for each in exchanges:
        writer.write(each)
    writer.close()
    return str(out)


PATH = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "gpu-40", "messages": [{"role": "user", "content": "hi"}]}


class Address:
    """A test server as a `Wire` takes it."""

    def __init__(self, server: TestServer) -> None:
        self.host, _, port = server.url.removeprefix("http://").partition(":")
        self.port = int(port)


def ask(server: TestServer, body: Any = BODY, path: str = PATH, **headers: str) -> Answer:
    with Wire(Address(server)) as wire:
        wire.send("POST", path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        return wire.read()


def asked(body: Any) -> Request:
    return Request("POST", "/chat/completions", body=json.dumps(body).encode())
