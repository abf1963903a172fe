"""The live server against the simulator: the same arrivals, request by request.

Starts a server, for both must begin with an engine that never ran, and sends it the first
requests of a trace (timestamp, prompt tokens, output tokens a line, as the Azure traces have
them) at the trace's own times, sped up; then simulates the profile with the arrivals that the
server noted, and compares each request's time to first token and end-to-end latency, as the
client saw them, with the simulated ones.

    python bench/predict.py trace.csv --model gpu-40 --requests 200 --speedup 0.5
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import servers

from paceline.core.deployment import EngineDeployment
from paceline.core.sequence import Sequence
from paceline.core.simulate import Arrival, replay
from paceline.runtime.profile_files import ProfileRegistry

HOST = "127.0.0.1"
_SMALLEST_ID, _LARGEST_ID = 1_000, 90_000


@dataclass(slots=True)
class Request:
    """One request: what is asked (seconds, tokens), and what the client saw (seconds)."""

    number: int
    at_s: float
    prompt_tokens: int
    output_tokens: int
    ttft_s: float = 0.0
    e2e_s: float = 0.0


def read_trace(path: Path, count: int, speedup: float) -> list[Request]:
    """The first `count` requests of a trace, their times counted from the first."""
    found: list[Request] = []
    with path.open(newline="") as file:
        for stamp, prompt, output in list(csv.reader(file))[1 : count + 1]:
            at = datetime.fromisoformat(stamp[:26]).timestamp()
            found.append(Request(len(found), at, int(prompt), int(output)))
    first = found[0].at_s
    for request in found:
        request.at_s = (request.at_s - first) / speedup
    return found


async def send(request: Request, args: argparse.Namespace, start: float) -> None:
    """Send one request at its time, and stamp its first and its last token."""
    ids = random.Random(request.number).choices(
        range(_SMALLEST_ID, _LARGEST_ID), k=request.prompt_tokens
    )
    body = json.dumps(
        {
            "model": args.model,
            "prompt": ids,
            "max_tokens": request.output_tokens,
            "ignore_eos": True,
            "stream": True,
        }
    ).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        f"X-Request-Id: predict-{request.number}\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    await asyncio.sleep(max(request.at_s - (time.perf_counter() - start), 0))
    reader, writer = await asyncio.open_connection(HOST, args.port)
    began = time.perf_counter()
    writer.write(head.encode() + body)
    tail = b""
    while part := await reader.read(1 << 16):
        now = time.perf_counter()
        seen, tail = tail + part, part[-64:]
        if b'"text":"' in seen:
            request.ttft_s = request.ttft_s or now - began
            request.e2e_s = now - began
    writer.close()


async def record_of(number: int, args: argparse.Namespace) -> dict[str, Any]:
    """What the server noted of a request."""
    reader, writer = await asyncio.open_connection(HOST, args.port)
    path = f"/paceline/requests/predict-{number}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read(-1)
    writer.close()
    found: dict[str, Any] = json.loads(answer.split(b"\r\n\r\n", 1)[1])
    return found


def simulate(model: str, arrivals: list[tuple[int, Request]]) -> dict[int, tuple[float, float]]:
    """TTFT and E2E (s) of each request in virtual time; `arrivals` are (ns, request)."""
    profile = ProfileRegistry.load().get(model)
    if profile is None:
        raise SystemExit(f"no profile is called {model!r}")
    events = [
        Arrival(at_ns, (Sequence(r.prompt_tokens, r.output_tokens, owner=r.number),))
        for at_ns, r in sorted(arrivals, key=lambda pair: pair[0])
    ]
    return {
        seq.owner: ((seq.first_ns - seq.received_ns) / 1e9, (seq.end_ns - seq.received_ns) / 1e9)
        for seq in replay(EngineDeployment(profile), events)
    }


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Run the trace live, then in the simulator, and compare."""
    requests = read_trace(args.trace, args.requests, args.speedup)
    start = time.perf_counter()
    await asyncio.gather(*(send(request, args, start) for request in requests))
    took_s = time.perf_counter() - start
    records = [await record_of(request.number, args) for request in requests]
    arrivals = [
        (record["received_ns"], request) for record, request in zip(records, requests, strict=True)
    ]
    predicted = simulate(args.model, arrivals)
    rows = []
    for request in requests:
        ttft_s, e2e_s = predicted[request.number]
        rows.append(
            {
                "ttft_ms": request.ttft_s * 1e3,
                "ttft_predicted_ms": ttft_s * 1e3,
                "e2e_ms": request.e2e_s * 1e3,
                "e2e_predicted_ms": e2e_s * 1e3,
            }
        )
    outside = sum(not within(row) for row in rows)
    worst = {
        key: max(abs(row[f"{key}_ms"] - row[f"{key}_predicted_ms"]) for row in rows)
        for key in ("ttft", "e2e")
    }
    return {
        "model": args.model,
        "requests": len(rows),
        "took_s": took_s,
        "outside_5ms_or_1pct": outside,
        "worst_ttft_ms": worst["ttft"],
        "worst_e2e_ms": worst["e2e"],
        "rows": rows,
    }


def within(row: dict[str, float]) -> bool:
    """Whether a request's two times are within 5 ms or 1 % of the simulated ones."""
    return all(
        abs(row[f"{key}_ms"] - row[f"{key}_predicted_ms"])
        <= max(5.0, 0.01 * row[f"{key}_predicted_ms"])
        for key in ("ttft", "e2e")
    )


def main() -> int:
    """Print the comparison; exit 1 when a request is outside."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--model", default="gpu-40")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--speedup", type=float, default=1.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with servers.own_server() as running:
        args.port = running.port
        result = asyncio.run(measure(args))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1))
    rows = result.pop("rows")
    print(json.dumps(result, indent=1))
    slowest = max(rows, key=lambda row: row["ttft_ms"])
    print("longest time to first token:", json.dumps(slowest))
    return 1 if result["outside_5ms_or_1pct"] else 0


if __name__ == "__main__":
    sys.exit(main())
