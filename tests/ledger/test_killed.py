"""A process that is killed amid its commits: what it was told is there, once, and adds up."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from paceline.core.ledger import Amount, Terms, Window
from paceline.runtime.ledger.database import LedgerError
from paceline.runtime.ledger.questions import Filter
from paceline.runtime.ledger.sqlite import SqliteLedger
from tests.ledger import made

TERMS = Terms(budget_usd=10**15, budget_period="month", primary=Window(300, 10**15))


def killed_after(path: Path, run: str, lines: int) -> dict[str, tuple[int, int]]:
    """The entries that the process was told of before it was killed in the middle of more."""
    child = subprocess.Popen(
        [sys.executable, str(Path(made.__file__).with_name("killed.py")), str(path), run],
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert child.stdout is not None
    told = b""
    while told.count(b"\n") < lines:
        more = child.stdout.read(65_536)
        assert more, "the process ended by itself"
        told += more
    if run == "1":
        with pytest.raises(LedgerError, match="another process has it open"):
            SqliteLedger(path)
    child.kill()
    told += child.stdout.read()
    child.stdout.close()
    assert child.wait() == -9
    found = {}
    for line in told.decode().splitlines():
        entry_id, usd, credit = line.split()
        assert entry_id not in found
        found[entry_id] = (int(usd), int(credit))
    return found


async def test_what_it_was_told_is_there_once_and_adds_up(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    told: dict[str, tuple[int, int]] = {}
    recovered = 0
    for run in range(1, 4):
        told |= killed_after(path, str(run), 400 * run)
        ledger = SqliteLedger(path)
        recovered += ledger.recovered
        # Where nothing is open, nothing is held.
        for key in ("k0", "k1", "k2"):
            standing = await ledger.standing(key, TERMS, made.NOON_US)
            assert standing.held == Amount(0, 0)
        await ledger.close()
    assert recovered > 0

    ledger = SqliteLedger(path)
    assert ledger.recovered == 0
    lines = []
    after = None
    while page := await ledger.entries(Filter(), 500, after):
        lines += page
        last = page[-1]
        after = made.cursor(last)
    assert len({line.id for line in lines}) == len(lines)
    kept = {line.id: (line.usd, line.credits) for line in lines}
    assert {key: kept[key] for key in told} == told

    lost = [line for line in lines if line.state == "lost"]
    assert len(lost) == recovered
    assert {(line.usd, line.credits, line.prompt_tokens) for line in lost} == {(0, 0, 0)}
    assert not {line.id for line in lost} & told.keys()

    # Entries, rollups, spending and purses are the same sums.
    usd: dict[str, int] = defaultdict(int)
    for line in lines:
        usd[line.key_id] += line.usd or 0
    by_key = {group.values[0]: group.sums for group in await ledger.totals(Filter(), ["key_id"])}
    assert {key: sums.usd for key, sums in by_key.items()} == usd
    assert sum(sums.requests for sums in by_key.values()) == len(lines)
    for width in (60, 3_600, 86_400):
        spans = await ledger.buckets(width, 0, 2**40)
        assert sum(group.sums.usd for group in spans) == sum(usd.values())
    spent = made.rows(path, "SELECT key_id, sum(usd_milli), sum(usd_pico) FROM spending GROUP BY 1")
    assert {key: milli * 10**9 + pico for key, milli, pico in spent} == usd
    newest = max(line.created_us for line in lines)
    for key, total in usd.items():
        assert (await ledger.standing(key, Terms(budget_usd=1), newest)).period_used.usd == total
    await ledger.close()
