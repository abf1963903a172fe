"""`paceline record`: a proxy in front of a real endpoint that keeps what passes."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
import uvicorn

from paceline.cli import fail

if TYPE_CHECKING:
    from paceline.recording.proxy import Recorder


def record(
    *,
    upstream: Annotated[
        str, typer.Option(help="The endpoint's base address: https://api.example/v1.")
    ],
    out: Annotated[
        Path, typer.Option(help="A folder, or a file of lines where the name ends with .jsonl.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 8001,
    log_level: Annotated[str, typer.Option(help="critical … debug.")] = "info",
) -> None:
    """Hand requests on to an endpoint and record each exchange, for `serve --replay`.

    A client's base URL becomes http://127.0.0.1:8001/v1 and all else stays, its key too: keys
    pass, and aren't kept.
    """
    # Imported here so that the other commands start without the server.
    from paceline.recording.files import RecordingError, open_writer  # noqa: PLC0415
    from paceline.recording.proxy import Recorder  # noqa: PLC0415
    from paceline.recording.upstream import Base  # noqa: PLC0415
    from paceline.serve import listen  # noqa: PLC0415

    try:
        base = Base.parse(upstream)
        writer = open_writer(out)
    except RecordingError as error:
        fail(str(error))
    except ValueError as error:
        fail(f"--upstream: {error}")
    if log_level not in uvicorn.config.LOG_LEVELS:
        fail(f"--log-level: {log_level!r} is none of {', '.join(uvicorn.config.LOG_LEVELS)}")
    recorder = Recorder(base, writer)
    server = _Server(recorder, host=host, port=port, log_level=log_level)
    listening = listen(server.config)
    where = listening.getsockname()
    # The thread that writes exchanges down must not keep the loop for long, as in `serve`.
    sys.setswitchinterval(0.0005)
    server.ready = f"recording {base} at http://{where[0]}:{where[1]}{base.path} into {out}"
    server.run([listening])


class _Server(uvicorn.Server):
    """A server that ends what is under way when it is told to stop, so that it is kept."""

    def __init__(self, recorder: Recorder, *, host: str, port: int, log_level: str) -> None:
        from paceline.http.upgrades import protocol  # noqa: PLC0415 - as above
        from paceline.serve import logging_config  # noqa: PLC0415 - as above

        super().__init__(
            uvicorn.Config(
                recorder,
                host=host,
                port=port,
                loop="uvloop",
                http=protocol(),
                ws="websockets-sansio",
                ws_max_size=1 << 30,
                ws_per_message_deflate=False,
                lifespan="on",
                log_config=logging_config(log_level),
                log_level=log_level,
                access_log=False,
                server_header=False,
                # Upstream's own date passes.
                date_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=3,
            )
        )
        self._recorder = recorder
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ready = ""
        """What to say once connections are taken."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and remember the loop for the signal's sake."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        typer.echo(self.ready)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._recorder.stop)
