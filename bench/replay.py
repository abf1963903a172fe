"""How near a replay comes to its recording, and what the recorder itself costs.

Starts a server, a recorder in front of it and, afterwards, a second server that replays what was
recorded; sends a stream of 1,000 tokens at each rate through all three. Compared are the gaps
between a stream's chunks: as recorded, and as the replay's client saw them. What the recorder
adds is told twice: by itself, from a read to the same bytes' leaving, and by the client, which
sends the same request to the server directly and through the recorder in turns.

    python bench/replay.py
    python bench/replay.py --rates 200,750 --streams 16 --check
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from paceline.core.percentile import percentile
from paceline.recording.document import Exchange
from paceline.recording.files import load

HOST = "127.0.0.1"
PATH = "/v1/chat/completions"
LIMIT_MS = 1.0
LONG = 50
"""Chunks of a stream that tells what the recorder adds; a short answer finds it cold."""
START_S = 30.0


@dataclass
class Seen:
    """A stream as its client saw it: when how many bytes of the body were there."""

    sent_ns: int = 0
    arrivals: list[tuple[int, int]] = field(default_factory=list)

    def times(self, ends: Sequence[int]) -> list[int]:
        """When the byte before each of these places arrived."""
        found, at = [], 0
        for end in ends:
            while self.arrivals[at][1] < end:
                at += 1
            found.append(self.arrivals[at][0])
        return found


def ask(port: int, body: bytes, rate: float, tokens: int) -> Seen:
    """Send a request and stamp each read of its chunked answer."""
    seen = Seen()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"X-Paceline-Rate: {rate:g}\r\nX-Paceline-TTFT-Ms: 50\r\n"
        f"X-Paceline-Output-Tokens: {tokens}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((HOST, port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        seen.sent_ns = time.monotonic_ns()
        connection.sendall(head.encode() + body)
        reads: list[tuple[int, bytes]] = []
        while data := connection.recv(1 << 16):
            reads.append((time.monotonic_ns(), data))
    _unchunk(reads, seen)
    return seen


def _unchunk(reads: list[tuple[int, bytes]], seen: Seen) -> None:
    """Where in the body each read has got to."""
    whole = b"".join(data for _, data in reads)
    ends: list[tuple[int, int]] = []  # a place on the wire, and the body's length there
    at, length = whole.index(b"\r\n\r\n") + 4, 0
    while True:
        line = whole.index(b"\r\n", at)
        size = int(whole[at:line], 16)
        if not size:
            break
        at, length = line + 2 + size + 2, length + size
        ends.append((at - 2, length))
    wire, place = 0, 0
    for at_ns, data in reads:
        wire += len(data)
        while place < len(ends) and ends[place][0] <= wire:
            place += 1
        seen.arrivals.append((at_ns, ends[place - 1][1] if place else 0))


def ask_many(port: int, bodies: Sequence[bytes], rate: float, tokens: int) -> list[Seen]:
    """The same side by side, in the order of the bodies."""
    found: list[Seen | None] = [None] * len(bodies)

    def one(place: int) -> None:
        found[place] = ask(port, bodies[place], rate, tokens)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [seen for seen in found if seen is not None]


@contextmanager
def running(*arguments: str) -> Iterator[int]:
    """A command of ours on a free port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-c", "from paceline.cli import main; main()", *arguments]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--log-level", "warning"], stdout=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection((HOST, port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"{arguments[0]} did not start") from None
                time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait()


def body_of(rate: float, number: int) -> bytes:
    """A request's body; no two of a run are the same."""
    message = {"role": "user", "content": f"rate {rate:g}, stream {number}"}
    return json.dumps({"model": "gpu-40", "stream": True, "messages": [message]}).encode()


def quantiles(values: Sequence[float], unit: float = 1e6) -> str:
    """Median, p99 and most, in milliseconds."""
    ordered = sorted(values)
    shown = (percentile(ordered, 50), percentile(ordered, 99), ordered[-1])
    return " | ".join(f"{value / unit:.3f}" for value in shown)


def compare(exchange: Exchange, seen: Seen) -> tuple[list[float], list[float]]:
    """Each gap's and each chunk's distance from the recording (ns)."""
    ends, total = [], 0
    for chunk in exchange.chunks:
        total += len(chunk.data)
        ends.append(total)
    played, taken = seen.times(ends), [chunk.at_ns for chunk in exchange.chunks]
    gaps = [
        abs((played[i] - played[i - 1]) - (taken[i] - taken[i - 1])) for i in range(1, len(taken))
    ]
    places = [abs((at - seen.sent_ns) - then) for at, then in zip(played, taken, strict=True)]
    return [float(gap) for gap in gaps], [float(place) for place in places]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="200,400,750", help="tokens a second, with commas")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=1, help="side by side at each rate")
    parser.add_argument("--turns", type=int, default=20, help="short requests, direct and recorded")
    parser.add_argument("--check", action="store_true", help="exit 1 for a p99 over 1 ms")
    options = parser.parse_args()
    rates = [float(rate) for rate in options.rates.split(",")]
    bodies = {rate: [body_of(rate, i) for i in range(options.streams)] for rate in rates}
    missed = False
    with ExitStack() as stack:
        out = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        direct: list[int] = []
        recorded: list[int] = []
        with running("serve") as server:
            upstream = f"http://{HOST}:{server}/v1"
            with running("record", "--upstream", upstream, "--out", str(out)) as recorder:
                for rate in rates:
                    ask_many(recorder, bodies[rate], rate, options.tokens)
                for turn in range(options.turns):
                    short = body_of(0, turn)
                    for port, kept in ((server, direct), (recorder, recorded)):
                        seen = ask(port, short, 1000, 1)
                        kept.append(seen.arrivals[-1][0] - seen.sent_ns)
        tape = {exchange.request.body: exchange for exchange in load(out)}
        with running("serve", "--replay", str(out), "--replay-miss", "error") as server:
            print("| tok/s | streams | chunks | gap off: p50 ms | p99 ms | most ms |", end="")
            print(" place off: p50 ms | p99 ms | most ms |")
            print("|---|---|---|---|---|---|---|---|---|")
            for rate in rates:
                ask_many(server, bodies[rate], rate, 0)  # a first turn warms everything up
                gaps: list[float] = []
                places: list[float] = []
                chunks = 0
                answers = ask_many(server, bodies[rate], rate, 0)
                for body, seen in zip(bodies[rate], answers, strict=True):
                    exchange = tape[_as_kept(body)]
                    chunks += len(exchange.chunks)
                    off, where = compare(exchange, seen)
                    gaps += off
                    places += where
                missed = missed or percentile(sorted(gaps), 99) > LIMIT_MS * 1e6
                print(
                    f"| {rate:g} | {options.streams} | {chunks} | {quantiles(gaps)} "
                    f"| {quantiles(places)} |"
                )
    added = [each.added for each in tape.values() if len(each.chunks) >= LONG]
    chunks_us = median(each.chunk_ns_p50 for each in added) / 1e3
    worst_us = median(each.chunk_ns_max for each in added) / 1e3
    head_us = median(each.request_ns - each.connect_ns for each in added) / 1e3
    through_ms = (median(recorded) - median(direct)) / 1e6
    print(
        f"\nThe recorder, by its own word, medians of {len(added)} streams: {head_us:.0f} µs on a"
    )
    print(f"request, {chunks_us:.0f} µs on a chunk, {worst_us:.0f} µs on a stream's slowest chunk.")
    print(f"By the client's, {options.turns} turns: {through_ms:.3f} ms on a whole short answer,")
    print("a new connection each way included.")
    return int(missed and options.check)


def _as_kept(body: bytes) -> bytes:
    """A body as it comes back from a recording."""
    return json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":")).encode()


if __name__ == "__main__":
    sys.exit(main())
