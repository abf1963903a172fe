"""Runs the C client against servers whose every byte and pause is known.

``make -C bench check`` calls it after the parser's own test.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

BUILD = Path(__file__).resolve().parent / "build"
Script = Sequence[bytes | float]
"""What a scripted server does after a request: bytes are sent, numbers are seconds slept."""

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def token(text: str = "a") -> bytes:
    delta = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(delta, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


@contextlib.contextmanager
def scripted(script: Script) -> Iterator[int]:
    """A server that plays ``script`` to each connection and closes it; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def play(peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.recv(65536)
            for step in script:
                if isinstance(step, bytes):
                    peer.sendall(step)
                else:
                    time.sleep(step)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=play, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@contextlib.contextmanager
def floor() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    process = subprocess.Popen([str(BUILD / "floor"), str(port)])
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait()


def client(mode: str, port: int, *more: str, model: str = "flat-100") -> dict[str, float]:
    command = [str(BUILD / "client"), mode, "--port", str(port), "--model", model, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


class Checks:
    def __init__(self) -> None:
        self.passed = self.failed = 0

    def that(self, holds: bool, what: str, figures: dict[str, float]) -> None:
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAIL {what}: {figures}", file=sys.stderr)


def known_gaps(check: Checks) -> None:
    """Tokens at 40, 140, 140, 240 ms: two of them share a write that is cut in two.

    The bounds are wide enough for a busy machine, and too narrow for a wrong formula.
    """
    third = chunk(token() + token())
    script: Script = (
        *(0.04, HEAD + chunk(token("")) + chunk(token())),
        *(0.1, third[:70], 0.0, third[70:]),
        *(0.1, chunk(token() + DONE) + END),
    )
    with scripted(script) as port:
        got = client("stream", port, "--max-tokens", "4", "--target", "10")
    check.that(got["tokens"] == 4 and got["wrong_token_count"] == 0, "token count", got)
    check.that(40 <= got["ttft_p50_ms"] < 120, "TTFT is the wait before the first text", got)
    check.that(12 < got["rate_median"] < 18, "rate is 3 gaps in 200 ms", got)
    check.that(80 < got["gap_p50_ms"] < 140, "median gap of 0, 100, 100", got)
    check.that(got["gap_max_ms"] < 170, "a gap is between neighbours", got)
    check.that(got["finished"] == 1 and got["failed"] == 0, "finished", got)


def endings(check: Checks) -> None:
    """Every way to go wrong is a failure, and none is counted as finished."""
    bad: dict[str, Script] = {
        "no [DONE]": (HEAD + chunk(token()) + END,),
        "closed in the middle": (HEAD + chunk(token()) + b"ff\r\ndata",),
        "closed at once": (),
        "status 500": (b"HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\n{}",),
        "not HTTP": (b"hello\r\n\r\n",),
    }
    for name, script in bad.items():
        with scripted(script) as port:
            got = client("stream", port, "--streams", "3", "--max-tokens", "1")
        check.that(got["failed"] == 3 and got["finished"] == 0, name, got)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        nobody = gone.getsockname()[1]
    got = client("stream", nobody, "--streams", "3")
    check.that(got["failed"] == 3 and got["started"] == 0, "refused", got)
    with scripted((HEAD + chunk(token()) + chunk(DONE) + END,)) as port:
        got = client("stream", port, "--streams", "3", "--max-tokens", "2")
    check.that(got["finished"] == 3 and got["wrong_token_count"] == 3, "too few tokens", got)
    with scripted((HEAD + chunk(token()), 5.0)) as port:
        got = client("stream", port, "--streams", "3", "--timeout", "0.3", "--target", "100")
    check.that(got["cut_by_timeout"] == 3, "timeout", got)
    check.that(got["rate_off_worst_pct"] == 100, "a stream that stalled is wholly off", got)


def paced(check: Checks) -> None:
    """Against the floor, whose schedule is absolute."""
    with floor() as port:
        header = ("--header", "X-Paceline-TTFT-Ms: 30")
        got = client(
            *("stream", port, "--streams", "50", "--max-tokens", "200", "--target", "200"),
            *header,
            model="flat-200",
        )
        check.that(got["tokens"] == 50 * 200 and got["finished"] == 50, "all tokens", got)
        check.that(got["rate_off_median_pct"] < 5, "rate", got)
        check.that(got["ttft_min_ms"] >= 30, "no token before its time", got)
        check.that(9_000 < got["tok_per_s_steady"] < 11_000, "steady rate", got)

        got = client("closed", port, "--streams", "4", "--duration", "0.5", model="instant")
        check.that(got["requests"] > 100 and got["failed"] == 0, "closed loop", got)
        check.that(
            abs(got["tok_per_s"] / got["requests_per_s"] / 100 - 1) < 0.05,
            "100 tokens a request",
            got,
        )
        got = client("rps", port, "--streams", "4", "--duration", "0.5", model="instant")
        check.that(got["requests"] > 100 and got["failed"] == got["reconnects"] == 0, "rps", got)

        header = ("--header", "X-Paceline-TTFT-Ms: 60000")
        got = client("idle", port, "--streams", "200", "--settle", "0.2", *header)
        check.that(got["waiting"] == 200 and got["started"] == 0, "idle streams wait", got)
        got = client("cut", port, "--streams", "100", "--rounds", "3", "--settle", "0.2")
        check.that(got["started"] == 300 and got["unanswered"] == 0, "cut streams start", got)


def usage(check: Checks) -> None:
    for bad in (["stream"], ["stream", "--port", "0", "--model", "m"], ["--port", "1"]):
        done = subprocess.run([str(BUILD / "client"), *bad], capture_output=True, check=False)
        check.that(done.returncode == 2, f"refuses {bad}", {})


def main() -> int:
    check = Checks()
    parts: tuple[Callable[[Checks], None], ...] = (known_gaps, endings, paced, usage)
    for part in parts:
        part(check)
    print(f"{check.passed} passed, {check.failed} failed")
    return check.failed > 0


if __name__ == "__main__":
    sys.exit(main())
