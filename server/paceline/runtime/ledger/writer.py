"""The one thread that writes to a ledger, in groups: what has come in meanwhile is one commit.

Nothing waits for the disk on the event loop, and nothing waits for ever: where the disk is full or
fails, the rows are kept in memory and tried again, what was to happen after the commit happens
anyway, and `healthy` says so.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from paceline.runtime.ledger.database import write_batch
from paceline.runtime.ledger.rows import Row

log = logging.getLogger("paceline.ledger")

T = TypeVar("T")
Then = Callable[[], None]

_MOST_ROWS = 2_000
"""Rows of one transaction: some 50 ms of the thread's time."""
_MOST_KEPT = 100_000
"""Rows that wait in memory for a disk that fails."""
_RETRY_S = 0.5
# SQLite's result codes for a statement or value at fault: ERROR, TOOBIG, CONSTRAINT, MISMATCH,
# RANGE (sqlite.org/rescode.html). Any other is the disk's.
_ERROR = 1
_FAULTY = frozenset({_ERROR, 18, 19, 20, 25})


@dataclass(slots=True)
class Batch:
    """Rows to write together, and what is to happen once they are written."""

    holds: list[Row] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    entries: list[Row] = field(default_factory=list)
    thens: list[Then] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.holds) + len(self.gone) + len(self.entries)

    def add(self, other: Batch) -> None:
        """Take on what came later."""
        self.holds += other.holds
        self.gone += other.gone
        self.entries += other.entries
        self.thens += other.thens


@dataclass(slots=True)
class _Call:
    do: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]


_Item = Batch | _Call | None
"""What comes to the thread; None is the end."""


class Writer:
    """Lives on two threads: its methods are called on the event loop, the rest runs on its own."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        moved: Callable[[], bool] = lambda: False,
    ) -> None:
        """`connect` is called on the thread when there is something to do for the first time.

        `moved` tells after each commit whether the file has lost its name, so that nobody will
        find what is written to it.
        """
        self.healthy = True
        """Whether the last write met no error, and will be found."""
        self.lost_writes = 0
        """Rows that were given up."""
        self.written = 0
        """Entries that were committed."""
        self._connect = connect
        self._moved = moved
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        # Of the thread: what it has taken from the queue, and of that what the next commit has.
        self._items: deque[_Item] = deque()
        self._batch = Batch()
        self._kept: deque[Batch] = deque()
        self._kept_rows = 0
        self._retry_at = 0.0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def put(self, batch: Batch) -> None:
        """Write a batch after those before it."""
        self._begin()
        self._queue.put(batch)

    def call(self, do: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """What `do` makes of the connection, after everything that was put before."""
        loop = self._begin()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(_Call(do, future))
        return future

    async def close(self) -> None:
        """Write what is left and close the connection."""
        thread = self._thread
        if thread is None:
            return
        self._queue.put(None)
        await asyncio.to_thread(thread.join)
        self._thread = None

    def _begin(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._thread is None:
            self._loop = asyncio.get_running_loop()
            # A daemon: a server that is never closed doesn't keep its process alive.
            self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
            self._thread.start()
        return self._loop

    # -- on the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        try:
            connection = self._connect()
            while self._turn(connection):
                pass
        except Exception:
            # Nothing that waits may wait for ever, whatever happened.
            log.exception("The ledger's thread failed; what follows is not written down.")
            self.healthy = False
            self._drop_all()
        finally:
            if connection is not None:
                connection.close()

    def _turn(self, connection: sqlite3.Connection) -> bool:
        """Do what has come in; false when that was the end."""
        try:
            first = self._queue.get(timeout=_RETRY_S if self._kept else None)
        except Empty:
            self._retry(connection)
            return True
        self._drain(first)
        while self._items:
            item = self._items[0]
            if isinstance(item, Batch):
                self._items.popleft()
                self._batch.add(item)
                if len(self._batch) >= _MOST_ROWS:
                    self._write(connection)
                continue
            self._write(connection)
            self._items.popleft()
            if item is None:
                self._retry_at = 0.0
                self._retry(connection)
                self._give_up(0)
                return False
            self._answer(connection, item)
        self._write(connection)
        return True

    def _drain(self, first: _Item) -> None:
        self._items.append(first)
        with suppress(Empty):
            while self._items[-1] is not None:
                self._items.append(self._queue.get_nowait())

    def _write(self, connection: sqlite3.Connection) -> None:
        batch = self._batch
        if self._kept:
            # In their order: a hold must not come after the entry it became.
            self._keep(batch)
            self._retry(connection)
        elif len(batch) and not self._written(connection, batch):
            self._keep(batch)
        self._batch = Batch()
        self._soon(batch.thens)

    def _written(self, connection: sqlite3.Connection, batch: Batch) -> bool:
        """Commit a batch; false where the disk won't have it."""
        try:
            write_batch(connection, batch.entries, batch.holds, batch.gone)
        except (sqlite3.Error, OverflowError) as error:
            if getattr(error, "sqlite_errorcode", _ERROR) & 0xFF in _FAULTY:
                return self._one_by_one(connection, batch, error)
            if self.healthy:
                log.error("The ledger can't be written to (%s); tried again from now on.", error)
            self.healthy = False
            self._retry_at = time.monotonic() + _RETRY_S
            return False
        moved = self._moved()
        if moved and self.healthy:
            log.error(
                "The ledger's file is gone, or another one has its name: nobody finds what is "
                "written now. Restart the server to begin anew."
            )
        elif not moved and not self.healthy:
            log.warning("The ledger can be written to again.")
        self.healthy = not moved
        self.written += len(batch.entries)
        return True

    def _one_by_one(self, connection: sqlite3.Connection, batch: Batch, error: Exception) -> bool:
        if len(batch) <= 1:
            log.error("A row that the ledger can't hold is left out: %s: %s", error, batch)
            self.lost_writes += 1
            return True
        parts = [Batch(holds=[row]) for row in batch.holds]
        parts += [Batch(gone=[each]) for each in batch.gone]
        parts += [Batch(entries=[row]) for row in batch.entries]
        # Where the disk fails in between all of it is tried again: no row is written twice.
        return all(self._written(connection, part) for part in parts)

    def _keep(self, batch: Batch) -> None:
        if len(batch):
            self._kept.append(Batch(batch.holds, batch.gone, batch.entries))
            self._kept_rows += len(batch)
            self._give_up(_MOST_KEPT)

    def _give_up(self, but: int) -> None:
        """Drop the oldest rows that wait until at most so many are left."""
        while self._kept_rows > but:
            oldest = self._kept.popleft()
            self._kept_rows -= len(oldest)
            self.lost_writes += len(oldest)
            log.error("The ledger has lost %d rows.", len(oldest))

    def _retry(self, connection: sqlite3.Connection) -> None:
        if time.monotonic() < self._retry_at:
            return
        while self._kept and self._written(connection, self._kept[0]):
            self._kept_rows -= len(self._kept.popleft())

    def _answer(self, connection: sqlite3.Connection, call: _Call) -> None:
        try:
            result = call.do(connection)
        except Exception as error:
            self._soon([lambda error=error: _fail(call.future, error)])  # type: ignore[misc]  # bound now: `error` is unset after the block
        else:
            self._soon([lambda: _resolve(call.future, result)])

    def _soon(self, thens: list[Then]) -> None:
        """Have callbacks run on the event loop, all in one of its turns."""
        loop = self._loop
        if thens and loop is not None:
            # A loop that was closed has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_run_all, thens)

    def _drop_all(self) -> None:
        """Tell whoever waits, for what was under way too, until the end."""
        left: Iterable[_Item] = chain([self._batch], self._items, iter(self._queue.get, None))
        for item in left:
            if item is None:
                return
            if isinstance(item, Batch):
                self.lost_writes += len(item)
                self._soon(item.thens)
            else:
                future = item.future
                self._soon([lambda f=future: _fail(f, RuntimeError("the ledger failed"))])  # type: ignore[misc]  # bound now, as above


def _run_all(thens: list[Then]) -> None:
    for then in thens:
        try:
            then()
        except Exception:
            log.exception("What was to follow an entry failed.")


def _resolve(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
