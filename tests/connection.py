"""A connection that shows what really is on the wire, and an answer as it came over one."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

PATIENCE_S = 20.0
"""Longer than anything here takes, on a machine that is busy with other work."""


class Address(Protocol):
    """Where a server is."""

    host: str
    port: int


@dataclass
class Answer:
    """An HTTP answer as it came: `arrivals` are (seconds, bytes) of each piece of the body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""
    arrivals: list[tuple[float, bytes]] = field(default_factory=list)
    complete: bool = True
    """Whether the body ended as its framing says, and not by the connection's end."""

    def header(self, name: str) -> str | None:
        """A header that may be there once."""
        found = [value for key, value in self.headers if key == name.lower()]
        assert len(found) <= 1, f"{name} is there {len(found)} times"
        return found[0] if found else None

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def object(self) -> dict[str, Any]:
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The envelope's inside, checked for its form."""
        return checked_error(self.status, self.header("content-type"), self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The chunks of a whole stream."""
        assert self.status == 200, self.text
        assert self.complete
        return events(self.body)


def checked_error(status: int, content_type: str | None, body: bytes) -> dict[str, Any]:
    """The inside of an error's envelope, which has to be OpenAI's."""
    assert 400 <= status < 600
    assert content_type == "application/json"
    found = json.loads(body)
    assert set(found) == {"error"}
    error = found["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["type"], str)
    assert error["param"] is None or isinstance(error["param"], str)
    assert error["code"] is None or isinstance(error["code"], str)
    return dict(error)


def events(body: bytes) -> list[dict[str, Any]]:
    """A stream's chunks; its framing must be the simplest there is, and `[DONE]` its end."""
    assert b"\r" not in body
    assert body.endswith(b"data: [DONE]\n\n")
    parts = body.removesuffix(b"data: [DONE]\n\n").split(b"\n\n")
    assert parts.pop() == b""
    found = []
    for part in parts:
        assert part.startswith(b"data: {"), part
        assert b"\n" not in part
        found.append(json.loads(part.removeprefix(b"data: ")))
    return found


class Wire:
    """One connection, read byte by byte where need be."""

    def __init__(self, server: Address, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_S)
        try:
            self.socket.connect((server.host, server.port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave, whatever is under way."""
        self.socket.close()

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a request; a body that isn't bytes goes as JSON."""
        self.socket.sendall(request_bytes(method, path, body, headers))

    def more(self) -> bytes:
        """What comes next, empty at the connection's end."""
        if self._buffer:
            data, self._buffer = self._buffer, b""
            return data
        return self.socket.recv(1 << 16)

    def until(self, mark: bytes) -> bytes:
        """Everything up to and with `mark`; what came behind it stays for later."""
        data = self._buffer
        while mark not in data:
            part = self.socket.recv(1 << 16)
            if not part:
                raise EOFError(f"the connection ended after {data!r}")
            data += part
        end = data.index(mark) + len(mark)
        self._buffer = data[end:]
        return data[:end]

    def head(self) -> Answer:
        """An answer's status and headers."""
        status, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")[:-2]
        headers = []
        for line in lines:
            key, _, value = line.partition(":")
            headers.append((key.strip().lower(), value.strip()))
        assert status.startswith("HTTP/1.1 ")
        return Answer(int(status.split(" ")[1]), headers)

    def read(self, *, no_body: bool = False) -> Answer:
        """A whole answer."""
        answer = self.head()
        while answer.status == 100:
            answer = self.head()
        if no_body:
            return answer
        if answer.header("transfer-encoding") == "chunked":
            while self.chunk(answer):
                pass
        else:
            length = int(answer.header("content-length") or 0)
            while len(answer.body) < length:
                part = self.more()
                if not part:
                    answer.complete = False
                    break
                wanted = length - len(answer.body)
                self._buffer = part[wanted:]
                answer.body += part[:wanted]
                answer.arrivals.append((time.monotonic(), part[:wanted]))
        return answer

    def chunk(self, answer: Answer) -> bytes:
        """Add the next chunk of a body to its answer; empty at its end."""
        try:
            size = int(self.until(b"\r\n"), 16)
            data = self._exactly(size + 2)[:-2]
        except (EOFError, ConnectionResetError):
            answer.complete = False
            return b""
        if data:
            answer.arrivals.append((time.monotonic(), data))
            answer.body += data
        return data

    def _exactly(self, count: int) -> bytes:
        data = self._buffer
        while len(data) < count:
            part = self.socket.recv(1 << 16)
            if not part:
                raise EOFError
            data += part
        self._buffer = data[count:]
        return data[:count]


def request_bytes(
    method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """A request as it goes over the wire; a body that isn't bytes goes as JSON."""
    lines = [f"{method} {path} HTTP/1.1", "Host: paceline.test"]
    data = b""
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + data
