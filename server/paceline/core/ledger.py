"""What one request leaves in the books: a hold while it runs, one entry when it has ended.

Amounts are whole numbers of 1e-12 dollars or credits ("pico"), so that sums are exact whatever
adds them up. None stands for an amount that nobody has published. Moments are Unix time in whole
microseconds; spans are whole nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from paceline.core.usage import Usage

PICO = 10**12
"""Units in one dollar or one credit."""

EntryState = Literal["finished", "cut", "failed", "lost"]
"""How a request ended. `finished`: its last byte was handed over. `cut`: its client left before.
`failed`: the server broke it off. `lost`: the process died while it ran."""
ENTRY_STATES: tuple[EntryState, ...] = get_args(EntryState)

NO_USAGE = Usage(0, 0)


@dataclass(frozen=True, slots=True)
class Amount:
    """Money in both units, in pico; None where no rate is published."""

    usd: int | None = 0
    credits: int | None = 0


FREE = Amount()


@dataclass(frozen=True, slots=True)
class Hold:
    """A request that was let in, and the most it can cost.

    `id` is this program's own and unique for ever; `request_id` may be the caller's, and repeat.
    `key_id` is the short id of the caller's key, "" without one.
    """

    id: str
    request_id: str
    key_id: str
    model: str
    """The model as it was asked for."""
    billed_as: str
    """The rate card's model, "" where no card sells the profile."""
    profile: str
    tier_asked: str
    tier_served: str
    endpoint: str
    stream: bool
    created_us: int
    most: Amount = FREE


@dataclass(frozen=True, slots=True)
class Times:
    """Where a request's time went, in nanoseconds; None where it never got that far."""

    ttft_ns: int | None = None
    queue_ns: int | None = None
    prefill_ns: int | None = None
    decode_ns: int | None = None
    total_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the ledger: a hold that was settled."""

    hold: Hold
    state: EntryState
    ended_us: int
    usage: Usage = NO_USAGE
    """What was really sent; of the prompt nothing where its prefill hadn't ended."""
    cost: Amount = FREE
    finish_reason: str | None = None
    times: Times = field(default_factory=Times)


BudgetPeriod = Literal["total", "day", "month"]
"""What a budget is for: all time, or a day or month of UTC."""
BUDGET_PERIODS: tuple[BudgetPeriod, ...] = get_args(BudgetPeriod)


@dataclass(frozen=True, slots=True)
class Window:
    """So many credits in a span that begins with the first request after the last one's end."""

    minutes: int
    credits: int
    """In pico."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a key may spend, in pico; None is without end.

    Windows are a subscription's (Codex: 300 and 10,080 minutes). A request that a window has no
    room for is paid from the prepaid credits where there are any. Prepaid amounts are used up for
    good; a budget starts anew with its period.
    """

    budget_usd: int | None = None
    budget_credits: int | None = None
    budget_period: BudgetPeriod = "total"
    prepaid_usd: int | None = None
    prepaid_credits: int | None = None
    primary: Window | None = None
    secondary: Window | None = None

    def __bool__(self) -> bool:
        """Whether anything is bounded."""
        return self != NO_TERMS


NO_TERMS = Terms()

ShortageName = Literal["budget_usd", "budget_credits", "prepaid_usd", "prepaid_credits", "window"]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a request can't be paid for, in pico; `resets_us` is when that changes by itself."""

    name: ShortageName
    limit: int
    used: int
    """Settled and held."""
    requested: int
    resets_us: int | None = None


@dataclass(frozen=True, slots=True)
class WindowState:
    """A window as it stands; `resets_us` None where it hasn't begun."""

    minutes: int
    limit: int
    used: int
    held: int
    resets_us: int | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a key has used: in its budget's period, of what it prepaid, and in its windows."""

    terms: Terms
    period_used: Amount
    prepaid_used: Amount
    held: Amount
    primary: WindowState | None = None
    secondary: WindowState | None = None
