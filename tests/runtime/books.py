"""A ledger that tests can hold up, and requests that are let in by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.core.ledger import FREE, Amount, Entry, Hold, Shortage, Standing, Terms
from paceline.runtime.admission import Admitted, Claim
from paceline.runtime.keys import NOBODY
from paceline.runtime.limits import Account, Admission, Sizes
from paceline.runtime.metrics import ProfileMetrics
from paceline.runtime.price_book import PriceBook
from paceline.runtime.tiers import Service
from tests.runtime.pacing import flat

SOL = PriceBook.load(day="2026-09-01").sale("gpt-5.6-sol", "gpt-5.6-sol")
MICRO = 1_000_000
"""A millionth of a dollar, in pico: a token of Sol's input costs 4, of its output 20."""


@dataclass
class Books:
    """What was settled, in order; while `slow` nothing is safe until `commit`."""

    slow: bool = False
    entries: list[Entry] = field(default_factory=list)
    open: dict[str, Hold] = field(default_factory=dict)
    released: list[Hold] = field(default_factory=list)
    thens: list[Callable[[], None]] = field(default_factory=list)

    async def hold(self, hold: Hold, terms: Terms) -> Shortage | None:
        self.open[hold.id] = hold
        return None

    def settle(self, entry: Entry, then: Callable[[], None] | None = None) -> None:
        del self.open[entry.hold.id]
        self.entries.append(entry)
        if then is not None and self.slow:
            self.thens.append(then)
        elif then is not None:
            then()

    def release(self, hold: Hold) -> None:
        del self.open[hold.id]
        self.released.append(hold)

    async def standing(self, key_id: str, terms: Terms, now_us: int) -> Standing:
        return Standing(terms, FREE, FREE, FREE)

    async def close(self) -> None:
        self.commit()

    def commit(self) -> None:
        """Make everything safe that was settled."""
        thens, self.thens = self.thens, []
        for then in thens:
            then()

    def admit(
        self,
        number: int = 0,
        metrics: ProfileMetrics | None = None,
        *,
        claim: Claim | None = None,
    ) -> Admitted:
        """A request of Sol's that is let in, with a place in a limit."""
        cost: Amount = SOL.most(10_000, 10_000)
        name = f"answer-{number}"
        hold = Hold(
            name, f"req-{number}", "", "m", SOL.model, "p", "auto", "default", "/x", True, 0, cost
        )
        self.open[hold.id] = hold
        account = Account(Sizes(max_streams=1000), 0)
        account.take(1, 0)
        return Admitted(
            self,
            hold,
            Service(flat(1.0), SOL),
            NOBODY,
            metrics or ProfileMetrics(4096),
            account=Admission(account),
            claim=claim,
        )
