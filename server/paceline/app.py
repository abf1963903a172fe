"""The one place that knows all the parts: settings in, an ASGI application out."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.routing import Route

from paceline import __version__
from paceline.core.encode import StreamEncoder
from paceline.core.plan import Plan
from paceline.core.usage import Usage
from paceline.http import errors
from paceline.http.anthropic import COUNT_PATH, MESSAGES, CountTokens
from paceline.http.auth import Auth
from paceline.http.conversations import conversation_routes
from paceline.http.embeddings import PATH as EMBEDDINGS
from paceline.http.embeddings import Embeddings
from paceline.http.front import Front, Handler
from paceline.http.generate import Dialect, Generate
from paceline.http.ledger_routes import ledger_routes
from paceline.http.response_routes import COMPACT_PATH, compact_dialect, response_routes
from paceline.http.responses import PATH as RESPONSES
from paceline.http.responses import Keeper, Responses
from paceline.http.routes import routes
from paceline.http.stamped import Stamped
from paceline.http.usage_routes import usage_routes
from paceline.http.websocket import ResponseSocket
from paceline.runtime.admission import NoLedger
from paceline.runtime.clock import Clock, RealClock
from paceline.runtime.engine import LiveEngine
from paceline.runtime.ledger.sqlite import SqliteLedger
from paceline.runtime.ledger.valkey import ValkeyLedger, is_shared
from paceline.runtime.profile_files import ProfileRegistry
from paceline.runtime.settings import Settings
from paceline.wire.chat import CHAT_NAMES, parse_chat
from paceline.wire.chat_encode import ChatStream, whole_chat
from paceline.wire.completions import parse_completion
from paceline.wire.completions_encode import CompletionStream, whole_completion
from paceline.wire.head import CHAT_ID_PREFIX, COMPLETION_ID_PREFIX, Head, LogprobsFn

if TYPE_CHECKING:
    from paceline.recording.replay import Replay

log = logging.getLogger("paceline")

CHAT = Dialect(
    "/v1/chat/completions", CHAT_ID_PREFIX, parse_chat, ChatStream, whole_chat, CHAT_NAMES
)


def _completion_stream(
    plan: Plan,
    head: Head,
    *,
    tokens_per_chunk: int,
    show_reasoning: bool,
    logprobs: LogprobsFn | None,
) -> StreamEncoder:
    # A text completion has no field in which reasoning could be shown.
    del show_reasoning
    return CompletionStream(plan, head, tokens_per_chunk=tokens_per_chunk, logprobs=logprobs)


def _whole_completion(
    plan: Plan, head: Head, usage: Usage, *, show_reasoning: bool, logprobs: LogprobsFn | None
) -> bytes:
    del show_reasoning
    return whole_completion(plan, head, usage, logprobs=logprobs)


COMPLETIONS = Dialect(
    "/v1/completions", COMPLETION_ID_PREFIX, parse_completion, _completion_stream, _whole_completion
)


class App:
    """The application, with the engine behind it for whoever embeds or tests it."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        registry: ProfileRegistry | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Raises FileError, ScriptError and LedgerError for what the settings name."""
        self.settings = settings or Settings()
        self.registry = registry or ProfileRegistry.load(self.settings.profiles)
        self.ledger = open_ledger(self.settings.ledger)
        self.engine = LiveEngine(self.settings, self.registry, clock or RealClock(), self.ledger)
        if isinstance(self.ledger, SqliteLedger) and not self.engine.keys.required:
            self.ledger.forget_purses()
        self.keeper = Keeper(self.engine)
        self._replay: Replay | None = None
        direct: dict[tuple[str, str], Handler] = {
            ("POST", CHAT.path): Generate(self.engine, CHAT),
            ("POST", COMPLETIONS.path): Generate(self.engine, COMPLETIONS),
            ("POST", EMBEDDINGS): Embeddings(self.engine),
            ("POST", MESSAGES.path): Generate(self.engine, MESSAGES),
            ("POST", COUNT_PATH): CountTokens(self.engine),
            ("POST", RESPONSES): Responses(self.engine, self.keeper),
            ("POST", COMPACT_PATH): Generate(self.engine, compact_dialect(self.keeper)),
        }
        socket = ResponseSocket(self.engine, self.keeper)
        upgrades: dict[tuple[str, str], Handler] = {
            ("GET", RESPONSES): socket,
            ("WEBSOCKET", RESPONSES): socket,
        }
        self._asgi: Handler = Front(
            {**direct, **upgrades},
            Stamped(self._framework(direct)),
            self.settings.cors_origins,
            auth=Auth(self.engine.keys),
            count=self._refused,
        )
        if self.settings.replay:
            from paceline.recording.replay import Replay  # noqa: PLC0415 - a server seldom needs it

            self._replay = Replay(self.engine, self._asgi)
            self._asgi = Front(
                {}, self._replay, self.settings.cors_origins, auth=Auth(self.engine.keys)
            )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one ASGI connection."""
        await self._asgi(scope, receive, send)

    def _refused(self, path: str, status: int) -> None:
        """Count a request that the front door didn't let in."""
        self.engine.metrics.request(path, status)
        self.engine.metrics.refused("invalid_api_key" if status == 401 else "admin_required")

    def drain(self) -> None:
        """Take no new requests; break off what is left when the time of grace is over.

        To be called on the event loop, once.
        """
        self.engine.draining = True
        loop = asyncio.get_running_loop()
        loop.call_later(
            self.settings.grace_s, self.engine.break_off, "The server is shutting down."
        )
        if self._replay is not None:
            loop.call_later(self.settings.grace_s, self._replay.break_off)

    def _framework(self, direct: dict[tuple[str, str], Handler]) -> FastAPI:
        app = FastAPI(
            title="Paceline",
            version=__version__,
            summary="An OpenAI-compatible server with no model behind it.",
            lifespan=self._lifespan,
        )
        errors.install(app)
        books = None if isinstance(self.ledger, NoLedger) else self.ledger
        app.include_router(routes(self.engine))
        app.include_router(usage_routes(books))
        app.include_router(ledger_routes(books))
        app.include_router(response_routes(self.keeper))
        app.include_router(conversation_routes(self.keeper))
        for (method, path), handler in direct.items():
            # For their own method these never come here; they answer 405 for any other.
            app.router.routes.append(Route(path, _Endpoint(handler), methods=[method]))
        return app

    @asynccontextmanager
    async def _lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        self.engine.start()
        # What is there now stays: the collector need not walk the vocabulary again.
        gc.collect()
        gc.freeze()
        try:
            yield
        finally:
            self.engine.stop()
            # What was just broken off is in it too.
            await self.ledger.close()


def open_ledger(where: str) -> SqliteLedger | ValkeyLedger | NoLedger:
    """The ledger that the setting names. Raises LedgerError.

    A file, a store's URL, "" for a private one, or `off`.
    """
    if where == "off":
        return NoLedger()
    if is_shared(where):
        return ValkeyLedger(where)
    return SqliteLedger(Path(where) if where else None)


class _Endpoint:
    """A handler in the shape that the framework takes for an ASGI application."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._handler(scope, receive, send)
