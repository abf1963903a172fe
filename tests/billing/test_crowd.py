"""Ten thousand requests from fifty keys at once: the books agree with what the clients saw."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.billing.books import DAY, entries, owed, total, usage_of
from tests.billing.crowd import Errand, Told, Way, run
from tests.live import Server

REQUESTS, KEYS, AT_ONCE = 10_000, 50, 400
WAYS: tuple[Way, ...] = ("chat", "completions", "responses", "messages")
BUDGET_USD, BUDGET_CREDITS, PREPAID_CREDITS = "0.05", "1.5", "2"
RPM, TPM = 60, 6_000
TERMS = {
    0: f"budget_usd = {BUDGET_USD}",
    1: f"budget_credits = {BUDGET_CREDITS}",
    2: f"prepaid_credits = {PREPAID_CREDITS}",
    3: f"rpm = {RPM}",
    4: f"tpm = {TPM}",
}
"""Of every tenth key and the one beside it; the rest may do anything."""


def key(number: int) -> str:
    return f"sk-crowd-{number}"


def key_id(number: int) -> str:
    return sha256(key(number).encode()).hexdigest()[:12]


def keys_file(folder: Path) -> Path:
    tables = ['[[keys]]\nname = "admin"\nadmin = true']
    tables[0] += f'\nsha256 = "{sha256(b"sk-admin").hexdigest()}"'
    for i in range(KEYS):
        digest = sha256(key(i).encode()).hexdigest()
        tables.append(
            f'[[keys]]\nname = "crowd-{i}"\nsha256 = "{digest}"\n{TERMS.get(i % 10, "")}\n'
        )
    path = folder / "keys.toml"
    path.write_text("\n".join(tables))
    return path


def errands() -> list[Errand]:
    draw = random.Random(50)
    made = []
    for i in range(REQUESTS):
        way = WAYS[draw.randrange(4)]
        stream = draw.random() < 0.6
        tokens = draw.randrange(1, 60)
        fault = leave = None
        fate = draw.random()
        if fate < 0.1 and stream and tokens > 8:
            leave = draw.randrange(2, 6)
        elif fate < 0.15:
            fault = f"fail_after:{draw.randrange(tokens)}"
        elif fate < 0.18:
            fault = "error:503"
        tier = None
        # A limit is a key's for one model and tier: who has one stays with the default.
        if i % KEYS % 10 not in {3, 4} and way != "messages":
            tier = draw.choice((None, "default", "flex", "fast"))
        made.append(
            Errand(
                id=f"errand-{i}",
                key=key(i % KEYS),
                way=way,
                model="gpt-5.6-sol",
                prompt=f"errand {i} " + "word " * draw.randrange(100),
                output_tokens=tokens,
                stream=stream,
                leave_after=leave,
                fault=fault,
                # Slow enough that who leaves does so before the end is written.
                rate=100.0 if leave else 20_000.0,
                ttft_ms=1.0,
                tier=tier,
            )
        )
    draw.shuffle(made)
    return made


@dataclass(frozen=True)
class Books:
    """What the clients were told, and what the ledger says."""

    told: list[Told]
    found: list[dict[str, Any]]
    metrics: str

    @property
    def by_id(self) -> dict[str, dict[str, Any]]:
        return {entry["request_id"]: entry for entry in self.found}

    def of_key(self, number: int) -> list[dict[str, Any]]:
        return [entry for entry in self.found if entry["key_id"] == key_id(number)]


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Books:
    folder = tmp_path_factory.mktemp("crowd")
    arguments = ["--ledger", str(folder / "ledger.sqlite3"), "--price-date", DAY]
    arguments += ["--keys-file", str(keys_file(folder))]
    with Server(*arguments, profiles=()) as running:
        told = asyncio.run(run(running.host, running.port, errands(), AT_ONCE))
        headers = {"Authorization": "Bearer sk-admin"}
        with httpx2.Client(base_url=running.url, headers=headers, trust_env=False) as client:
            found = entries(client)
            metrics = client.get("/metrics").text
    return Books(told, found, metrics)


pytestmark = [pytest.mark.realtime, pytest.mark.timeout(300)]


def test_every_way_to_end_came_about(books: Books) -> None:
    states = Counter(entry["state"] for entry in books.found)
    assert states["finished"] > 4000
    assert states["cut"] > 200
    assert states["failed"] > 100
    assert "lost" not in states
    refusals = Counter(each.error for each in books.told if each.status == 429)
    assert refusals["insufficient_quota"] > 500
    assert refusals["rate_limit_exceeded"] > 500


def test_each_request_that_was_let_in_has_one_entry_and_no_other_has_any(books: Books) -> None:
    assert len(books.by_id) == len(books.found)
    for each in books.told:
        assert each.status is not None, (each.errand, each.broke)
        if each.status == 200:
            assert each.errand.id in books.by_id, each
        elif each.status in {401, 429}:
            assert each.errand.id not in books.by_id, each


def test_each_key_s_ledger_says_what_its_clients_saw(books: Books) -> None:
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    kept: dict[str, Counter[str]] = defaultdict(Counter)
    by_id = books.by_id
    for each in books.told:
        if each.usage is not None:
            entry = by_id[each.errand.id]
            assert entry["state"] == "finished"
            assert usage_of(entry) == each.usage
            count(seen[each.errand.key], entry, owed(entry, each.usage, "usd"))
    told = {each.errand.id: each for each in books.told}
    for entry in books.found:
        if entry["state"] != "finished":
            continue
        each = told[entry["request_id"]]
        # Whoever leaves may do so when the last byte is already on its way.
        if each.usage is None:
            assert each.broke == "left"
            continue
        count(kept[each.errand.key], entry, Decimal(entry["usd"]))
    assert kept == seen


def count(sums: Counter[str], entry: dict[str, Any], usd: Decimal) -> None:
    """Add a request up, its dollars in whole units of 1e-12."""
    sums["requests"] += 1
    for name in ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens"):
        sums[name] += entry[name]
    sums["pico"] += int(usd.scaleb(12))


def test_what_was_cut_is_billed_as_far_as_it_went_and_what_failed_is_not(books: Books) -> None:
    told = {each.errand.id: each for each in books.told}
    for entry in books.found:
        errand = told[entry["request_id"]].errand
        assert entry["completion_tokens"] <= errand.output_tokens
        if entry["state"] == "cut":
            assert errand.leave_after is not None
            assert entry["completion_tokens"] < errand.output_tokens
            assert Decimal(entry["usd"]) == owed(entry, usage_of(entry), "usd")
        if entry["state"] == "failed":
            assert errand.fault is not None
            assert Decimal(entry["usd"]) == Decimal(entry["credits"] or 0) == 0


def test_no_budget_is_exceeded_and_each_is_used_up(books: Books) -> None:
    for number in range(KEYS):
        spent = books.of_key(number)
        match number % 10:
            case 0:
                assert Decimal("0.8") < total(spent, "usd") / Decimal(BUDGET_USD) <= 1
            case 1:
                assert Decimal("0.8") < total(spent, "credits") / Decimal(BUDGET_CREDITS) <= 1
            case 2:
                assert Decimal("0.8") < total(spent, "credits") / Decimal(PREPAID_CREDITS) <= 1
            case _:
                assert len(spent) > 0


def test_limits_hold_over_any_window(books: Books) -> None:
    for number in range(KEYS):
        spent = sorted(books.of_key(number), key=lambda entry: int(entry["created_us"]))
        if number % 10 == 3:
            sizes = [1] * len(spent)
            limit = RPM
        elif number % 10 == 4:
            sizes = [entry["prompt_tokens"] + entry["completion_tokens"] for entry in spent]
            limit = TPM
        else:
            continue
        at = [int(entry["created_us"]) for entry in spent]
        before = [0]
        for size in sizes:
            before.append(before[-1] + size)
        for i, began in enumerate(at):
            for length_us in (1_000, 1_000_000, 5_000_000, 30_000_000, 60_000_000):
                inside = before[bisect_right(at, began + length_us)] - before[i]
                # A full bucket, and what flows in meanwhile; one more for the clocks' rounding.
                assert inside <= limit + limit * length_us / 60_000_000 + max(1, limit // 1000)


def test_no_hold_is_left(books: Books) -> None:
    held = [line for line in books.metrics.splitlines() if line.startswith("paceline_holds")]
    assert held
    assert all(float(line.rpartition(" ")[2]) == 0 for line in held)
