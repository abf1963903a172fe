"""How many streams the load test's lean client can watch before it is late itself.

Starts a server on one core and plays rounds of streams against it from the other: the stamps are
the client's own, and how late they are is told by its heart and by the server's record of its
writes. A round's worst stream is held against its rate too: a client that can't keep up makes
every stream look slow.

    python bench/lean_client.py --streams 16 32 64 96 128 192 256 --rate 750 --seconds 4
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import servers
import uvloop

from paceline.client.stream import BaseUrl
from paceline_loadtest.caller import Ask
from paceline_loadtest.lateness import OwnLateness
from paceline_loadtest.lean import LeanClient
from paceline_loadtest.model import Call
from paceline_loadtest.records import ServerRecords
from paceline_loadtest.statistics import tpot

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Round:
    """One round's figures."""

    streams: int
    failed: int
    heartbeat_p50_ms: float
    heartbeat_p99_ms: float
    receipt_p50_ms: float
    receipt_p99_ms: float
    receipt_max_ms: float
    rate_median_off: float
    rate_worst_off: float
    cores: float
    """What the client took of its core."""


def ask(model: str, number: int, tokens: int) -> Ask:
    message = {"role": "user", "content": f"Stream {number}, please."}
    return Ask(
        "chat",
        {
            "model": model,
            "messages": [message],
            "stream": True,
            "stream_options": {"include_usage": True},
            "paceline": {"output_tokens": tokens},
        },
    )


async def play(port: int, rate: float, streams: int, seconds: float, token_s: float) -> Round:
    """All streams at once, begun evenly over the time of a token so that none are in step."""
    client = LeanClient(f"http://{HOST}:{port}/v1", "bench")
    await client.warm(streams)
    own = OwnLateness()
    tokens = round(rate * seconds)

    async def one(number: int) -> Call:
        await asyncio.sleep(token_s * number / streams)
        call = Call(time.perf_counter())
        await client.call(ask(f"flat-{rate:g}", number, tokens), call)
        return call

    before_cpu, before = time.process_time(), time.perf_counter()
    with own.watched():
        calls = await asyncio.gather(*(one(number) for number in range(streams)))
    cores = (time.process_time() - before_cpu) / (time.perf_counter() - before)
    await client.aclose()
    records = ServerRecords(BaseUrl("http", HOST, port, ""), "chat")
    await asyncio.to_thread(records.receipt, calls, own.receipt)
    off = sorted(abs(1.0 / (found * rate) - 1.0) for c in calls if (found := tpot(c)) is not None)
    kinds = own.kinds()
    heart, receipt = kinds["heartbeat"], kinds["receipt"]
    return Round(
        streams=streams,
        failed=sum(not call.ok for call in calls),
        heartbeat_p50_ms=heart.p50_s * 1e3,
        heartbeat_p99_ms=heart.p99_s * 1e3,
        receipt_p50_ms=receipt.p50_s * 1e3,
        receipt_p99_ms=receipt.p99_s * 1e3,
        receipt_max_ms=receipt.max_s * 1e3,
        rate_median_off=off[len(off) // 2],
        rate_worst_off=off[-1],
        cores=cores,
    )


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[16, 32, 64, 96, 128, 192, 256])
    parser.add_argument("--rate", type=float, default=750.0)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(
        "| Streams | tok/s in all | heartbeat p50 / p99, ms | receipt p50 / p99 / max, ms |", end=""
    )
    print(" rate off, median / worst | client's core | failed |")
    print("|---:" * 7 + "|")
    rounds = []
    with servers.own_server() as running:
        for streams in args.streams:
            found = uvloop.run(
                play(running.port, args.rate, streams, args.seconds, 1.0 / args.rate)
            )
            rounds.append(found)
            cells = [
                f"{streams}",
                f"{streams * args.rate:,.0f}",
                f"{found.heartbeat_p50_ms:.2f} / {found.heartbeat_p99_ms:.2f}",
                " / ".join(
                    (
                        f"{found.receipt_p50_ms:.2f}",
                        f"{found.receipt_p99_ms:.2f}",
                        f"{found.receipt_max_ms:.1f}",
                    )
                ),
                f"{found.rate_median_off:.2%} / {found.rate_worst_off:.2%}",
                f"{found.cores:.2f}",
                f"{found.failed}",
            ]
            print("| " + " | ".join(cells) + " |", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(found) for found in rounds], indent=2), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
