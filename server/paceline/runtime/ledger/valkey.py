"""The ledger that a fleet of servers shares, in Valkey or Redis.

Deciding happens there, in one step for all of them. Settling goes out in groups; a process that
dies leaves its holds to its lease: when that has run out, whichever process looks next turns them
into entries of state `lost`, at no cost.

Needs the `fleet` extra. Where the store doesn't answer, requests of keys with terms are refused,
the others are let in and written down as far as that goes; nothing waits for ever.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from paceline.core.days import DAY_US, month_of
from paceline.core.ledger import Entry, Hold, Shortage, Standing, Terms
from paceline.core.purse import capped, within
from paceline.runtime.ledger.database import LedgerError
from paceline.runtime.ledger.interface import UnreadableError
from paceline.runtime.ledger.questions import ANY, Cursor, Dimension, Filter, Group, Line
from paceline.runtime.ledger.rows import split
from paceline.runtime.ledger.valkey_books import ValkeyBooks
from paceline.runtime.ledger.valkey_rows import entry_line, hold_line, sums_of
from paceline.runtime.ledger.valkey_scripts import HOLD, LEASE, SETTLE
from paceline.runtime.ledger.valkey_sender import TIMEOUT_S, Job, Sender, Then, errors
from paceline.runtime.ledger.valkey_terms import shortage, standing, terms_json

T = TypeVar("T")

log = logging.getLogger("paceline.ledger")

LEASE_S = 30
"""A process that wasn't heard of for so long has lost its holds."""
KEPT = 100_000
"""The latest entries that are kept; sums go on counting all."""
_CONNECTIONS = 32
_SCHEMES = ("valkey://", "valkeys://", "redis://", "rediss://", "unix://")


def is_shared(where: str) -> bool:
    """Whether a ledger's place is a store that servers share, not a file."""
    return where.startswith(_SCHEMES)


@dataclass(slots=True, eq=False)
class _Open:
    hold: Hold
    bounded: bool
    held: bool


class ValkeyLedger:
    """Holds and entries that many servers share.

    Implements `paceline.runtime.ledger.interface.Ledger` and `Books`; lives on one event loop.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "paceline",
        lease_s: int = LEASE_S,
        keep: int = KEPT,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        """Connects at its first use. `lease_s` is in whole seconds, at least 3.

        Raises LedgerError without the `fleet` extra, and for a URL that can't be used.
        """
        try:
            from redis.asyncio import BlockingConnectionPool, Redis  # noqa: PLC0415 - an extra that few need
            from redis.asyncio.retry import Retry  # noqa: PLC0415 - the same
            from redis.backoff import NoBackoff  # noqa: PLC0415 - the same
            from redis.exceptions import ConnectionError as GoneError  # noqa: PLC0415 - the same
        except ImportError as error:
            reason = "Valkey and Redis need the extra `fleet`: pip install 'paceline[fleet]'"
            raise LedgerError("in a shared store", reason) from error
        url = url.replace("valkey", "redis", 1) if url.startswith("valkey") else url
        try:
            # Whatever is sent twice has the effect of once, so a connection that was closed
            # meanwhile is worth a second try. Requests at once that are more than the connections
            # wait for one, and aren't told that there is no store.
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=_CONNECTIONS,
                timeout=TIMEOUT_S,
                decode_responses=True,
                socket_timeout=TIMEOUT_S,
                socket_connect_timeout=TIMEOUT_S,
                retry=Retry(NoBackoff(), 1, (GoneError,)),
            )
            # The client's annotations are of bytes and text both.
            self._store: Any = Redis.from_pool(pool)
        except ValueError as error:
            raise LedgerError("in a shared store", str(error)) from error
        self.recovered = 0
        """Requests of processes that died which this one found."""
        self._tag = f"{{{prefix}}}"
        self._process = os.urandom(8).hex()
        self._lease_s = lease_s
        self._keep = keep
        self._now_us = now_us
        self._hold = self._store.register_script(HOLD)
        self._settle = self._store.register_script(SETTLE)
        self._lease = self._store.register_script(LEASE)
        self._sender = Sender(self._store, self._settle)
        self._books = ValkeyBooks(self._store, self._tag)
        self._open: dict[str, _Open] = {}
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    # -- what a ledger does ----------------------------------------------------------------------

    async def hold(self, hold: Hold, terms: Terms) -> Shortage | None:
        """Set aside the most a request can cost, or say what is lacking.

        Raises UnreadableError for a key with terms while the store doesn't answer.
        """
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        if hold.id in self._open:
            return None
        day = hold.created_us // DAY_US
        question = {
            "now": hold.created_us,
            "day": day,
            "month": month_of(day),
            "usd": split(hold.most.usd) if hold.most.usd is not None else None,
            "credits": split(hold.most.credits) if hold.most.credits is not None else None,
            "lease": self._lease_s,
            "terms": terms_json(terms) if terms else None,
        }
        opened = self._open[hold.id] = _Open(hold, bool(terms), held=True)
        call = asyncio.ensure_future(
            self._hold(
                keys=[self._purse(hold.key_id), self._holds(), self._key("processes")],
                args=[json.dumps(question), hold.id, json.dumps(hold_line(hold)), self._process],
            )
        )
        try:
            answer = await asyncio.shield(call)
        except asyncio.CancelledError:
            # The store may be about to have it: given back once it has.
            call.add_done_callback(lambda done: self._abandon(hold, done))
            raise
        except errors() as error:
            self._sender.failed(error)
            self.release(hold)
            if terms:
                raise UnreadableError(
                    "The ledger doesn't answer, so nobody can say whether this can be paid."
                ) from error
            opened.held = False
            self._open[hold.id] = opened
            return None
        if answer[0] in ("ok", "held"):
            return None
        del self._open[hold.id]
        return shortage(answer, hold, terms)

    def settle(self, entry: Entry, then: Then | None = None) -> None:
        """Turn a hold into its entry, once; `then` is called once the store has it."""
        opened = self._open.pop(entry.hold.id, None)
        if opened is None or not opened.held or self._closed:
            self._sender.lost_writes += opened is not None
            self._sender.put(Job(then=then))
            return
        if opened.bounded and not within(entry.cost, opened.hold.most):
            log.error(
                "Request %s held %s and can't cost %s; the rest is not charged.",
                entry.hold.request_id,
                opened.hold.most,
                entry.cost,
            )
            entry = replace(entry, cost=capped(entry.cost, opened.hold.most))
        self._sender.put(self._settling(entry, self._holds(), then))

    def release(self, hold: Hold) -> None:
        """Give up a hold: it leaves no entry."""
        opened = self._open.pop(hold.id, None)
        if opened is not None and opened.held and not self._closed:
            nothing = {"usd": [0, 0], "credits": [0, 0], "sums": None}
            keys = [self._purse(hold.key_id), self._holds(), *self._lists()]
            self._sender.put(Job(keys, [hold.id, json.dumps(nothing)]))

    def _abandon(self, hold: Hold, done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            done.exception()
        self.release(hold)

    async def standing(self, key_id: str, terms: Terms, now_us: int) -> Standing:
        """What a key has used and holds. Raises UnreadableError while the store doesn't answer."""
        try:
            fields: dict[str, str] = await self._store.hgetall(self._purse(key_id))
        except errors() as error:
            self._sender.failed(error)
            raise UnreadableError(f"The ledger can't be read: {error}") from error
        return standing(fields, terms, now_us)

    async def close(self) -> None:
        """Write what is still to be written, and let go of the store. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._sender.close()
        with suppress(*errors()):
            # What is open still is lost at once, not when the lease has run out.
            await self._store.zadd(self._key("processes"), {self._process: 0})
        await self._store.aclose()

    # -- how it is -------------------------------------------------------------------------------

    @property
    def healthy(self) -> bool:
        """Whether the store answered last."""
        return self._sender.healthy

    @property
    def lost_writes(self) -> int:
        """Entries that were given up."""
        return self._sender.lost_writes

    @property
    def running(self) -> int:
        """Holds of this process that are neither settled nor released."""
        return len(self._open)

    # -- what can be asked -----------------------------------------------------------------------

    async def entries(
        self, which: Filter = ANY, limit: int = 100, after: Cursor | None = None
    ) -> list[Line]:
        """At most `limit` of the entries that are kept, the latest let in first."""
        return await self._ask(lambda: self._books.entries(which, limit, after))

    async def totals(self, which: Filter = ANY, group: Sequence[Dimension] = ()) -> list[Group]:
        """Sums of all entries that match, by what they are grouped by."""
        return await self._ask(lambda: self._books.totals(which, group))

    async def buckets(
        self,
        width_s: int,
        since_s: int,
        until_s: int,
        *,
        which: Filter = ANY,
        group: Sequence[Dimension] = (),
    ) -> list[Group]:
        """Sums by span of 60, 3,600 or 86,400 seconds."""
        span = (width_s, since_s, until_s)
        return await self._ask(lambda: self._books.buckets(span, which, group))

    async def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """An answer that has every entry that this process settled before the question."""
        if self._closed:
            raise UnreadableError("The ledger is closed.")
        await self._sender.caught_up()
        try:
            return await question()
        except errors() as error:
            self._sender.failed(error)
            raise UnreadableError(f"The ledger can't be read: {error}") from error

    # -- leases ----------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Say that this process lives, and clear up after those that don't."""
        while True:
            try:
                dead = await self._lease(
                    keys=[self._key("processes")], args=[self._process, str(self._lease_s)]
                )
                for process in dead:
                    await self._clear_up(process)
            except errors() as error:
                self._sender.failed(error)
            except Exception:
                # The lease has to be renewed whatever a process of another version has left, or
                # this one's own holds would be lost.
                log.exception("Clearing up after a process that died failed.")
            await asyncio.sleep(self._lease_s / 3)

    async def _clear_up(self, process: str) -> None:
        holds = self._holds(process)
        async for entry_id, found in self._store.hscan_iter(holds):
            line = Line._make(json.loads(json.loads(found)["row"]))
            lost = line._replace(state="lost", ended_us=self._now_us())
            job = self._job(entry_id, lost, holds)
            self.recovered += await self._settle(keys=job.keys, args=job.args)
        await self._store.zrem(self._key("processes"), process)

    # -- keys and rows ---------------------------------------------------------------------------

    def _settling(self, entry: Entry, holds: str, then: Then | None) -> Job:
        job = self._job(entry.hold.id, entry_line(entry), holds)
        job.then = then
        return job

    def _job(self, entry_id: str, line: Line, holds: str) -> Job:
        """The script's keys and arguments that turn a hold into an entry."""
        rollups, starts = self._books.rollups(line.created_us)
        usd = None if line.usd_milli is None else [line.usd_milli, line.usd_pico]
        credit = None if line.credits_milli is None else [line.credits_milli, line.credits_pico]
        question = {
            "usd": usd,
            "credits": credit,
            "sums": sums_of(line),
            "starts": starts,
            "keep": self._keep,
        }
        return Job(
            [self._purse(line.key_id), holds, *self._lists(), *rollups],
            [
                entry_id,
                json.dumps(question),
                str(line.created_us),
                json.dumps(line),
                json.dumps(self._books.series(line)),
            ],
        )

    def _lists(self) -> list[str]:
        return [self._key("entries"), self._key("seq")]

    def _key(self, name: str) -> str:
        return f"{self._tag}:{name}"

    def _purse(self, key_id: str) -> str:
        return self._key(f"purse:{key_id}")

    def _holds(self, process: str | None = None) -> str:
        return self._key(f"open:{process or self._process}")
