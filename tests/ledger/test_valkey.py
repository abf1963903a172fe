"""The ledger that servers share, against a real store: the same rules as a purse, once, leases."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paceline.core.ledger import Amount, Shortage, Terms, Window
from paceline.core.purse import Purse, Stake
from paceline.http.usage_routes import USAGE_PATH
from paceline.runtime.ledger import valkey_books
from paceline.runtime.ledger.database import LedgerError
from paceline.runtime.ledger.interface import UnreadableError
from paceline.runtime.ledger.questions import Filter
from paceline.runtime.ledger.valkey import ValkeyLedger, is_shared
from paceline.runtime.ledger.valkey_sender import TIMEOUT_S
from tests.ledger import made
from tests.ledger.test_purse import NOON, STEP, TERMS
from tests.ledger.test_queries import ASKED, ENTRIES, answers_are_right
from tests.live import CHAT, Server, chat

SERVER = shutil.which("valkey-server") or shutil.which("redis-server")
pytestmark = pytest.mark.skipif(
    SERVER is None, reason="neither valkey-server nor redis-server is installed"
)
PATIENCE_S = 20.0
BOUNDED = Terms(budget_usd=10**20)

_prefixes = itertools.count(1)


class Store:
    """A store of its own on a Unix socket, which can be stopped and started anew, empty."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "s"
        self.url = f"unix://{self.socket}"
        self.start()

    def start(self) -> None:
        assert SERVER is not None
        self.process = subprocess.Popen(
            [SERVER, "--port", "0", "--unixsocket", str(self.socket), "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + PATIENCE_S
        while not self.socket.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    # A socket's path must be short.
    with tempfile.TemporaryDirectory() as folder:
        found = Store(Path(folder))
        yield found
        found.stop()


@asynccontextmanager
async def opened(store: Store, prefix: str | None = None, **other: Any) -> AsyncIterator[Any]:
    ledger = ValkeyLedger(store.url, prefix=prefix or f"t{next(_prefixes)}", **other)
    try:
        yield ledger
    finally:
        await ledger.close()


async def settled(ledger: ValkeyLedger, entry: Any) -> None:
    done = asyncio.get_running_loop().create_future()
    ledger.settle(entry, lambda: done.set_result(None))
    await asyncio.wait_for(done, PATIENCE_S)


async def until(true: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 - a task or another process makes it true
            await asyncio.sleep(0.01)


SCALES = st.sampled_from([0, 10**9 - 2, 10**15 + 7 * 10**8])
"""From amounts of a few to such with many in both of their parts."""

HOUR_US = 3_600_000_000
# Full to the last, and asked again at the very end of the span and just before.
TO_THE_END = [
    ("hold", 0, 10, 10, 0),
    ("settle", 1, None, None, 10),
    ("hold", HOUR_US - 2, 1, 1, 0),
    ("hold", 0, 10, 10, 0),
    ("hold", 1, 10, 10, 0),
    ("hold", 0, 1, 1, 0),
]
# Three amounts whose small parts come to more than a thousandth.
USED_AND_HELD = [
    ("hold", 0, 4, 0, 0),
    ("settle", 0, None, None, 10),
    ("hold", 0, 3, 0, 0),
    ("hold", 0, 4, 0, 0),
    ("hold", 0, 3, 0, 0),
]


@settings(max_examples=60)
@example(terms=Terms(primary=Window(60, 10)), steps=TO_THE_END, scale=10**9 - 2)
@example(terms=Terms(primary=Window(60, 10), secondary=Window(60, 10)), steps=TO_THE_END, scale=0)
@example(terms=Terms(primary=Window(60, 12), secondary=Window(60, 10)), steps=TO_THE_END, scale=0)
@example(terms=Terms(primary=Window(60, 10), secondary=Window(60, 12)), steps=TO_THE_END, scale=0)
@example(terms=Terms(primary=Window(60, 10), secondary=Window(600, 5)), steps=TO_THE_END, scale=0)
@example(terms=Terms(budget_usd=10), steps=USED_AND_HELD, scale=10**9 - 2)
@given(terms=TERMS, steps=st.lists(STEP, max_size=40), scale=SCALES)
def test_it_decides_as_a_purse_does(
    store: Store, terms: Terms, steps: list[Any], scale: int
) -> None:
    def scaled(amount: int | None) -> int | None:
        # Not a multiple of a thousandth: both parts of an amount count.
        return None if amount is None else amount * scale + amount

    def window(of: Window | None) -> Window | None:
        return None if of is None else replace(of, credits=of.credits * scale + of.credits)

    terms = replace(
        terms,
        budget_usd=scaled(terms.budget_usd),
        budget_credits=scaled(terms.budget_credits),
        prepaid_usd=scaled(terms.prepaid_usd),
        prepaid_credits=scaled(terms.prepaid_credits),
        primary=window(terms.primary),
        secondary=window(terms.secondary),
    )

    async def run() -> None:
        async with opened(store) as ledger:
            purse, now = Purse(), NOON
            open_: list[tuple[Stake, Any]] = []
            for what, wait, usd, credit, pick in steps:
                now += wait
                if what == "hold":
                    held = made.hold(usd=scaled(usd), credit=scaled(credit), at=now)
                    expected = purse.hold(held.most, terms, now)
                    answer = await ledger.hold(held, terms)
                    if isinstance(expected, Shortage):
                        assert answer == expected
                    else:
                        assert answer is None
                        open_.append((expected, held))
                elif open_:
                    stake, held = open_.pop(pick % len(open_))
                    if what == "release":
                        purse.release(stake)
                        ledger.release(held)
                    else:
                        most = held.most
                        cost = Amount(
                            None if most.usd is None else most.usd * pick // 10,
                            None if most.credits is None else most.credits * pick // 10,
                        )
                        purse.settle(stake, cost)
                        ledger.settle(made.entry(held, cost.usd, cost.credits))
                    await ledger.entries(limit=1)
                assert await ledger.standing("k", terms, now) == purse.standing(terms, now)

    asyncio.run(run())


@settings(max_examples=20)
@given(entries=st.lists(ENTRIES, max_size=25), questions=st.lists(ASKED, min_size=3, max_size=6))
def test_answers_are_those_of_a_walk(store: Store, entries: list[Any], questions: Any) -> None:
    async def run() -> None:
        async with opened(store) as ledger:
            await answers_are_right(ledger, ledger, entries, questions)

    asyncio.run(run())


async def test_a_line_has_all_that_the_entry_had(store: Store) -> None:
    async with opened(store) as ledger:
        held = made.hold(usd=10**20, credit=None, key_id="kö\n'#1")
        await ledger.hold(held, Terms(budget_usd=10**21))
        await settled(ledger, made.entry(held, usd=10**19 + 7, credit=None, state="cut"))
        (line,) = await ledger.entries()
        for name in ("id", "request_id", "key_id", "model", "billed_as", "profile", "endpoint"):
            assert getattr(line, name) == getattr(held, name)
        assert (line.usd, line.credits, line.state) == (10**19 + 7, None, "cut")
        assert line[15:20] == (10, 4, 2, 5, 1)
        assert line[24:] == (1, 2, 3, 4, 5)
        (group,) = await ledger.totals(Filter(key_ids=(held.key_id,)))
        assert (group.sums.usd, group.sums.credits_unknown) == (10**19 + 7, 1)


async def test_servers_share_a_key_and_never_its_last_dollar(store: Store) -> None:
    terms = Terms(budget_usd=10)
    async with opened(store, "shared") as one, opened(store, "shared") as other:
        asked = [each.hold(made.hold(usd=3), terms) for each in (one, other) for _ in range(20)]
        found = await asyncio.gather(*asked)
        assert found.count(None) == 3
        assert {each.name for each in found if each is not None} == {"budget_usd"}
        assert (await other.standing("k", terms, made.NOON_US)).held == Amount(9, 0)


async def test_a_crowd_is_larger_than_the_connections(store: Store) -> None:
    async with opened(store) as ledger:
        held = [made.hold(usd=3) for _ in range(300)]
        assert await asyncio.gather(*[ledger.hold(each, BOUNDED) for each in held]) == [None] * 300
        for each in held:
            ledger.settle(made.entry(each, usd=2))
        assert (await ledger.totals())[0].sums.requests == 300
        assert ledger.healthy


async def test_settling_and_releasing_happen_once(store: Store) -> None:
    async with opened(store) as ledger:
        held, other = made.hold(usd=5), made.hold(usd=5)
        for each in (held, held, other):
            assert await ledger.hold(each, BOUNDED) is None
        job = ledger._settling(made.entry(held, usd=2), ledger._holds(), None)
        # As after an answer that was lost on its way: the same is sent again.
        for _ in range(2):
            await ledger._settle(keys=job.keys, args=job.args)
        await settled(ledger, made.entry(held, usd=3))
        await settled(ledger, made.entry(held, usd=4))
        ledger.release(other)
        ledger.release(other)
        assert [line.usd for line in await ledger.entries()] == [2]
        standing = await ledger.standing("k", BOUNDED, made.NOON_US)
        assert (standing.period_used, standing.held) == (Amount(2, 0), Amount(0, 0))


async def test_no_more_is_charged_than_was_held(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(store) as ledger:
        held = made.hold(usd=5, credit=None)
        await ledger.hold(held, BOUNDED)
        await settled(ledger, made.entry(held, usd=9, credit=7))
        assert [(line.usd, line.credits) for line in await ledger.entries()] == [(5, 0)]
        assert "can't cost" in caplog.text


async def test_a_cancelled_hold_is_given_back(store: Store) -> None:
    async with opened(store) as ledger:
        await ledger.hold(made.hold(usd=1), BOUNDED)
        task = asyncio.create_task(ledger.hold(made.hold(usd=5), BOUNDED))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        held = Amount()
        async with asyncio.timeout(PATIENCE_S):
            while held != Amount(1, 0):
                await asyncio.sleep(0.01)
                held = (await ledger.standing("k", BOUNDED, made.NOON_US)).held


def test_two_servers_keep_one_ledger(store: Store) -> None:
    environment = {"PACELINE_LEDGER": store.url}
    with Server(environment=environment) as one, Server(environment=environment) as other:
        for server in (one, other):
            assert server.post(CHAT, chat("instant", max_tokens=3)).status == 200
        for server in (one, other):
            totals = httpx2.get(f"{server.url}/paceline/ledger/totals").json()
            assert (totals["requests"], totals["completion_tokens"]) == (2, 6)
        start = int(time.time()) // 86_400 * 86_400
        page = httpx2.get(f"{one.url}{USAGE_PATH}?start_time={start}").json()
        counts = [each["num_model_requests"] for day in page["data"] for each in day["results"]]
        assert sum(counts) == 2


KILLED = """
import asyncio, sys
from paceline.core.ledger import Terms
from paceline.runtime.ledger.valkey import ValkeyLedger
from tests.ledger import made

async def main():
    ledger = ValkeyLedger(sys.argv[1], prefix=sys.argv[2], lease_s=3)
    for i in range(5):
        await ledger.hold(made.hold(usd=7), Terms(budget_usd=100))
    print("held", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_a_killed_process_leaves_its_holds_to_its_lease(store: Store) -> None:
    root = Path(__file__).parent.parent.parent
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, store.url, "killed", stdout=subprocess.PIPE, cwd=root
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"held\n"
    terms = Terms(budget_usd=100)
    async with opened(store, "killed", lease_s=3, now_us=lambda: made.NOON_US + 5) as ledger:
        mine = made.hold(usd=2, request_id="mine")
        assert await ledger.hold(mine, terms) is None
        assert (await ledger.standing("k", terms, made.NOON_US)).held == Amount(37, 0)
        child.kill()
        await child.wait()
        await until(lambda: ledger.recovered == 5)
        assert (await ledger.standing("k", terms, made.NOON_US)).held == Amount(2, 0)
        lines = await ledger.entries()
        assert {(line.state, line.usd, line.ended_us) for line in lines} == {
            ("lost", 0, made.NOON_US + 5)
        }
        assert len(lines) == 5
        await settled(ledger, made.entry(mine, usd=1))
        (newest,) = await ledger.entries(Filter(request_id="mine"))
        assert newest.state == "finished"


async def test_a_store_that_was_away_takes_nobody_for_dead(store: Store) -> None:
    async with opened(store, "away") as one, opened(store, "away") as other:
        for each in (one, other):
            # None looks by itself.
            each._looking = asyncio.create_task(asyncio.sleep(0))
            await each.hold(made.hold(usd=5), BOUNDED)
        processes = one._key("processes")

        async def dead() -> Any:
            return await one._lease(keys=[processes], args=[one._process, "30"])

        await one._store.zadd(processes, {one._process: 1, other._process: 1})
        assert await dead() == []
        assert await dead() == []
        # Of whom nothing is heard while others are is dead.
        await one._store.zadd(processes, {other._process: 1})
        assert await dead() == [other._process]


async def test_what_a_process_left_that_nobody_can_read_keeps_nobody_from_its_lease(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(store, "odd", lease_s=3) as ledger:
        await ledger._store.hset(ledger._holds("another"), "id", '{"row": "[1]"}')
        await ledger._store.zadd(ledger._key("processes"), {"another": 0})
        await ledger.hold(made.hold(), BOUNDED)
        await until(lambda: caplog.text.count("Clearing up after a process") >= 2)
        lease = await ledger._store.zscore(ledger._key("processes"), ledger._process)
        assert lease > time.time() + 1


async def test_what_is_open_at_the_end_is_lost_at_once(store: Store) -> None:
    async with opened(store, "ended") as ledger:
        await ledger.hold(made.hold(usd=7), BOUNDED)
    async with opened(store, "ended") as ledger:
        await ledger.hold(made.hold(), BOUNDED)
        await until(lambda: ledger.recovered == 1)
        assert (await ledger.standing("k", BOUNDED, made.NOON_US)).held == Amount(0, 0)


async def test_the_latest_entries_are_kept_and_sums_go_on(store: Store) -> None:
    async with opened(store, keep=10) as ledger:
        for i in range(25):
            held = made.hold(at=made.NOON_US + i)
            await ledger.hold(held, Terms())
            ledger.settle(made.entry(held))
        found = [line.created_us - made.NOON_US for line in await ledger.entries()]
        assert found == list(range(24, 14, -1))
        assert (await ledger.totals())[0].sums.requests == 25


async def test_what_is_settled_meanwhile_repeats_no_line(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey_books, "_CHUNK", 3)
    async with opened(store) as ledger:

        async def add(at: int) -> None:
            held = made.hold(at=made.NOON_US + at)
            await ledger.hold(held, Terms())
            await settled(ledger, made.entry(held))

        # More at one moment than are asked for at once.
        for at in (0, 1, 2, 2, 2, 2, 2, 3, 4, 5):
            await add(at)
        look = ledger._store.zrevrangebyscore

        async def looked(*args: Any, **kwargs: Any) -> Any:
            rows = await look(*args, **kwargs)
            await add(9)
            return rows

        monkeypatch.setattr(ledger._store, "zrevrangebyscore", looked)
        lines = await ledger.entries()
        found = [line.created_us - made.NOON_US for line in lines]
        assert found == [5, 4, 3, 2, 2, 2, 2, 2, 1, 0]
        assert len({line.id for line in lines}) == len(lines)


async def test_a_store_that_is_gone_lets_nobody_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        async with opened(store) as ledger:
            held, open_ = made.hold(usd=5), made.hold(key_id="open")
            await ledger.hold(held, BOUNDED)
            store.stop()
            await settled(ledger, made.entry(held, usd=3))
            assert not ledger.healthy
            assert "doesn't answer" in caplog.text
            with pytest.raises(UnreadableError, match="doesn't answer") as refused:
                await ledger.hold(made.hold(usd=5), BOUNDED)
            assert (refused.value.status, refused.value.code) == (503, "ledger_unavailable")
            # Who has no terms is let in.
            assert await ledger.hold(open_, Terms()) is None
            await settled(ledger, made.entry(open_))
            assert ledger.lost_writes == 1
            for question in (
                ledger.entries(),
                ledger.totals(),
                ledger.buckets(60, 0, 1),
                ledger.standing("k", BOUNDED, 0),
            ):
                with pytest.raises(UnreadableError):
                    await question
            store.start()
            await until(lambda: ledger.healthy)
            # It came back empty, so there is no hold to settle; what follows is written again.
            again = made.hold(usd=5)
            await ledger.hold(again, BOUNDED)
            await settled(ledger, made.entry(again, usd=4))
            assert [line.usd for line in await ledger.entries()] == [4]
        store.stop()


async def test_a_store_that_hangs_is_waited_for_once() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        try:
            async with opened(store) as ledger:
                await ledger.hold(made.hold(usd=5), BOUNDED)
                store.process.send_signal(signal.SIGSTOP)
                begun_s = time.monotonic()
                with pytest.raises(UnreadableError, match="doesn't answer"):
                    await ledger.hold(made.hold(usd=5), BOUNDED)
                assert 0.9 * TIMEOUT_S < time.monotonic() - begun_s < 1.8 * TIMEOUT_S
        finally:
            store.process.send_signal(signal.SIGCONT)
            store.stop()


async def test_after_closing_nothing_waits(store: Store) -> None:
    ledger = ValkeyLedger(store.url, prefix="closed")
    held = made.hold()
    await ledger.hold(held, BOUNDED)
    await ledger.close()
    await ledger.close()
    await settled(ledger, made.entry(held))
    assert ledger.lost_writes == 1
    with pytest.raises(UnreadableError, match="closed"):
        await ledger.entries()


async def test_an_entry_that_the_store_cannot_take_takes_no_other_with_it(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(store, "bad") as ledger:
        bad, good = made.hold(at=made.NOON_US), made.hold(at=made.NOON_US + 10**8)
        for each in (bad, good):
            await ledger.hold(each, BOUNDED)
        minute = made.NOON_US // 60_000_000 * 60
        await ledger._store.set(f"{{bad}}:sums:60:{minute}", "no hash")
        ledger.settle(made.entry(bad))
        await settled(ledger, made.entry(good))
        assert ledger.lost_writes == 1
        assert ledger.healthy
        assert "left out" in caplog.text
        assert good.id in {line.id for line in await ledger.entries()}


def test_a_url_that_cannot_be_used_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LedgerError, match="in a shared store: "):
        ValkeyLedger("redis://host:port")
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(LedgerError, match=r"pip install 'paceline\[fleet\]'"):
        ValkeyLedger("valkey://localhost")


def test_which_places_are_shared() -> None:
    assert is_shared("valkey://localhost:6379/0")
    assert is_shared("rediss://host")
    assert not is_shared("ledger.db")
    assert not is_shared("")
