"""What a ledger does, whatever it is kept in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from paceline.core.errors import PlanError
from paceline.core.ledger import Entry, Hold, Shortage, Standing, Terms
from paceline.runtime.ledger.questions import ANY, Cursor, Dimension, Filter, Group, Line


class UnreadableError(PlanError):
    """What the ledger can't say now, since its store fails; 503 for whoever asked."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="ledger_unavailable", status=503)


class Ledger(Protocol):
    """Holds, and the entries they become. All methods are called on the event loop."""

    async def hold(self, hold: Hold, terms: Terms) -> Shortage | None:
        """Look whether the key can pay the most the request may cost, and set that aside.

        One step for everybody who asks: two requests never share the same last dollar. A request
        that can't be paid leaves nothing behind. Raises UnreadableError where the store that
        knows doesn't answer.
        """
        ...

    def settle(self, entry: Entry, then: Callable[[], None] | None = None) -> None:
        """Turn a hold into its entry; a second time is without effect.

        `then` is called on the event loop once the entry would outlive this process, at once
        where nothing outlives it. A client that was told the end of its answer finds it here.
        """
        ...

    def release(self, hold: Hold) -> None:
        """Give up a hold of a request that was refused after all: it leaves no entry."""
        ...

    async def standing(self, key_id: str, terms: Terms, now_us: int) -> Standing:
        """What a key has used and holds. Raises UnreadableError, as `hold`."""
        ...

    async def close(self) -> None:
        """Write what is still to be written, and let go of the store. Idempotent."""
        ...


class Books(Protocol):
    """What can be asked of a ledger. Raises UnreadableError where its store fails.

    An answer has every entry that was settled before the question.
    """

    async def entries(
        self, which: Filter = ANY, limit: int = 100, after: Cursor | None = None
    ) -> list[Line]:
        """At most `limit` entries, the latest let in first."""
        ...

    async def totals(self, which: Filter = ANY, group: Sequence[Dimension] = ()) -> list[Group]:
        """Sums of all entries that match, by what they are grouped by."""
        ...

    async def buckets(
        self,
        width_s: int,
        since_s: int,
        until_s: int,
        *,
        which: Filter = ANY,
        group: Sequence[Dimension] = (),
    ) -> list[Group]:
        """Sums by span of 60, 3,600 or 86,400 seconds that begins in a stretch of time."""
        ...
