"""A server under a limit before a client comes: what has been spent, what is under way."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from limits_tap import Exchange, Tap

from paceline.testing import TestServer

MODEL = "gpt-5.6-sol"
FAST = "gpt-5.6-sol-api-fast"
"""What serves that model as `priority`."""
KEY = "sk-under-limits"
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Stage:
    """A server with its tap, before and while a client is there."""

    server: TestServer
    tap: Tap
    tokens_a_minute: int = 120_000
    """The limit where there is one of tokens."""

    def ask(self, tokens: int, prompt: str = "Hello.") -> int:
        """A request of our own with the client's key; returns its status."""
        connection, response = self.open(tokens, prompt)
        response.read()
        connection.close()
        return response.status

    def open(
        self,
        tokens: int,
        prompt: str = "Hello.",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A request of our own, whose answer has begun."""
        host = self.server.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=TIMEOUT_S)
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "reasoning_effort": "none",
            **more,
        }
        connection.request(
            "POST",
            "/v1/chat/completions",
            json.dumps(body),
            {
                "Authorization": f"Bearer {KEY}",
                "Content-Type": "application/json",
                **(headers or {}),
            },
        )
        return connection, connection.getresponse()


Before = Callable[[Stage], AbstractContextManager[object]]
"""What is done before a client comes, and undone after it."""


def nothing(stage: Stage) -> AbstractContextManager[object]:
    """Nothing happens before."""
    del stage
    return nullcontext()


def spend_requests(count: int) -> Before:
    """So many requests, all of which must be let in."""

    def before(stage: Stage) -> AbstractContextManager[object]:
        for _ in range(count):
            if stage.ask(1) != 200:
                raise RuntimeError("a request before the limit was refused")
        return nullcontext()

    return before


def spend_tokens(stage: Stage) -> AbstractContextManager[object]:
    """One request that takes all but some of a minute's tokens, nearly all by its prompt."""
    if stage.ask(1, "word " * (stage.tokens_a_minute - 50)) != 200:
        raise RuntimeError("the request that was to spend the tokens was refused")
    return nullcontext()


def spend_all(stage: Stage) -> AbstractContextManager[object]:
    """Requests, ever smaller ones, until not even one of a token can be paid."""
    for tokens in (10_000, 1000, 100, 10, 1):
        for _ in range(1000):
            if stage.ask(tokens) != 200:
                break
        else:
            raise RuntimeError("there was no end to what could be spent")
    return nullcontext()


def hold(
    until: Callable[[Sequence[Exchange]], bool], after_s: float, tokens: int, **more: Any
) -> Before:
    """One answer under way until something has happened to the client's requests, and a while."""

    @contextmanager
    def before(stage: Stage) -> Iterator[object]:
        connection, response = stage.open(tokens, stream=True, **more)
        if response.status != 200:
            raise RuntimeError(f"the answer to be held was refused: {response.read()!r}")
        response.read(1)
        over = threading.Event()

        def wait() -> None:
            while not over.is_set() and not until(stage.tap.exchanges):
                time.sleep(0.01)
            over.wait(after_s)
            connection.close()
            response.close()

        # The held answer's own request has been seen too.
        stage.tap.clear()
        thread = threading.Thread(target=wait)
        thread.start()
        try:
            yield None
        finally:
            over.set()
            thread.join()

    return before


def one_refused(exchanges: Sequence[Exchange]) -> bool:
    """Whether a request was refused."""
    return any(exchange.refused for exchange in exchanges)


def one_arrived(exchanges: Sequence[Exchange]) -> bool:
    """Whether a request is there."""
    return bool(exchanges)


def never(exchanges: Sequence[Exchange]) -> bool:
    """What never is; the answer is held as long as the client runs."""
    del exchanges
    return False


def tapped(server: TestServer) -> Tap:
    """A tap between a server and what it serves."""
    recorder = server._recorder
    tap = Tap(recorder.app)
    recorder.app = tap
    return tap
