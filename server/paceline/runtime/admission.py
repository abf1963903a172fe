"""A request that was let in: what it holds, until it is settled or released, once.

It holds up to three things, and gives all of them back however it ends: an answer under way in
its rate limits, a slot that it was promised, and the most it can cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from paceline.core.ledger import (
    FREE,
    NO_USAGE,
    Amount,
    Entry,
    EntryState,
    Hold,
    Shortage,
    Standing,
    Terms,
    Times,
)
from paceline.core.usage import Usage
from paceline.runtime.keys import Caller
from paceline.runtime.ledger.interface import Ledger
from paceline.runtime.limits import Admission
from paceline.runtime.metrics import ProfileMetrics
from paceline.runtime.tiers import Service

NO_TIMES = Times()


class NoLedger:
    """A ledger that keeps nothing: everybody can pay, and nothing is found again."""

    async def hold(self, hold: Hold, terms: Terms) -> Shortage | None:
        """Let it in."""
        return None

    def settle(self, entry: Entry, then: Callable[[], None] | None = None) -> None:
        """Nothing outlives this process."""
        if then is not None:
            then()

    def release(self, hold: Hold) -> None:
        """Nothing was kept."""

    async def standing(self, key_id: str, terms: Terms, now_us: int) -> Standing:
        """Nothing was ever used."""
        return Standing(terms, FREE, FREE, FREE)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class Claim:
    """Slots of a deployment that are promised to a request which hasn't got there yet."""

    claimed: Callable[[int], None]
    sequences: int

    def leave(self) -> None:
        """It has come, or won't. Idempotent."""
        if self.sequences:
            self.claimed(-self.sequences)
            self.sequences = 0


class Admitted:
    """One request that was let in; made after its hold."""

    __slots__ = (
        "_account",
        "_claim",
        "_counters",
        "_ledger",
        "_open",
        "_priced",
        "_spent",
        "caller",
        "hold",
        "service",
        "standing",
    )

    def __init__(
        self,
        ledger: Ledger,
        hold: Hold,
        service: Service,
        caller: Caller,
        counters: ProfileMetrics,
        *,
        standing: Standing | None = None,
        account: Admission | None = None,
        claim: Claim | None = None,
    ) -> None:
        """`standing` is how the caller stood as it came in; None where nothing bounds it."""
        self.hold = hold
        self.service = service
        self.caller = caller
        self.standing = standing
        self._ledger = ledger
        self._counters = counters
        self._account = account
        self._claim = claim
        self._open = True
        self._priced: Usage | None = None
        self._spent = FREE
        counters.held(hold.most)

    @property
    def account(self) -> Admission | None:
        """Its place in the rate limits; None where nothing is limited."""
        return self._account

    @property
    def cost(self) -> Amount | None:
        """What the usage that was last priced costs; None before."""
        return None if self._priced is None else self._spent

    def price(self, usage: Usage) -> Amount:
        """The exact bill of a usage, remembered for whoever asks for the same again."""
        if usage is not self._priced and usage != self._priced:
            self._spent = self.service.sale.cost(usage)
            self._priced = usage
        return self._spent

    def arrived(self) -> None:
        """Its sequences are in their deployment, so it needs no promise of a slot any more."""
        if self._claim is not None:
            self._claim.leave()

    def settle(
        self,
        state: EntryState,
        usage: Usage = NO_USAGE,
        *,
        finish_reason: str | None = None,
        times: Times = NO_TIMES,
        then: Callable[[], None] | None = None,
    ) -> Amount:
        """Turn the hold into its entry, and return what it costs; the first time alone counts.

        What the server itself broke off costs nothing. `then` is called once the entry would
        outlive this process; where there is nothing to settle any more it is called at once.
        """
        if not self._open:
            if then is not None:
                then()
            return FREE
        self._leave()
        cost = FREE if state == "failed" else self.price(usage)
        self._counters.settled(cost)
        ended_us = time.time_ns() // 1000
        if then is not None:
            then = partial(self._safe, time.perf_counter(), then)
        entry = Entry(self.hold, state, ended_us, usage, cost, finish_reason, times)
        self._ledger.settle(entry, then)
        return cost

    def _safe(self, settled_s: float, then: Callable[[], None]) -> None:
        self._counters.ledger_wait.observe(time.perf_counter() - settled_s)
        then()

    def release(self) -> None:
        """It was refused after all, or nobody is there for its answer: no entry. Idempotent."""
        if self._open:
            self._leave()
            self._ledger.release(self.hold)

    def _leave(self) -> None:
        self._open = False
        self._counters.let_go(self.hold.most)
        self.arrived()
        if self._account is not None:
            self._account.end()
