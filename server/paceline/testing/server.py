"""A server in a thread, started and stopped within a test."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import uvicorn

from paceline.app import App
from paceline.core.profile import Profile
from paceline.http.upgrades import protocol
from paceline.runtime.clock import RealClock, ScaledClock
from paceline.runtime.profile_files import (
    ProfileRegistry,
    load_profile_file,
    load_profiles,
    shipped_folder,
)
from paceline.runtime.settings import Settings
from paceline.testing.instant import InstantRegistry
from paceline.testing.received import Received, Recorder

T = TypeVar("T")

_HOST = "127.0.0.1"
_PATIENCE_S = 30.0


class TestServer:
    """A running server. `url` is its root, `base_url` what clients of OpenAI's API take.

    Anthropic's clients take `url`. All times in the records are the server's own: at a speed of 10
    they say what the client would have seen at a speed of 1.
    """

    __test__ = False  # for pytest: no class of tests, whatever its name

    def __init__(self, app: App) -> None:
        self.app = app
        self._recorder = Recorder(app)
        self._socket = socket.create_server((_HOST, 0), backlog=1024)
        self._server = _Uvicorn(app, self._recorder)
        self.url = f"http://{_HOST}:{self._socket.getsockname()[1]}"
        self.base_url = self.url + "/v1"
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="paceline", daemon=True
        )

    @property
    def requests(self) -> list[Received]:
        """The requests that arrived, oldest first; those for `/paceline/...` among them."""
        return list(self._recorder.requests)

    def records(self) -> list[dict[str, Any]]:
        """What the server kept of each request for tokens, oldest first, as JSON objects.

        The same as `GET /paceline/requests/{id}` says: times, counts, and every write.
        """
        records = self.app.engine.records
        return self._ask(lambda: [r.to_json() for r in reversed(records.recent(len(records)))])

    def record(self, request_id: str) -> dict[str, Any]:
        """One request's record. Raises KeyError where there is none."""
        found = self._ask(lambda: self.app.engine.records.get(request_id))
        if found is None:
            raise KeyError(request_id)
        return self._ask(found.to_json)

    def clear(self) -> None:
        """Forget the requests that arrived; the records stay."""
        self._recorder.requests.clear()

    def start(self) -> None:
        """Start, and return when connections are taken."""
        self._thread.start()
        if not self._server.ready.wait(_PATIENCE_S):
            raise RuntimeError("the server didn't start in time")
        if self._server.loop is None:
            raise RuntimeError("the server ended while starting")

    def stop(self) -> None:
        """Stop, breaking off whatever is under way. Does nothing the second time."""
        if self._thread.is_alive():
            self._server.tell_to_stop()
            self._thread.join(_PATIENCE_S)
        self._socket.close()

    def _ask(self, function: Callable[[], T]) -> T:
        """A function's result, called where the engine lives: its data is that thread's."""

        async def call() -> T:
            return function()

        loop = self._server.loop
        if loop is None or loop.is_closed():
            return function()
        return asyncio.run_coroutine_threadsafe(call(), loop).result(_PATIENCE_S)


@contextlib.contextmanager
def serve(
    profile: str | Path | Profile = "instant",
    *,
    script: Path | str | None = None,
    profiles: Sequence[Path | Profile] = (),
    speed: float = 1.0,
    instant: bool = False,
    **settings: Any,
) -> Iterator[TestServer]:
    """A server on a free port of this machine, for the length of a `with`.

    `profile`, a name or a TOML file or the thing itself, serves every model that no other profile
    has the name of. `profiles` are further ones. `script` is a file, or the name of one that
    ships, and says what is answered. `speed` runs the server's time that many times as
    fast; `instant` takes all waiting away and keeps every profile's limits. `settings` are those of
    `paceline serve`. Raises what a wrong one of them raises there.
    """
    own = [_profile(p) for p in (profile, *profiles) if not isinstance(p, str)]
    default = profile if isinstance(profile, str) else own[0].name
    registry = ProfileRegistry(load_profiles([shipped_folder()]), own)
    if registry.get(default) is None:
        near = ", ".join(registry.close_names(default))
        raise ValueError(f"no profile {default!r}" + (f"; near it are {near}" if near else ""))
    if script is not None:
        settings["scripts"] = (Path(script),)
    app = App(
        Settings(**{"accept_any_model": default, "grace_s": 0.0, **settings}),
        registry=InstantRegistry(registry) if instant else registry,
        clock=RealClock() if speed == 1.0 else ScaledClock(speed),
    )
    server = TestServer(app)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _profile(given: Path | Profile) -> Profile:
    return load_profile_file(given) if isinstance(given, Path) else given


class _Uvicorn(uvicorn.Server):
    """A server that wakes up at once when it is told to stop, and leaves signals alone."""

    def __init__(self, app: App, recorder: Recorder) -> None:
        super().__init__(
            uvicorn.Config(
                recorder,
                loop="uvloop",
                http=protocol(),
                ws="websockets-sansio" if app.settings.websocket else "none",
                ws_max_size=app.settings.max_body_bytes,
                ws_per_message_deflate=app.settings.websocket_deflate,
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._app = app
        self.loop: asyncio.AbstractEventLoop | None = None
        self.ready = threading.Event()
        self._stop: asyncio.Event | None = None

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets)
        finally:
            self.ready.set()

    async def main_loop(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.ready.set()
        counter = 0
        while not self.should_exit:
            # The tick keeps the Date header right.
            await self.on_tick(counter)
            counter = (counter + 10) % 864_000
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), 1.0)

    def tell_to_stop(self) -> None:
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._app.drain()
        self.should_exit = True
        if self._stop is not None:
            self._stop.set()
