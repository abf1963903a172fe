"""What the ledger does in a second, and how long its answers take over a million rows.

First requests are held and settled as fast as one thread of Python can, without a file and with
one; then a file is filled with a month of rows, and every endpoint is asked over ASGI, five times.
`--check` exits 1 below 3,000 settled requests a second or above 200 ms for an answer.

    python bench/ledger.py --rows 1000000
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

from paceline.core.ledger import Amount, Entry, EntryState, Hold, Terms, Times, Window
from paceline.core.purse import Stake
from paceline.core.usage import Usage
from paceline.http import errors
from paceline.http.auth import CALLER
from paceline.http.ledger_routes import PATH, TOTALS_PATH, ledger_routes
from paceline.http.usage_routes import COSTS_PATH, USAGE_PATH, usage_routes
from paceline.runtime.caller import NOBODY
from paceline.runtime.ledger.database import open_file, write_batch
from paceline.runtime.ledger.questions import DIMENSIONS
from paceline.runtime.ledger.rows import entry_row
from paceline.runtime.ledger.sqlite import SqliteLedger

LEAST_A_SECOND, MOST_MS = 3_000.0, 200.0
REPEATS = 5
DAY_S = 86_400
DAYS = 30
FIRST_S = 20_700 * DAY_S  # 4 September 2026
TERMS = Terms(budget_usd=10**18, budget_period="month", primary=Window(300, 10**18))
KEYS = [f"{i:012x}" for i in range(20)]
MODELS = ["gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", "gpt-5.5", "gpt-5.4"]
TIERS = ["default", "default", "default", "fast", "ultrafast"]
ENDPOINTS = ["/v1/responses", "/v1/chat/completions"]


def entries(count: int, now_us: int | None = None) -> Iterator[Entry]:
    """Requests of a month, in order; `now_us` has all of them at one moment."""
    chance = random.Random(7)
    for i in range(count):
        model = chance.choice(MODELS)
        at_us = (FIRST_S * 10**6 + i * DAYS * DAY_S * 10**6 // count) if now_us is None else now_us
        prompt, output = chance.randrange(1, 40_000), chance.randrange(1, 2_000)
        cost = Amount(prompt * 4_000_000 + output * 20_000_000, prompt * 10**8)
        held = Hold(
            id=f"{chance.getrandbits(96):024x}",
            request_id=f"chatcmpl-{i}",
            key_id=chance.choice(KEYS),
            model=model,
            billed_as=model,
            profile=model,
            tier_asked="auto",
            tier_served=chance.choice(TIERS),
            endpoint=chance.choice(ENDPOINTS),
            stream=True,
            created_us=at_us,
            most=cost,
        )
        state: EntryState = "finished" if i % 50 else "cut"
        usage = Usage(prompt, output, prompt // 2)
        times = Times(10**8, 10**6, 9 * 10**7, 10**9, 2 * 10**9)
        yield Entry(held, state, at_us + 10**6, usage, cost, "stop", times)


async def settled_a_second(path: Path | None, count: int) -> tuple[float, float]:
    """Holds and settlements of 64 at a time; requests a second, and µs of CPU a request."""
    ledger = SqliteLedger(path)
    done = 0
    all_done = asyncio.Event()

    def then() -> None:
        nonlocal done
        done += 1
        if done == count:
            all_done.set()

    made = list(entries(count, time.time_ns() // 1000))
    started, cpu = time.perf_counter(), time.process_time()
    for first in range(0, count, 64):
        some = made[first : first + 64]
        for entry in some:
            assert await ledger.hold(entry.hold, TERMS) is None
        await asyncio.sleep(0)
        for entry in some:
            ledger.settle(entry, then)
        await asyncio.sleep(0)
    await all_done.wait()
    (group,) = await ledger.totals()
    seconds, used = time.perf_counter() - started, time.process_time() - cpu
    assert group.sums.requests == count
    await ledger.close()
    return count / seconds, used / count * 1e6


def fill(path: Path, count: int) -> float:
    """Write rows as the writer's thread does; seconds."""
    connection = open_file(path)
    started = time.perf_counter()
    source = entries(count)
    while some := list(islice(source, 2_000)):
        rows = [
            entry_row(
                entry,
                Stake(
                    most=entry.hold.most,
                    bounded=True,
                    day=entry.hold.created_us // (DAY_S * 10**6),
                    prepaid_usd=False,
                    prepaid_credits=False,
                    primary=None,
                    secondary=None,
                    usd=(),
                    credits=(),
                ),
            )
            for entry in some
        ]
        write_batch(connection, rows)
    connection.close()
    return time.perf_counter() - started


def questions() -> list[tuple[str, str, str]]:
    """Name, path and query."""
    month = f"start_time={FIRST_S}&end_time={FIRST_S + DAYS * DAY_S}"
    hours = f"{month}&bucket_width=1h&limit=168"
    middle = FIRST_S + DAYS * DAY_S // 2
    some = f"since={middle + 7}.5&until={middle + 613_000}"
    costs = f"{month}&limit=180"
    return [
        ("usage, 30 days", USAGE_PATH, f"{month}&limit=31"),
        (
            "usage, 30 days by key, model, tier",
            USAGE_PATH,
            f"{month}&limit=31&group_by=api_key_id,model,service_tier",
        ),
        ("usage, 168 hours by model", USAGE_PATH, f"{hours}&group_by=model"),
        ("usage, 1,440 minutes", USAGE_PATH, f"start_time={middle}&bucket_width=1m&limit=1440"),
        ("costs, 30 days", COSTS_PATH, costs),
        ("costs, 30 days by line item", COSTS_PATH, f"{costs}&group_by=line_item"),
        ("costs, 30 days by item and key", COSTS_PATH, f"{costs}&group_by=line_item,api_key_id"),
        ("ledger, latest 100", PATH, ""),
        ("ledger, latest 1,000", PATH, "limit=1000"),
        ("ledger, a key's latest 1,000", PATH, f"limit=1000&key_id={KEYS[3]}"),
        ("ledger, a model on a tier, cut", PATH, "model=gpt-5.4&tier=fast&state=cut"),
        ("ledger, an hour amid", PATH, f"since={middle}&until={middle + 3600}&limit=1000"),
        ("ledger, from a cursor amid", PATH, f"cursor=entry_{middle * 10**6}_1&limit=1000"),
        ("ledger, a request", PATH, "request_id=chatcmpl-5000"),
        ("totals", TOTALS_PATH, ""),
        ("totals by all", TOTALS_PATH, f"group_by={','.join(DIMENSIONS)}"),
        ("a key's totals of a week and a bit", TOTALS_PATH, f"{some}&key_id={KEYS[3]}"),
    ]


async def answers(path: Path) -> list[tuple[str, float, float, int]]:
    """Of each question the median and the most milliseconds, and the answer's size in bytes."""
    ledger = SqliteLedger(path)
    app = FastAPI()
    errors.install(app)
    app.include_router(usage_routes(ledger))
    app.include_router(ledger_routes(ledger))

    async def as_nobody(scope: Any, receive: Any, send: Any) -> None:
        # Whom the front door lets in where it asks for no key: everything is theirs to see.
        await app({**scope, CALLER: NOBODY}, receive, send)

    transport: Any = httpx2.ASGITransport(as_nobody)
    found = []
    async with httpx2.AsyncClient(transport=transport, base_url="http://bench.test") as client:
        for name, route, query in questions():
            times, size = [], 0
            for _ in range(REPEATS):
                started = time.perf_counter()
                answer = await client.get(f"{route}?{query}")
                times.append((time.perf_counter() - started) * 1e3)
                if answer.status_code != 200:
                    sys.exit(f"{name}: {answer.text}")
                size = len(answer.content)
            found.append((name, statistics.median(times), max(times), size))
    await ledger.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--settled", type=int, default=50_000)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        print("| store | settled requests/s | µs of CPU a request |")
        print("|---|---:|---:|")
        for name, path in (("private", None), ("file", Path(folder) / "settled.db")):
            rate, used = asyncio.run(settled_a_second(path, asked.settled))
            missed |= rate < LEAST_A_SECOND
            print(f"| {name} | {rate:,.0f} | {used:.1f} |")
        path = Path(folder) / "ledger.db"
        seconds = fill(path, asked.rows)
        size = path.stat().st_size / 1e6
        print(f"\n{asked.rows:,} rows written in {seconds:.1f} s; the file has {size:.0f} MB.\n")
        print("| question | median ms | most ms | bytes |")
        print("|---|---:|---:|---:|")
        for name, median, most, nbytes in asyncio.run(answers(path)):
            missed |= median > MOST_MS
            print(f"| {name} | {median:.1f} | {most:.1f} | {nbytes:,} |")
    if missed:
        print(f"\nMissed: {LEAST_A_SECOND:,.0f} a second, {MOST_MS:.0f} ms.")
    return int(missed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
