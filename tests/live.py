"""A server process of its own, its clients, and the bodies that they send and get.

What tests of a running server need is imported from here, connections included.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
from openai import AsyncOpenAI, OpenAI
from prometheus_client.parser import text_string_to_metric_families

from tests.connection import PATIENCE_S, Answer, Wire, checked_error, events, request_bytes

__all__ = [
    "CHAT",
    "COMPLETIONS",
    "EMBEDDINGS",
    "PATIENCE_S",
    "PROFILES",
    "Answer",
    "Samples",
    "Server",
    "Wire",
    "chat",
    "checked_error",
    "compl",
    "content_of",
    "contents",
    "events",
    "finishes",
    "request_bytes",
    "wait_until",
]

PROFILES = Path(__file__).parent / "data" / "profiles"
"""Profiles made for the tests: fast, small, and each with one thing to it."""


_open_clients: list[httpx2.Client | OpenAI] = []


def close_clients() -> None:
    """Close the clients that tests have made, before the collector finds their sockets open."""
    while _open_clients:
        _open_clients.pop().close()


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
        client = httpx2.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)
        _open_clients.append(client)
        return client

    def openai(self, **options: Any) -> OpenAI:
        """The real client, without retries: each failure is to be seen."""
        options = {"max_retries": 0, "timeout": PATIENCE_S, **options}
        client = OpenAI(base_url=f"{self.url}/v1", api_key="any", **options)
        _open_clients.append(client)
        return client

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
