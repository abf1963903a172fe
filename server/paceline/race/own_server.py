"""A server of one's own: another process, that ends when this one does, however this one ends."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.client.stream import BaseUrl, EventStream, StreamError

_HOST = "127.0.0.1"
_START_S = 30.0
_END_S = 3.0
_POLL_S = 0.02
_WARM_UP_S = 5.0
_LAST_WORDS = 12
"""Lines of what a server said before it failed; the last ones tell why."""


class ServerError(Exception):
    """The server did not start; the message has what it said."""


@contextlib.contextmanager
def own_server(models: Sequence[str], profiles: Sequence[Path] = ()) -> Iterator[str]:
    """Start a server with every profile, and those given, on a free port; gives its base URL.

    It has answered once for each of the models. Raises ServerError if it isn't ready within 30
    seconds.
    """
    port = _free_port()
    flags = [flag for path in profiles for flag in ("--profiles", str(path))]
    command = [sys.executable, "-m", __name__, "serve", "--host", _HOST, "--port", str(port)]
    command += ["--log-level", "warning", "--grace-s", "0", *flags]
    with tempfile.TemporaryFile() as said:
        # A session of its own: Ctrl-C is for the race, which then ends the server.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=said, start_new_session=True
        )
        try:
            _wait_until_ready(process, port)
            for model in models:
                _warm_up(port, model)
        except ServerError as error:
            _end(process)
            said.seek(0)
            words = said.read().decode("utf-8", "replace").splitlines()[-_LAST_WORDS:]
            raise ServerError("\n".join([str(error), *words])) from None
        except BaseException:
            _end(process)
            raise
        try:
            yield f"http://{_HOST}:{port}/v1"
        finally:
            _end(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if (code := process.poll()) is not None:
            raise ServerError(f"the server ended at once, with code {code}")
        if _ready(port):
            return
        time.sleep(_POLL_S)
    raise ServerError(f"the server was not ready after {_START_S:g} s")


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection(_HOST, port, timeout=1.0)
    try:
        connection.request("GET", "/ready")
        response = connection.getresponse()
        response.read()
        return response.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _warm_up(port: int, model: str) -> None:
    """Ask once for a token: what a first request makes a server build is no lane's waiting."""
    base = BaseUrl(scheme="http", host=_HOST, port=port, path="/v1")
    stream = EventStream(base, "warm-up", timeout_s=_WARM_UP_S)
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Warm up."}],
        "max_tokens": 1,
        "stream": True,
        "paceline": {"ttft_ms": 0, "rate": 1000},
    }
    try:
        stream.open()
        stream.send("/chat/completions", body)
        for _ in stream.receive():
            pass
    except StreamError:
        # What is wrong with a model is for its lane to show.
        pass
    finally:
        stream.finish()


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end_with_parent() -> None:
    """End this process when standard input does, which is when whoever started it is gone."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _main() -> None:
    """The server's side: the `paceline` command, watching whether it is still wanted."""
    from paceline.cli import main  # noqa: PLC0415 - the race itself needs no command line

    threading.Thread(target=_end_with_parent, daemon=True).start()
    main()


if __name__ == "__main__":
    _main()
