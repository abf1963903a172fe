"""A server process of its own, and clients that see what really is on the wire."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
from openai import AsyncOpenAI, OpenAI
from prometheus_client.parser import text_string_to_metric_families

PROFILES = Path(__file__).parent / "data" / "profiles"
"""Profiles made for the tests: fast, small, and each with one thing to it."""

PATIENCE_S = 20.0
"""Longer than anything here takes, on a machine that is busy with other work."""


class Server:
    """`paceline serve` in a process of its own, on a port of its own."""

    def __init__(
        self,
        *arguments: str,
        profiles: Sequence[Path] = (PROFILES,),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.host = "127.0.0.1"
        self.port = _free_port()
        self.url = f"http://{self.host}:{self.port}"
        command = [sys.executable, "-c", "from paceline.cli import main; main()", "serve"]
        command += ["--host", self.host, "--port", str(self.port), "--log-level", "warning"]
        for path in profiles:
            command += ["--profiles", str(path)]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PACELINE_")}
        self.process = subprocess.Popen(
            [*command, *arguments],
            env={**inherited, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        wait_until(self._answers, "the server answers", every_s=0.02)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        output = self.stop()
        # Warnings and errors alone are logged, and a server that is used as it should be, or as
        # it should not, has neither.
        assert kind is not None or output == "", output

    def stop(self) -> str:
        """End the process; returns what it logged that wasn't read before."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        return output

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended: {self.process.communicate()[0]}")
        try:
            return httpx2.get(f"{self.url}/ready", timeout=PATIENCE_S).status_code == 200
        except httpx2.TransportError:
            return False

    # -- clients -------------------------------------------------------------------------------

    def http(self) -> httpx2.Client:
        """A plain HTTP client."""
        return httpx2.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)

    def openai(self, **options: Any) -> OpenAI:
        """The real client, without retries: each failure is to be seen."""
        options = {"max_retries": 0, "timeout": PATIENCE_S, **options}
        return OpenAI(base_url=f"{self.url}/v1", api_key="any", **options)

    def async_openai(self, **options: Any) -> AsyncOpenAI:
        """The same for coroutines."""
        options = {"max_retries": 0, "timeout": PATIENCE_S, **options}
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key="any", **options)

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """One POST on a connection of its own."""
        return self.ask("POST", path, body, headers)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request on a connection of its own, answer read to its end."""
        with Wire(self) as wire:
            wire.send(method, path, body, {"Connection": "close", **(headers or {})})
            return wire.read(no_body=method == "HEAD")

    # -- what it knows -------------------------------------------------------------------------

    def metrics(self) -> Samples:
        """A scrape of /metrics."""
        return Samples(self.ask("GET", "/metrics").text)

    def record(self, request_id: str) -> dict[str, Any]:
        """What the server kept of a request."""
        answer = self.ask("GET", f"/paceline/requests/{request_id}")
        assert answer.status == 200, answer.text
        return answer.object

    def wait_idle(self, model: str) -> None:
        """Wait until nothing of a profile runs or waits."""

        def idle() -> bool:
            now = self.metrics()
            return not now.running(model) and not now.waiting(model)

        wait_until(idle, f"{model} has nothing to do")

    def rss_bytes(self) -> int:
        """The process's resident memory."""
        return round(self.metrics().value("process_resident_memory_bytes"))


class Samples:
    """The samples of a scrape; one that isn't there counts as 0."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = [
            (s.name, s.labels, s.value) for f in self.families.values() for s in f.samples
        ]

    def value(self, name: str, **labels: str) -> float:
        """The sum of all samples of a name that have these labels."""
        return sum(
            value
            for found, has, value in self._samples
            if found == name and all(has.get(k) == v for k, v in labels.items())
        )

    def running(self, model: str) -> float:
        """vLLM's gauge of running requests."""
        return self.value("vllm:num_requests_running", model_name=model)

    def waiting(self, model: str) -> float:
        """vLLM's gauge of waiting requests."""
        return self.value("vllm:num_requests_waiting", model_name=model)

    def since(self, before: Samples, name: str, **labels: str) -> float:
        """How much a counter has grown."""
        return self.value(name, **labels) - before.value(name, **labels)


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

    def __init__(self, server: Server, *, receive_buffer: int | None = None) -> None:
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


CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"


def chat(model: str, content: Any = "hi", **fields: Any) -> dict[str, Any]:
    """The body of a chat completion of one user message."""
    return {"model": model, "messages": [{"role": "user", "content": content}], **fields}


def compl(model: str, prompt: Any = "x", **fields: Any) -> dict[str, Any]:
    """The body of a text completion."""
    return {"model": model, "prompt": prompt, **fields}


def contents(chunks: list[dict[str, Any]], index: int = 0) -> str:
    """The text that a chat stream's chunks add up to."""
    return "".join(
        choice["delta"].get("content") or ""
        for chunk in chunks
        for choice in chunk["choices"]
        if choice["index"] == index
    )


def finishes(chunks: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Each choice's end, in the order of the stream: its index and its reason."""
    return [
        (choice["index"], choice["finish_reason"])
        for chunk in chunks
        for choice in chunk["choices"]
        if choice["finish_reason"] is not None
    ]


def content_of(answer: dict[str, Any], index: int = 0) -> str:
    """The text of a whole chat answer."""
    content = answer["choices"][index]["message"]["content"]
    assert isinstance(content, str)
    return content


def wait_until(holds: Callable[[], bool], what: str, *, every_s: float = 0.01) -> None:
    """Wait until something holds; fails when it takes too long."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"waited {PATIENCE_S:g} s, and it still isn't so: {what}"
        time.sleep(every_s)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port
