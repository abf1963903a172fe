"""A server that is killed among its streams, twenty times, on one ledger."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest

from tests.billing.books import DAY, entries, owed, total, usage_of
from tests.billing.crowd import Errand, Told, Way, run
from tests.live import Server

ROUNDS, STREAMS = 20, 200
WAYS: tuple[Way, ...] = ("chat", "completions", "responses", "messages")


def server(ledger: Path) -> Server:
    return Server("--ledger", str(ledger), "--price-date", DAY, profiles=())


def errands(around: int) -> list[Errand]:
    """Streams of which at any moment some are done, some in the middle, some just begun."""
    draw = random.Random(around)
    return [
        Errand(
            id=f"round-{around}-{i}",
            key=f"key-{i % 7}",
            way=WAYS[i % 4],
            model="gpt-5.6-sol",
            prompt=f"round {around} errand {i} " + "word " * draw.randrange(200),
            output_tokens=draw.randrange(1, 160),
            stream=True,
            rate=draw.choice((100.0, 200.0, 1000.0)),
            ttft_ms=draw.uniform(1, 120),
        )
        for i in range(STREAMS)
    ]


async def killed_in_the_middle(running: Server, asked: list[Errand], ends: int) -> list[Told]:
    """Kill the server once so many streams have ended."""
    enough = asyncio.Event()
    done = 0

    def ended(told: Told) -> None:
        nonlocal done
        done += told.usage is not None
        if done >= ends:
            enough.set()

    task = asyncio.create_task(run(running.host, running.port, asked, STREAMS, ended))
    await enough.wait()
    running.process.send_signal(signal.SIGKILL)
    return await task


@pytest.mark.realtime
@pytest.mark.timeout(300)
def test_nothing_finished_is_missing_or_doubled_and_the_holds_of_the_dead_are_given_back(
    tmp_path: Path,
) -> None:
    ledger = tmp_path / "ledger.sqlite3"
    draw = random.Random(20)
    told: dict[str, Told] = {}
    interrupted = 0
    for around in range(ROUNDS):
        running = server(ledger)
        with running:
            asked = errands(around)
            seen = asyncio.run(
                killed_in_the_middle(running, asked, draw.randrange(5, STREAMS - 60))
            )
            running.process.communicate()
        told.update((each.errand.id, each) for each in seen)
        finished = sum(each.usage is not None for each in seen)
        interrupted += 0 < finished < STREAMS
    # Else the rounds would prove nothing: the kill has to fall among the streams.
    assert interrupted == ROUNDS

    running = server(ledger)
    try:
        running.__enter__()
        with httpx2.Client(base_url=running.url, trust_env=False) as client:
            found = entries(client)
            sums = client.get("/paceline/ledger/totals").json()
    finally:
        said = running.stop()
    # The last round's are given back as this server starts, which it says.
    assert "were left open in the ledger" in said

    assert set(Counter(entry["request_id"] for entry in found).values()) == {1}
    by_id = {entry["request_id"]: entry for entry in found}
    for name, each in told.items():
        if each.usage is not None:
            entry = by_id[name]
            assert entry["state"] == "finished"
            assert usage_of(entry) == each.usage
    states = Counter(entry["state"] for entry in found)
    assert states["lost"] > 0
    for entry in found:
        if entry["state"] == "lost":
            assert told[entry["request_id"]].usage is None
            assert Decimal(entry["usd"]) == Decimal(entry["credits"]) == 0
        elif entry["state"] == "finished":
            # Its bill is that of its counts, and of what its client was told where it was.
            usage = told[entry["request_id"]].usage or usage_of(entry)
            assert Decimal(entry["usd"]) == owed(entry, usage, "usd")
            assert Decimal(entry["credits"]) == owed(entry, usage, "credits")
    assert sums["requests"] == len(found)
    assert Decimal(sums["usd"]) == total(found, "usd")
    assert Decimal(sums["credits"]) == total(found, "credits")


@pytest.mark.realtime
def test_what_a_dead_server_held_can_be_spent_again(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    digest = sha256(b"sk-saver").hexdigest()
    keys.write_text(f'[[keys]]\nname = "saver"\nsha256 = "{digest}"\nbudget_usd = 1\n')
    ledger = tmp_path / "ledger.sqlite3"
    # 45,000 tokens at 20 dollars a million: no second one has room in the budget.
    body = {
        "model": "gpt-5.6-sol",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "max_tokens": 45_000,
        "paceline": {"output_tokens": 2000, "reasoning_tokens": 0, "ttft_ms": 1, "rate": 500},
    }
    headers = {"Authorization": "Bearer sk-saver"}

    def start() -> Server:
        arguments = ["--ledger", str(ledger), "--keys-file", str(keys), "--price-date", DAY]
        running = Server(*arguments, profiles=())
        running.__enter__()
        return running

    first = start()
    with (
        httpx2.Client(base_url=first.url, headers=headers, trust_env=False) as client,
        client.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        pieces = answer.iter_bytes()
        next(pieces)
        refused = client.post("/v1/chat/completions", json=body)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "insufficient_quota"
        # A hold is written down a moment after it was made.
        time.sleep(0.2)
        first.process.send_signal(signal.SIGKILL)
        with pytest.raises(httpx2.HTTPError):
            list(pieces)
    first.stop()
    second = start()
    try:
        with httpx2.Client(base_url=second.url, headers=headers, trust_env=False) as client:
            assert client.post("/v1/chat/completions", json=body).text.endswith("[DONE]\n\n")
            assert sorted(entry["state"] for entry in entries(client)) == ["finished", "lost"]
    finally:
        second.stop()
