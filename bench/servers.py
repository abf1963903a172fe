"""The servers under test: how each is started, held to one core, and stopped."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
OUT = BENCH / "out"
VENV = ROOT / ".venv" / "bin"
GUIDELLM = BENCH / ".venv-guidellm" / "bin" / "guidellm"
#: Below the ephemeral range, where 10,000 client sockets would collide with it.
PORTS = range(18100, 18900)
SERVER_CPU, CLIENT_CPU = 0, 1
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Pace:
    """What a server with no profiles of its own must be told at start."""

    rate: float | None
    """Tokens a second of one stream; None: as fast as it can."""
    ttft_ms: float
    max_tokens: int


@dataclass(frozen=True)
class Server:
    """A server the harness can start. ``command`` gets the port and the point's pace."""

    name: str
    title: str
    command: Callable[[int, Pace], list[str]]
    capacity_start: int
    """Streams at 750 tok/s with which the capacity ladder begins."""
    by_rate: bool = False
    """It reads the rate from the model's name (``flat-750``), so profiles are translated."""

    def model(self, model: str, pace: Pace) -> str:
        if not self.by_rate:
            return model
        return "instant" if pace.rate is None else f"flat-{pace.rate:g}"


@dataclass(frozen=True)
class Running:
    server: Server
    port: int
    pid: int


def _uvicorn(module: str, port: int) -> list[str]:
    return [
        *(str(VENV / "python"), "-m", "uvicorn", "--app-dir", str(BENCH), f"{module}:app"),
        *("--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"),
    ]


def _naive(port: int, pace: Pace) -> list[str]:
    del pace
    return _uvicorn("naive_server", port)


def _sse_starlette(port: int, pace: Pace) -> list[str]:
    del pace
    return _uvicorn("sse_starlette_server", port)


def _guidellm(port: int, pace: Pace) -> list[str]:
    gap_ms = 1000 / pace.rate if pace.rate else 0.0
    return [
        *(str(GUIDELLM), "mock-server", "--host", "127.0.0.1", "--port", str(port)),
        *("--ttft-ms", f"{pace.ttft_ms:g}", "--ttft-ms-std", "0"),
        *("--itl-ms", f"{gap_ms:.6f}", "--itl-ms-std", "0", "--request-latency", "0"),
        *("--output-tokens", str(pace.max_tokens), "--output-tokens-std", "0"),
    ]


def _floor(port: int, pace: Pace) -> list[str]:
    del pace
    return [str(BENCH / "build" / "floor"), str(port)]


def catalogue(paceline_args: str = "") -> dict[str, Server]:
    """All known servers by name; ``paceline_args`` is added to ``paceline serve``."""

    def paceline(port: int, pace: Pace) -> list[str]:
        del pace
        serve = [str(VENV / "paceline"), "serve", "--host", "127.0.0.1", "--port", str(port)]
        return serve + shlex.split(paceline_args)

    known = (
        Server("paceline", "Paceline", paceline, capacity_start=2000),
        Server("naive", "naive FastAPI, a sleep a token", _naive, capacity_start=50),
        Server("sse-starlette", "sse-starlette, due tokens merged", _sse_starlette, 50),
        Server("guidellm", "guidellm mock-server", _guidellm, capacity_start=50),
        Server("floor", "C, the floor", _floor, capacity_start=2000, by_rate=True),
    )
    return {server.name: server for server in known}


def _free_port() -> int:
    for port in PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port in {PORTS.start}-{PORTS.stop - 1}")


def _answers(port: int, model: str) -> bool:
    """One short non-streaming request, which also takes the server's first-request costs."""
    body = {
        "model": model,
        "max_tokens": 2,
        "ignore_eos": True,
        "messages": [{"role": "user", "content": "warm up"}],
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_TIMEOUT_S)
    try:
        headers = {"content-type": "application/json", "authorization": "Bearer bench"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    if response.status != 200:
        raise RuntimeError(f"{model}: HTTP {response.status}: {text[:300]!r}")
    return True


def _spawn(command: list[str], cpu: int, log: Path) -> subprocess.Popen[bytes]:
    # Inherited from here rather than set afterwards: no thread is ever born elsewhere.
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        with log.open("ab") as out:
            return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
    finally:
        os.sched_setaffinity(0, mine)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def running(server: Server, model: str, pace: Pace, cpu: int) -> Iterator[Running]:
    """The server, answering ``model``, held to core ``cpu``; stopped at the end.

    Raises ``RuntimeError`` when it exits, refuses the model or isn't up in 90 s.
    """
    OUT.mkdir(exist_ok=True)
    port = _free_port()
    log = OUT / f"{server.name}.log"
    process = _spawn(server.command(port, pace), cpu, log)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(port, server.model(model, pace)):
            if process.poll() is not None:
                raise RuntimeError(f"{server.name} exited ({process.returncode}); see {log}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{server.name} isn't up after {START_TIMEOUT_S:.0f} s")
            time.sleep(0.1)
        yield Running(server, port, process.pid)
    finally:
        _stop(process)


@contextmanager
def own_server() -> Iterator[Running]:
    """Paceline alone on the server's core, with its caller held to the client's."""
    os.sched_setaffinity(0, {CLIENT_CPU})
    # A profile that nobody measures answers whether the server is up.
    nothing = Pace(rate=None, ttft_ms=0.0, max_tokens=1)
    with running(catalogue()["paceline"], "instant", nothing, SERVER_CPU) as live:
        yield live


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def wait_until_quiet(pid: int, timeout_s: float = 15.0) -> None:
    """Wait until the process uses under 15 % of a core: the run before may have left work."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        before = _cpu_ticks(pid)
        time.sleep(0.5)
        if (_cpu_ticks(pid) - before) / os.sysconf("SC_CLK_TCK") < 0.15 * 0.5:
            return
    print(f"  (still busy after {timeout_s:.0f} s)", file=sys.stderr)
