"""The ledger in SQLite: what is committed when, what happens once, what a bad disk does."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from paceline.app import App
from paceline.core.ledger import Amount, Entry, Shortage, Terms, Window
from paceline.core.purse import Purse
from paceline.core.usage import Usage
from paceline.runtime.ledger import sqlite as module
from paceline.runtime.ledger import writer
from paceline.runtime.ledger.database import LedgerError
from paceline.runtime.ledger.interface import Books, Ledger, UnreadableError
from paceline.runtime.ledger.questions import Filter, Sums
from paceline.runtime.ledger.rows import entry_row
from paceline.runtime.ledger.sqlite import SqliteLedger
from paceline.runtime.ledger.writer import Batch
from paceline.runtime.settings import Settings
from tests.ledger import made

TERMS = Terms(budget_usd=10**20, prepaid_credits=10**20)
PATIENCE_S = 20.0


@asynccontextmanager
async def opened(path: Path | None, keep: int = 1000) -> AsyncIterator[SqliteLedger]:
    ledger = SqliteLedger(path, now_us=lambda: made.NOON_US + 99, keep=keep)
    try:
        yield ledger
    finally:
        await ledger.close()


@pytest.fixture(params=["file", "private"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "ledger.db" if request.param == "file" else None


async def settled(ledger: SqliteLedger, entry: Entry) -> None:
    """Settle and wait until it is committed."""
    done = asyncio.get_running_loop().create_future()
    ledger.settle(entry, lambda: done.set_result(None))
    await asyncio.wait_for(done, PATIENCE_S)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 - another thread or connection makes it true
            await asyncio.sleep(0.005)


async def test_an_entry_is_committed_before_then(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    async with opened(path) as ledger:
        as_promised: Ledger = ledger
        asked: Books = ledger
        held = made.hold(usd=500)
        assert await as_promised.hold(held, TERMS) is None
        seen = asyncio.get_running_loop().create_future()
        ended = made.entry(held, usd=300, credit=None)
        as_promised.settle(
            ended, lambda: seen.set_result(made.rows(path, "SELECT id, usd, credits FROM ledger"))
        )
        assert not seen.done()
        assert await asyncio.wait_for(seen, PATIENCE_S) == [(held.id, "0.000000000300", None)]
        assert made.rows(path, "SELECT count(*) FROM holds") == [(0,)]
        assert len(await asked.entries()) == 1


async def test_a_line_has_all_that_the_entry_had(place: Path | None) -> None:
    async with opened(place) as ledger:
        held = made.hold(usd=10**25, credit=None, key_id="kö\n'", model="a\0b")
        assert await ledger.hold(held, Terms(budget_usd=10**26)) is None
        ended = made.entry(held, usd=10**24 + 7, credit=None, state="cut")
        ledger.settle(ended)
        (line,) = await ledger.entries()
        held = replace(held, model="a\0b")
        names = "id request_id key_id model billed_as profile tier_asked tier_served endpoint"
        for name in names.split():
            assert getattr(line, name) == getattr(held, name)
        assert (line.stream, line.created_us) == (1, held.created_us)
        assert (line.state, line.ended_us, line.finish_reason) == ("cut", ended.ended_us, "stop")
        assert (line.usd, line.credits) == (10**24 + 7, None)
        assert line[15:20] == (10, 4, 2, 5, 1)
        assert line[24:] == (1, 2, 3, 4, 5)
        (group,) = await ledger.totals()
        assert group.sums == Sums(1, 10, 4, 2, 5, 1, 10**24 + 7, 0, 0, 1)


async def test_settling_and_releasing_happen_once(place: Path | None) -> None:
    async with opened(place) as ledger:
        held, other = made.hold(usd=5), made.hold(usd=5)
        for each in (held, held, other):
            await ledger.hold(each, TERMS)
        assert (await ledger.standing("k", TERMS, held.created_us)).held == Amount(10, 0)
        assert ledger.running == 2
        calls: list[int] = []
        for i in range(3):
            ledger.settle(made.entry(held, usd=i + 1), lambda i=i: calls.append(i))  # type: ignore[misc]  # bound now
        ledger.release(held)
        ledger.release(other)
        ledger.release(other)
        await settled(ledger, made.entry(other, usd=4))
        await until(lambda: len(calls) == 3)
        assert [line.usd for line in await ledger.entries()] == [1]
        standing = await ledger.standing("k", TERMS, held.created_us)
        assert (standing.period_used, standing.held) == (Amount(1, 0), Amount(0, 0))
        assert ledger.running == 0


async def test_an_id_is_written_once_whoever_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    async with opened(path) as ledger:
        held = made.hold(usd=5)
        stake = Purse().hold(held.most, TERMS, held.created_us)
        assert not isinstance(stake, Shortage)
        row = entry_row(made.entry(held, usd=3), stake)
        for _ in range(2):
            ledger._writer.put(Batch(entries=[row, list(row)]))
        (group,) = await ledger.totals()
        assert (group.sums.requests, group.sums.usd) == (1, 3)
        assert made.rows(path, "SELECT usd_pico FROM spending") == [(3,)]


async def test_a_hold_that_is_settled_soon_has_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.db"
    batches: list[Batch] = []
    async with opened(path) as ledger:
        put = ledger._writer.put

        def spy(batch: Batch) -> None:
            batches.append(batch)
            put(batch)

        monkeypatch.setattr(ledger._writer, "put", spy)
        soon, gone, long, late = (made.hold() for _ in range(4))
        for each in (soon, gone, long, late):
            await ledger.hold(each, TERMS)
        ledger.settle(made.entry(soon))
        ledger.release(gone)
        await until(lambda: made.rows(path, "SELECT count(*) FROM holds") == [(2,)])
        assert [len(batch.holds) for batch in batches if batch.holds] == [2]
        assert not any(batch.gone for batch in batches)
        ledger.release(long)
        await settled(ledger, made.entry(late))
        assert made.rows(path, "SELECT count(*) FROM holds") == [(0,)]


async def test_what_was_open_at_the_end_is_lost_and_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    windowed = replace(TERMS, primary=Window(300, 50))
    async with opened(path) as ledger:
        open_ = made.hold(usd=70, credit=40)
        await ledger.hold(open_, windowed)
        assert isinstance(await ledger.hold(made.hold(credit=10**21), windowed), Shortage)
    async with opened(path) as ledger:
        assert ledger.recovered == 1
        (line,) = await ledger.entries()
        assert (line.id, line.state, line.usd, line.credits) == (open_.id, "lost", 0, 0)
        assert line.ended_us == made.NOON_US + 99
        standing = await ledger.standing("k", windowed, made.NOON_US)
        assert standing.held == Amount(0, 0)
        # Its window has begun all the same.
        assert standing.primary is not None
        assert standing.primary.resets_us == made.NOON_US + 300 * 60_000_000
    async with opened(path) as ledger:
        assert ledger.recovered == 0
        assert len(await ledger.entries()) == 1


async def test_purses_are_the_same_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    terms = Terms(
        budget_usd=10**15,
        budget_period="day",
        prepaid_usd=10**15,
        prepaid_credits=10**15,
        primary=Window(60, 100),
        secondary=Window(3000, 150),
    )
    moments = [made.NOON_US + i * 40 * 60_000_000 for i in range(40)]
    async with opened(path) as ledger:
        for i, at in enumerate(moments):
            held = made.hold(key_id=f"k{i % 2}", usd=10**13, credit=60, at=at)
            assert await ledger.hold(held, terms) is None
            ledger.settle(made.entry(held, usd=10**12 + i, credit=55))
        before = [await ledger.standing(key, terms, moments[-1]) for key in ("k0", "k1")]
    assert before[0].prepaid_used.credits
    assert before[0].secondary is not None
    assert before[0].secondary.used == 110
    async with opened(path) as ledger:
        after = [await ledger.standing(key, terms, moments[-1]) for key in ("k0", "k1")]
    assert after == before


async def test_no_more_is_charged_than_was_held(
    place: Path | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(place) as ledger:
        held = made.hold(usd=5, credit=None)
        await ledger.hold(held, TERMS)
        await settled(ledger, made.entry(held, usd=9, credit=7))
        (line,) = await ledger.entries()
        assert (line.usd, line.credits) == (5, 0)
        assert "can't cost" in caplog.text
        # Where a key has no terms, nobody works out the most beforehand.
        free = made.hold()
        await ledger.hold(free, Terms())
        await settled(ledger, made.entry(free, usd=9, credit=7))
        assert [(line.usd, line.credits) for line in await ledger.entries()] == [(9, 7), (5, 0)]


async def test_a_full_disk_is_said_and_overcome(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger.db"
    async with opened(path) as ledger:
        await ledger._writer.call(lambda found: found.execute("PRAGMA max_page_count = 1"))
        held = [made.hold(usd=5) for _ in range(300)]
        for each in held:
            await ledger.hold(each, TERMS)
            await settled(ledger, made.entry(each, usd=3))
            if not ledger.healthy:
                break
        assert not ledger.healthy
        assert "full" in caplog.text
        # It goes on answering, and deciding.
        more = made.hold(usd=5)
        await ledger.hold(more, TERMS)
        await settled(ledger, made.entry(more, usd=3))
        known = (await ledger.totals())[0].sums.requests
        settled_usd = (await ledger.standing("k", TERMS, made.NOON_US)).period_used.usd
        assert settled_usd is not None
        assert known < settled_usd // 3
        await ledger._writer.call(lambda found: found.execute("PRAGMA max_page_count = 1000000"))
        await until(lambda: ledger.healthy)
        assert (await ledger.totals())[0].sums.usd == settled_usd
        assert ledger.lost_writes == 0


async def test_a_disk_that_stays_full_loses_rows_and_counts_them(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    await ledger._writer.call(lambda found: found.execute("PRAGMA query_only = ON"))
    for _ in range(3):
        held = made.hold()
        await ledger.hold(held, TERMS)
        await settled(ledger, made.entry(held))
    await ledger.close()
    assert not ledger.healthy
    assert ledger.lost_writes == 3
    assert made.rows(tmp_path / "ledger.db", "SELECT count(*) FROM entries") == [(0,)]


async def test_a_row_that_cannot_be_written_takes_no_other_with_it(
    place: Path | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(place) as ledger:
        held = [made.hold(), made.hold(model="\ud800"), made.hold()]
        for each in held:
            await ledger.hold(each, TERMS)
        bad = Usage(None, 1)  # type: ignore[arg-type]  # the mistake under test
        ledger.settle(made.entry(held[0]))
        ledger.settle(made.entry(held[1]))
        await settled(ledger, made.entry(held[2], usage=bad))
        assert [line.model for line in await ledger.entries()] == ["?", "sol"]
        assert ledger.lost_writes == 1
        assert ledger.healthy
        assert "left out" in caplog.text


async def test_a_thread_that_fails_lets_nobody_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(keep: int | None) -> sqlite3.Connection:
        raise OSError(keep)

    monkeypatch.setattr(module, "open_private", broken)
    ledger = SqliteLedger()
    held = made.hold()
    await ledger.hold(held, TERMS)
    await settled(ledger, made.entry(held))
    with pytest.raises(UnreadableError, match="the ledger failed"):
        await asyncio.wait_for(ledger.entries(), PATIENCE_S)
    assert not ledger.healthy
    await ledger.close()
    assert ledger.lost_writes == 1


async def test_a_thread_that_fails_at_its_work_lets_nobody_wait(
    place: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(writer, "write_batch", broken)
    ledger = SqliteLedger(place)
    told: list[int] = []
    batches = [Batch(gone=[str(i)], thens=[lambda i=i: told.append(i)]) for i in range(2)]  # type: ignore[misc]  # bound now
    for batch in batches:
        ledger._writer.put(batch)
    # Taken from the queue together with what made the thread fail.
    with pytest.raises(UnreadableError, match="the ledger failed"):
        await asyncio.wait_for(ledger.entries(), PATIENCE_S)
    await until(lambda: told == [0, 1])
    await ledger.close()
    assert ledger.lost_writes == 2


async def test_a_question_that_fails_is_answered_so(place: Path | None) -> None:
    async with opened(place) as ledger:
        with pytest.raises(OverflowError):
            await ledger.entries(Filter(since_us=2**70))
        assert await ledger.entries() == []


async def test_without_a_file_the_latest_entries_are_kept_and_sums_go_on() -> None:
    async with opened(None, keep=10) as ledger:
        for i in range(25):
            held = made.hold(at=made.NOON_US + i)
            await ledger.hold(held, TERMS)
            await settled(ledger, made.entry(held))
        assert [line.created_us - made.NOON_US for line in await ledger.entries()] == list(
            range(24, 14, -1)
        )
        assert (await ledger.totals())[0].sums.requests == 25


async def test_after_closing_nothing_waits(place: Path | None) -> None:
    ledger = SqliteLedger(place)
    held = made.hold()
    await ledger.hold(held, TERMS)
    await ledger.close()
    await ledger.close()
    await settled(ledger, made.entry(held))
    assert ledger.lost_writes == 1
    with pytest.raises(UnreadableError, match="closed"):
        await ledger.entries()


async def test_invented_keys_fill_no_memory(place: Path | None, tmp_path: Path) -> None:
    async with opened(place) as ledger:
        for forgets in (False, True):
            held = [made.hold(key_id=f"{forgets}-{i}", usd=5) for i in range(50)]
            for each in held:
                await ledger.hold(each, Terms())
                ledger.settle(made.entry(each, usd=3))
            if not forgets:
                assert len(ledger._purses) == 50
                ledger.forget_purses()
        assert not ledger._purses
        assert (await ledger.totals())[0].sums.usd == 300
    # What is asked for a key may get terms; where any is let in none does.
    listed = App(Settings(api_key=[SecretStr("k")], ledger=str(tmp_path / "listed.db")))
    anybody = App(Settings(ledger=str(tmp_path / "open.db")))
    for app, remembers in ((listed, True), (anybody, False)):
        assert isinstance(app.ledger, SqliteLedger)
        assert app.ledger._remembers == remembers
        await app.ledger.close()


async def test_holds_of_many_never_share_the_last_dollar(place: Path | None) -> None:
    async with opened(place) as ledger:
        terms = Terms(budget_usd=10)
        asked = [ledger.hold(made.hold(usd=3), terms) for _ in range(50)]
        found = await asyncio.gather(*asked)
        assert found.count(None) == 3
        assert {each.name for each in found if each is not None} == {"budget_usd"}


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be read as one" * 50)
    with pytest.raises(LedgerError, match="not a database"):
        SqliteLedger(text)
    foreign = tmp_path / "other.db"
    with closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE cats (name)")
    with pytest.raises(LedgerError, match="another program's"):
        SqliteLedger(foreign)
    with pytest.raises(LedgerError, match=r"nowhere/l\.db: can't be opened: No such file"):
        SqliteLedger(tmp_path / "nowhere" / "l.db")


async def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    await SqliteLedger(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(LedgerError, match="has version 2 of the tables; this program has 1"):
        SqliteLedger(path)


async def test_a_file_has_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    async with opened(path):
        with pytest.raises(LedgerError, match="another process has it open"):
            SqliteLedger(path)
        other_name = tmp_path / "link.db"
        other_name.symlink_to(path)
        with pytest.raises(LedgerError, match=r"link\.db: another process has it open"):
            SqliteLedger(other_name)
    await SqliteLedger(path).close()


async def test_any_name_is_a_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "a?mode=memory#b%20c", "file:x"):
        async with opened(Path(name)) as ledger:
            held = made.hold()
            await ledger.hold(held, TERMS)
            await settled(ledger, made.entry(held))
            assert len(await ledger.entries()) == 1
        assert made.rows(tmp_path / name, "SELECT count(*) FROM entries") == [(1,)]


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_loses_its_name_is_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, replaced: bool
) -> None:
    path = tmp_path / "ledger.db"
    async with opened(path) as ledger:
        held = [made.hold() for _ in range(3)]
        for each in held:
            await ledger.hold(each, TERMS)
        await settled(ledger, made.entry(held[0]))
        assert not caplog.text
        path.unlink()
        if replaced:
            await SqliteLedger(other := tmp_path / "other.db").close()
            other.rename(path)
        for each in held[1:]:
            await settled(ledger, made.entry(each))
        assert not ledger.healthy
        assert caplog.text.count("file is gone, or another one has its name") == 1
        with pytest.raises(UnreadableError):
            await ledger.entries()
        assert path.exists() == replaced, "asking makes no file"


async def test_a_holds_row_that_is_no_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    await SqliteLedger(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO holds VALUES ('a', '{')")
        connection.commit()
    with pytest.raises(LedgerError, match=r"ledger\.db: Expecting property name"):
        SqliteLedger(path)
    with pytest.raises(LedgerError, match="Expecting"):
        # It was let go of.
        SqliteLedger(path)


@given(st.lists(st.one_of(st.none(), st.integers(0, 10**27)), min_size=1, max_size=30))
def test_sums_are_exact_however_large(amounts: list[int | None]) -> None:
    async def run() -> None:
        async with opened(None) as ledger:
            for amount in amounts:
                held = made.hold()
                await ledger.hold(held, Terms())
                ledger.settle(made.entry(held, usd=amount, credit=1))
            (group,) = await ledger.totals()
            assert group.sums.usd == sum(amount or 0 for amount in amounts)
            assert group.sums.usd_unknown == amounts.count(None)
            assert group.sums.credits == len(amounts)

    asyncio.run(run())
