"""The ledger of one process: purses in memory decide, SQLite remembers.

Deciding and counting happen on the event loop, at once. What has to be remembered goes to the
writer's thread in batches, in which entries, their sums and what was spent change together; so a
process that is killed leaves all of an entry or nothing, and the purses that the next one begins
with are those that wrote it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from paceline.core.ledger import Entry, Hold, Shortage, Standing, Terms
from paceline.core.purse import Purse, Stake, capped
from paceline.runtime.ledger import queries
from paceline.runtime.ledger.database import (
    FileLock,
    LedgerError,
    close_left_open,
    load_purses,
    open_file,
    open_private,
    open_reader,
    place_of,
)
from paceline.runtime.ledger.interface import UnreadableError
from paceline.runtime.ledger.questions import ANY, Cursor, Dimension, Filter, Group, Line
from paceline.runtime.ledger.rows import entry_row, hold_row
from paceline.runtime.ledger.writer import Batch, Then, Writer

log = logging.getLogger("paceline.ledger")

T = TypeVar("T")

HOLD_WRITTEN_AFTER_S = 0.02
"""A hold that is settled sooner costs no row of its own; a process that is killed within this time
of letting a request in leaves no trace of it, and no charge."""
UNHURRIED_S = 0.05
"""Between two batches of a ledger without a file: nothing waits for those, and each wakes a thread
that tokens have to share the interpreter with."""
KEPT_PRIVATELY = 100_000
"""Entries that a ledger without a file keeps; its sums go on counting all."""


@dataclass(slots=True, eq=False)
class _Open:
    hold: Hold
    purse: Purse
    stake: Stake


class SqliteLedger:
    """Holds and entries in a file, or in a private database that ends with the process.

    Implements `paceline.runtime.ledger.interface.Ledger`; lives on one event loop.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        keep: int = KEPT_PRIVATELY,
    ) -> None:
        """Opens the file, or makes it. Raises LedgerError where that can't be.

        `keep` is the most entries that are kept without a file.
        """
        self.path = path
        self.recovered = 0
        """Requests that another process left open here; they are entries of state `lost` now."""
        self._purses: dict[str, Purse] = {}
        self._remembers = True
        self._open: dict[str, _Open] = {}
        self._unwritten: dict[str, _Open] = {}
        self._batch = Batch()
        self._scheduled = False
        self._hold_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._lost_after_close = 0
        self._reader: sqlite3.Connection | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._lock: FileLock | None = None
        self._connection: sqlite3.Connection | None = None
        if path is None:
            self._writer = Writer(lambda: open_private(keep))
        else:
            connection = self._connection = self._opened(path, now_us())
            self._place = place_of(path)
            self._writer = Writer(lambda: connection, lambda: place_of(path) != self._place)

    # -- what a ledger does ----------------------------------------------------------------------

    async def hold(self, hold: Hold, terms: Terms) -> Shortage | None:
        """Set aside the most a request can cost, or say what is lacking; waits for nothing.

        A second hold of an id that runs is without effect.
        """
        if hold.id in self._open:
            return None
        purse = self._purse(hold.key_id)
        found = purse.hold(hold.most, terms, hold.created_us)
        if isinstance(found, Shortage):
            return found
        opened = self._open[hold.id] = _Open(hold, purse, found)
        if self.path is not None and not self._closed:
            self._unwritten[hold.id] = opened
            if self._hold_timer is None:
                loop = asyncio.get_running_loop()
                self._hold_timer = loop.call_later(HOLD_WRITTEN_AFTER_S, self._write_holds)
        return None

    def settle(self, entry: Entry, then: Then | None = None) -> None:
        """Turn a hold into its entry, once; `then` is called after its commit, on the event loop.

        Never charges more than was held: a cost above that is an error of the caller's, logged,
        and cut down to the hold, in the entry too.
        """
        opened = self._open.pop(entry.hold.id, None)
        if self._closed:
            self._lost_after_close += opened is not None
            if then is not None:
                then()
            return
        if opened is not None:
            entry = self._charged(entry, opened)
            self._unwritten.pop(entry.hold.id, None)
            self._batch.entries.append(entry_row(entry, opened.stake))
            self._schedule()
        if then is None:
            return
        if self.path is None:
            then()
        else:
            self._batch.thens.append(then)
            self._schedule()

    def release(self, hold: Hold) -> None:
        """Give up a hold: it leaves no entry."""
        opened = self._open.pop(hold.id, None)
        if opened is None:
            return
        opened.purse.release(opened.stake)
        if self._unwritten.pop(hold.id, None) is None and self.path is not None:
            self._batch.gone.append(hold.id)
            self._schedule()

    async def standing(self, key_id: str, terms: Terms, now_us: int) -> Standing:
        """What a key has used and holds."""
        return self._purse(key_id).standing(terms, now_us)

    async def close(self) -> None:
        """Write what is still to be written, and let go of the file. Idempotent."""
        if self._closed:
            return
        self._write_holds()
        self._closed = True
        await self._writer.close()
        if self._readers is not None:
            # A question may be under way, and streams of other requests too.
            await asyncio.to_thread(self._readers.shutdown)
        if self._reader is not None:
            self._reader.close()
        if self._connection is not None:
            self._connection.close()
        if self._lock is not None:
            self._lock.close()

    def forget_purses(self) -> None:
        """Keep nobody's spending in memory: where any key is let in, none has terms.

        Else each key that somebody invents would stay there.
        """
        self._remembers = False
        self._purses.clear()

    # -- how it is -------------------------------------------------------------------------------

    @property
    def healthy(self) -> bool:
        """Whether the last write met no error; while it is false, rows wait in memory."""
        return self._writer.healthy

    @property
    def lost_writes(self) -> int:
        """Rows that were given up: the disk stayed full for too long, or until the end."""
        return self._writer.lost_writes + self._lost_after_close

    @property
    def running(self) -> int:
        """Holds that are neither settled nor released."""
        return len(self._open)

    # -- what can be asked -----------------------------------------------------------------------

    async def entries(
        self, which: Filter = ANY, limit: int = 100, after: Cursor | None = None
    ) -> list[Line]:
        """At most `limit` entries, the latest let in first; see `queries.entries`."""
        return await self._ask(lambda found: queries.entries(found, which, limit, after))

    async def totals(self, which: Filter = ANY, group: Sequence[Dimension] = ()) -> list[Group]:
        """Sums of all entries that match; see `queries.totals`."""
        return await self._ask(lambda found: queries.totals(found, which, group))

    async def buckets(
        self,
        width_s: int,
        since_s: int,
        until_s: int,
        *,
        which: Filter = ANY,
        group: Sequence[Dimension] = (),
    ) -> list[Group]:
        """Sums by span of time; see `queries.buckets`."""
        return await self._ask(
            lambda found: queries.buckets(
                found, width_s, since_s, until_s, which=which, group=group
            )
        )

    async def _ask(self, do: Callable[[sqlite3.Connection], T]) -> T:
        """An answer that has every entry settled before the question.

        Beside the writer where there is a file, so that no commit waits for a long question.
        """
        if self._closed:
            raise UnreadableError("The ledger is closed.")
        self._flush()
        try:
            if self.path is None:
                return await self._writer.call(do)
            await self._writer.call(lambda _: None)
            if self._readers is None:
                self._readers = ThreadPoolExecutor(1, thread_name_prefix="ledger-reader")
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._readers, self._read, do)
        except (sqlite3.Error, RuntimeError) as error:
            # A RuntimeError: the writer has failed, or the ledger was closed meanwhile.
            raise UnreadableError(f"The ledger can't be read: {error}") from error

    def _read(self, do: Callable[[sqlite3.Connection], T]) -> T:
        if self._reader is None:
            assert self.path is not None
            self._reader = open_reader(self.path)
            if place_of(self.path) != self._place:
                self._reader.close()
                self._reader = None
                raise UnreadableError("The ledger can't be read: another file has its name.")
        return do(self._reader)

    # -- inside ----------------------------------------------------------------------------------

    def _opened(self, path: Path, now_us: int) -> sqlite3.Connection:
        self._lock = FileLock(path)
        try:
            connection = open_file(path)
        except LedgerError:
            self._lock.close()
            raise
        try:
            self.recovered = close_left_open(connection, now_us)
            self._purses = load_purses(connection)
        except (sqlite3.Error, ValueError) as error:
            # A ValueError: a hold's row that is no JSON.
            connection.close()
            self._lock.close()
            raise LedgerError(path, str(error)) from error
        if self.recovered:
            log.warning(
                "%d requests were left open in the ledger %s: they are lost, and cost nothing.",
                self.recovered,
                path,
            )
        return connection

    def _purse(self, key_id: str) -> Purse:
        found = self._purses.get(key_id)
        if found is None:
            found = Purse()
            if self._remembers:
                self._purses[key_id] = found
        return found

    def _charged(self, entry: Entry, opened: _Open) -> Entry:
        try:
            opened.purse.settle(opened.stake, entry.cost)
        except ValueError as error:
            log.error("Request %s: %s; the rest is not charged.", entry.hold.request_id, error)
            entry = replace(entry, cost=capped(entry.cost, opened.stake.most))
            opened.purse.settle(opened.stake, entry.cost)
        return entry

    def _write_holds(self) -> None:
        self._hold_timer = None
        for each in self._unwritten.values():
            self._batch.holds.append(hold_row(each.hold, each.stake))
        self._unwritten.clear()
        self._flush()

    def _schedule(self) -> None:
        """Hand over what has come together, soon: by the end of this turn where somebody waits."""
        if not self._scheduled:
            self._scheduled = True
            wait_s = UNHURRIED_S if self.path is None else 0.0
            asyncio.get_running_loop().call_later(wait_s, self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        batch = self._batch
        if len(batch) or batch.thens:
            self._batch = Batch()
            self._writer.put(batch)
