"""Running the application: a uvicorn that says when it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import logging
import resource
import signal
import socket
import sys
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.config import LOGGING_CONFIG

from paceline.app import App
from paceline.http.respond import PRIVATE
from paceline.http.upgrades import protocol
from paceline.runtime.settings import Settings
from paceline.runtime.toml_files import FileError

log = logging.getLogger("paceline")

_BACKLOG = 16_384
_LAST_WORDS_S = 1.0
"""After the time of grace, for the last bytes to leave."""


class Server(uvicorn.Server):
    """A server whose application hears of a signal before its connections are waited for."""

    def __init__(self, app: App) -> None:
        settings = app.settings
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http=protocol(),
            ws="websockets-sansio" if settings.websocket else "none",
            ws_max_size=settings.max_body_bytes,
            ws_per_message_deflate=settings.websocket_deflate,
            lifespan="on",
            log_config=logging_config(settings.log_level),
            log_level=settings.log_level,
            access_log=settings.access_log,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=max(1, round(settings.keepalive_s)),
            timeout_graceful_shutdown=round(settings.grace_s + _LAST_WORDS_S + 0.5),
        )
        super().__init__(config)
        logging.getLogger("uvicorn.error").addFilter(_not_about_upgrades)
        self._app = app
        self._told = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop gracefully on the first signal, at once on the second."""
        super().handle_exit(sig, frame)
        if not self._told:
            self._told = True
            self._app.drain()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and reload profiles and keys on SIGHUP from then on."""
        await super().startup(sockets)
        with contextlib.suppress(NotImplementedError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload)

    def _reload(self) -> None:
        try:
            self._app.engine.reload()
            log.info("profiles and keys reloaded")
        except FileError as error:
            log.error("profiles and keys not reloaded: %s", error)


def serve(settings: Settings) -> None:
    """Serve until told to stop. Raises FileError for a profile or keys file that can't be used."""
    _more_files()
    # The default looks every 700 objects, and so walks a thousand streams' worth of live ones
    # again and again; each walk is a gap in every stream.
    gc.set_threshold(20_000, 10, 10)
    # How long the event loop waits for a thread that plans or counts: 5 ms by default, too long
    # for tokens that are a millisecond apart.
    sys.setswitchinterval(0.0005)
    server = Server(App(settings))
    listening = listen(server.config)
    _cheap_sends(listening)
    server.run([listening])


def listen(config: uvicorn.Config) -> socket.socket:
    """Take the address to listen on. Where that can't be, say which it was, and exit with 3."""
    try:
        return config.bind_socket()
    except SystemExit:
        # uvicorn has told the system's reason, without the address.
        log.error(
            "can't listen on %s port %d: choose others by --host and --port; port 0 is a free one",
            config.host,
            config.port,
        )
        raise


def _cheap_sends(listening: socket.socket) -> None:
    """Take the plainest congestion control, which accepted connections inherit.

    BBR, the default of some systems, paces each connection by a timer of its own. On a loopback
    or a local network there is nothing to control, and a send costs twice as much with it.
    """
    with contextlib.suppress(AttributeError, OSError):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


def _not_about_upgrades(record: logging.LogRecord) -> bool:
    """Leave out what uvicorn says of an upgrade that is answered with an error of ours.

    It takes an answer of the application's own, such as 401, for a handshake that was forgotten.
    """
    message = record.getMessage()
    return not message.startswith(
        (
            "Unsupported upgrade request",
            "No supported WebSocket library",
            "ASGI callable returned without completing handshake",
        )
    )


def _without_keys(record: logging.LogRecord) -> bool:
    """Have no key in the headers of an upgrade, which are logged one by one at level debug."""
    args = record.args
    if isinstance(args, tuple) and len(args) == 2 and str(args[0]).lower().encode() in PRIVATE:
        record.args = args[0], "…"
    return True


def logging_config(level: str) -> dict[str, Any]:
    """Uvicorn's logging, with our own lines beside its, and without anybody's key."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["filters"] = {"without_keys": {"()": lambda: _without_keys}}
    config["handlers"]["default"]["filters"] = ["without_keys"]
    config["loggers"]["paceline"] = {
        "handlers": ["default"],
        "level": level.upper(),
        "propagate": False,
    }
    return config


def _more_files() -> None:
    """Let the process have as many connections as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
