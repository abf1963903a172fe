"""A server in this process, its ledger within reach, and a ledger that can be held up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from paceline.core.ledger import Entry
from paceline.core.profile import Profile
from paceline.runtime.ledger.questions import Line
from paceline.runtime.ledger.sqlite import SqliteLedger
from paceline.testing.server import TestServer, serve
from tests.connection import PATIENCE_S, Answer, Wire
from tests.live import PROFILES, Samples, wait_until

T = TypeVar("T")


class Site:
    """Where the server is, and what it wrote down."""

    host = "127.0.0.1"

    def __init__(self, server: TestServer) -> None:
        self.server = server
        self.port = int(server.url.rpartition(":")[2])

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Answer:
        """One POST on a connection of its own."""
        with Wire(self) as wire:
            wire.send("POST", path, body, {"Connection": "close", **(headers or {})})
            return wire.read()

    def metrics(self) -> Samples:
        """A scrape."""
        with Wire(self) as wire:
            wire.send("GET", "/metrics", headers={"Connection": "close"})
            return Samples(wire.read().text)

    def on_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine comes to where the server lives."""
        loop = self.server._server.loop
        assert loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE_S)

    def entries(self) -> list[Line]:
        """All of them, the latest let in first."""
        ledger = self.server.app.ledger
        assert isinstance(ledger, SqliteLedger)
        return self.on_loop(ledger.entries(limit=1000))

    def at_rest(self) -> None:
        """Wait until nothing is held."""
        wait_until(lambda: self.metrics().value("paceline_holds") == 0, "nothing is held")


class HeldUp(SqliteLedger):
    """A file's ledger whose commits nobody hears of until `go` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go = threading.Event()
        self.waiting = 0

    def settle(self, entry: Entry, then: Callable[[], None] | None = None) -> None:
        if then is None:
            super().settle(entry)
            return
        told = then
        self.waiting += 1
        loop = asyncio.get_running_loop()

        def poll() -> None:
            if self.go.is_set():
                told()
            else:
                loop.call_later(0.005, poll)

        super().settle(entry, poll)


@contextlib.contextmanager
def site(
    *, profiles: Sequence[Path | Profile] = (PROFILES / "quick.toml",), **settings: Any
) -> Iterator[Site]:
    """A server with the tests' quick profile."""
    with serve("instant", profiles=profiles, **settings) as server:
        yield Site(server)
