"""Answering from recordings: an ASGI application in front of the one that makes answers up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from paceline.core.profile import Profile
from paceline.http.faults.drop_after import close_connection
from paceline.http.respond import (
    ClientGoneError,
    Receive,
    Scope,
    read_body,
    refuse_upgrade,
    request_id,
    send_error,
)
from paceline.http.sink import Send
from paceline.http.socket_parts import upgrade_required
from paceline.recording import pace
from paceline.recording.document import HOP_BY_HOP, Exchange
from paceline.recording.files import RecordingError, load
from paceline.recording.match import Key, Tape, redacted
from paceline.recording.player import Play, Player, Step
from paceline.recording.socket_replay import replay_socket
from paceline.recording.turns import Turn
from paceline.runtime.engine import LiveEngine
from paceline.wire.errors import ApiError, invalid, model_not_found

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Miss = Literal["synthetic", "error"]

log = logging.getLogger("paceline")

_OWN = ("/health", "/ready", "/version", "/metrics", "/paceline", "/docs", "/openapi.json")
"""What the server says of itself is never looked for on tape."""

_NOT_PLAYED = HOP_BY_HOP | {"date", "server"}
_LARGE = 1 << 17
"""Bytes of a body from which on its key is made in a thread."""


class Replay:
    """The application."""

    def __init__(self, engine: LiveEngine, made_up: Application) -> None:
        """Raises RecordingError for recordings that can't be used."""
        settings = engine.settings
        self.tape = Tape(load(Path(settings.replay)), settings.replay_match)
        if not self.tape.exchanges and not self.tape.turns:
            raise RecordingError(
                Path(settings.replay), "", "has no exchange that was recorded to its end"
            )
        self._engine = engine
        self._made_up = made_up
        self._player = Player(engine.clock)
        self._plays: set[Play] = set()
        log.info(
            "%d recorded exchanges and %d turns over WebSockets to answer from%s",
            len(self.tape.exchanges),
            len(self.tape.turns),
            f"; {self.tape.left_out} left out" if self.tape.left_out else "",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._made_up(scope, receive, send)
            self._player.close()
        elif scope["path"].startswith(_OWN) or (kind == "http" and _is_preflight(scope)):
            await self._made_up(scope, receive, send)
        elif kind == "http":
            await self._http(scope, receive, send)
        elif self.tape.turns and not self._engine.draining:
            await replay_socket(
                scope,
                receive,
                send,
                tape=self.tape,
                player=self._player,
                clock=self._engine.clock,
                times=self._turn_times,
            )
        elif self._engine.settings.replay_miss == "synthetic":
            await self._made_up(scope, receive, send)
        else:
            # Nothing over a WebSocket is on tape: clients that hear so send the request by POST.
            await receive()
            await refuse_upgrade(scope, send, upgrade_required(), request_id(scope))

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        engine = self._engine
        rid = request_id(scope)
        arrived_ns = engine.clock.now_ns()
        try:
            if engine.draining:
                raise ApiError(503, "The server is shutting down.", code="server_shutting_down")
            body = await read_body(scope, receive, engine.settings.max_body_bytes)
            received_ns = engine.clock.now_ns()
            key, what = await self._key(scope, body)
            exchange = self.tape.take(key)
            if exchange is not None:
                await self._play(exchange, body, receive, send, received_ns)
                return
            if engine.settings.replay_miss == "error":
                # Every body that was recorded for the path is compared.
                message = await asyncio.to_thread(self.tape.miss, *what)
                raise ApiError(404, message, code="recording_not_found")
        except ClientGoneError:
            return
        except ApiError as error:
            engine.metrics.request("replay", error.status)
            waited_s = (engine.clock.now_ns() - arrived_ns) / 1e9
            await send_error(send, error, rid, waited_s)
            return
        await self._made_up(scope, _read_again(body, receive), send)

    async def _key(self, scope: Scope, body: bytes) -> tuple[Key, tuple[str, str, str, bytes]]:
        headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]]
        query = scope["query_string"].decode("latin-1")
        method, path = scope["method"], scope["path"]

        def make() -> tuple[Key, tuple[str, str, str, bytes]]:
            clean_query, clean = redacted(headers, query, body)
            what = (method, path, clean_query, clean)
            return self.tape.key(*what), what

        return await asyncio.to_thread(make) if len(body) > _LARGE else make()

    async def _play(
        self, exchange: Exchange, body: bytes, receive: Receive, send: Send, received_ns: int
    ) -> None:
        """Answer, until the end, the client's leaving, or the connection's being dropped."""
        engine = self._engine
        dropped = asyncio.Event()

        def hang_up() -> None:
            if not close_connection(send):
                dropped.set()

        steps = self._steps(exchange, body, received_ns)
        status = exchange.response.status if exchange.response is not None else 499
        engine.metrics.request("replay", status)
        play = Play(send, steps, hang_up)
        self._plays.add(play)
        waits = [asyncio.ensure_future(_left(receive)), asyncio.ensure_future(dropped.wait())]
        try:
            self._player.start(play)
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._plays.discard(play)
            play.stop()
            for wait in waits:
                wait.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await wait

    def _steps(self, exchange: Exchange, body: bytes, from_ns: int) -> list[Step]:
        """What happens when. Raises ApiError for a profile's pace without a profile."""
        head_ns, times, end_ns = self._times(exchange, body)
        steps: list[Step] = []
        response = exchange.response
        if response is not None:
            headers = [
                (key.lower().encode("latin-1"), value.encode("latin-1"))
                for key, value in response.headers
                if key.lower() not in _NOT_PLAYED
                and not (response.status in (204, 304) and key.lower() == "content-length")
            ]
            headers.append((b"x-paceline-recording", exchange.name.encode()))
            start = {"type": "http.response.start", "status": response.status, "headers": headers}
            steps.append(Step(from_ns + head_ns, start))
        for chunk, at_ns in zip(exchange.chunks, times, strict=True):
            message = {"type": "http.response.body", "body": chunk.data, "more_body": True}
            steps.append(Step(from_ns + at_ns, message))
        if exchange.end == "upstream_dropped":
            steps.append(Step(from_ns + end_ns, None))
        else:
            message = {"type": "http.response.body", "body": b"", "more_body": False}
            steps.append(Step(from_ns + end_ns, message))
        return steps

    def _times(self, exchange: Exchange, body: bytes) -> tuple[int, list[int], int]:
        settings = self._engine.settings
        if settings.replay_timing != "profile":
            speed = settings.replay_speed if settings.replay_timing == "scaled" else 1.0
            return pace.scaled(exchange, speed)
        profile = self._profile(body)
        if pace.is_instant(profile):
            return 0, [0] * len(exchange.chunks), 0
        return pace.as_profile(exchange, profile, self._engine.tokenizer.count)

    def _turn_times(self, turn: Turn) -> list[int]:
        settings = self._engine.settings
        speed = settings.replay_speed if settings.replay_timing == "scaled" else 1.0
        profile = None
        if settings.replay_timing == "profile":
            with contextlib.suppress(ApiError):
                # A frame without a model is none that a model answers.
                profile = self._profile(turn.asked)
        return pace.turn_times(turn, speed, profile, self._engine.tokenizer.count)

    def _profile(self, body: bytes) -> Profile:
        """The profile that serves a request here. Raises ApiError where there is none."""
        model, tier = pace.model_of(body)
        if model is None:
            raise invalid("model", "A profile's pace takes a body with a model in it.")
        registry = self._engine.registry
        profile = registry.get(model) or registry.get(self._engine.settings.accept_any_model)
        if profile is None:
            raise model_not_found(model)
        if tier is not None:
            profile = registry.get(profile.tiers.get(tier, "")) or profile
        return profile

    def break_off(self) -> None:
        """End every answer that is still being played."""
        for play in list(self._plays):
            play.break_off()


def _is_preflight(scope: Scope) -> bool:
    names = {key for key, _ in scope["headers"]}
    return scope["method"] == "OPTIONS" and b"access-control-request-method" in names


def _read_again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that begins with a body that has been read."""
    given = False

    async def again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
