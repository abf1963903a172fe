"""What one key has used and holds, and whether its terms have room for one more request.

Every limit is a meter of its own: what is settled and what is held, both in pico. A request takes
a stake in each meter that it counts in, at the most it can cost; the meters keep it until it is
settled or released, even when their day, month or window has ended meanwhile. So a request counts
in the period and window in which it was let in, and since nothing settles for more than it held,
no meter ever passes its limit.

A request that the windows have no room for is paid from the prepaid credits where there are any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from paceline.core.days import DAY_US, first_day, month_of
from paceline.core.ledger import (
    Amount,
    BudgetPeriod,
    Shortage,
    ShortageName,
    Standing,
    Terms,
    Window,
    WindowState,
)

_MINUTE_US = 60_000_000


@dataclass(slots=True, eq=False)
class Meter:
    """Settled and held amounts of one unit, in pico."""

    used: int = 0
    held: int = 0

    def shortage(self, limit: int | None, most: int | None) -> bool:
        """Whether `most` more would pass the limit."""
        return limit is not None and bool(most) and self.used + self.held + (most or 0) > limit


@dataclass(slots=True, eq=False)
class Meters:
    """One meter a unit, for a period that `label` names: a day's or month's number."""

    label: int = 0
    usd: Meter = field(default_factory=Meter)
    credits: Meter = field(default_factory=Meter)


@dataclass(slots=True, eq=False)
class WindowMeter:
    """A subscription's window: the span that runs, or the last one."""

    minutes: int
    began_us: int
    meter: Meter = field(default_factory=Meter)

    @property
    def ends_us(self) -> int:
        """The first moment that is no more of it."""
        return self.began_us + self.minutes * _MINUTE_US


@dataclass(slots=True, eq=False)
class Stake:
    """A request that was let in: how it is paid, and what it holds.

    `day` is the day of UTC it counts in, in days since 1970. `primary` and `secondary` are the
    windows that pay, None where none does. Whoever keeps books writes these down with the entry.
    """

    most: Amount
    bounded: bool
    day: int
    prepaid_usd: bool
    prepaid_credits: bool
    primary: WindowMeter | None
    secondary: WindowMeter | None
    usd: tuple[Meter, ...]
    credits: tuple[Meter, ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """What was settled on one day, as it was written down: for a purse to begin with."""

    day: int
    usd: int
    credits: int
    prepaid_usd: int
    prepaid_credits: int


class Purse:
    """One key's meters. All moments are Unix time in microseconds."""

    def __init__(self) -> None:
        self.total = Meters()
        self.day = Meters()
        self.month = Meters()
        self.prepaid = Meters()
        self.windows: dict[str, WindowMeter] = {}
        """The latest of each, by `primary` and `secondary`."""

    def restore(self, spent: Iterable[Spent], windows: Iterable[tuple[str, WindowMeter]]) -> None:
        """Begin with what was settled before; the latest day and month are those that run."""
        for each in sorted(spent, key=lambda each: each.day):
            self._turn(each.day)
            for meters in (self.total, self.day, self.month):
                meters.usd.used += each.usd
                meters.credits.used += each.credits
            self.prepaid.usd.used += each.prepaid_usd
            self.prepaid.credits.used += each.prepaid_credits
        self.windows.update(windows)

    def hold(self, most: Amount, terms: Terms, now_us: int) -> Stake | Shortage:
        """Set aside the most that a request can cost, or say what is lacking.

        An amount of None bounds nothing. Without terms nothing is checked, only counted.
        """
        self._turn(now_us // DAY_US)
        budget = self._period(terms.budget_period)
        windows: tuple[WindowMeter | None, WindowMeter | None] = (None, None)
        if terms:
            lacking = self._lacking(most, terms, budget)
            if lacking is not None:
                return lacking
            full = self._full(most, terms, now_us)
            if full is None:
                windows = self._begun(terms, now_us)
            elif not self._prepaid_has(most, terms):
                return full
        primary, secondary = windows
        prepaid_usd = terms.prepaid_usd is not None
        by_window = primary is not None or secondary is not None
        prepaid_credits = terms.prepaid_credits is not None and not by_window
        usd = [self.total.usd, self.day.usd, self.month.usd]
        credit = [self.total.credits, self.day.credits, self.month.credits]
        if prepaid_usd:
            usd.append(self.prepaid.usd)
        if prepaid_credits:
            credit.append(self.prepaid.credits)
        credit += [window.meter for window in windows if window is not None]
        for meter in usd:
            meter.held += most.usd or 0
        for meter in credit:
            meter.held += most.credits or 0
        return Stake(
            most=most,
            bounded=bool(terms),
            day=self.day.label,
            prepaid_usd=prepaid_usd,
            prepaid_credits=prepaid_credits,
            primary=primary,
            secondary=secondary,
            usd=tuple(usd),
            credits=tuple(credit),
        )

    def settle(self, stake: Stake, cost: Amount) -> None:
        """Turn what a request held into what it cost; to be called once, or `release` once.

        Raises ValueError for a cost above what was held under terms; the stake stays then.
        """
        if stake.bounded and not within(cost, stake.most):
            raise ValueError(f"a request that held {stake.most} can't cost {cost}")
        for meter in stake.usd:
            meter.held -= stake.most.usd or 0
            meter.used += cost.usd or 0
        for meter in stake.credits:
            meter.held -= stake.most.credits or 0
            meter.used += cost.credits or 0

    def release(self, stake: Stake) -> None:
        """Give back what a request held."""
        self.settle(stake, Amount())

    def standing(self, terms: Terms, now_us: int) -> Standing:
        """What is used and held, as of now."""
        self._turn(now_us // DAY_US)
        period = self._period(terms.budget_period)
        total = self.total
        return Standing(
            terms=terms,
            period_used=Amount(period.usd.used, period.credits.used),
            prepaid_used=Amount(self.prepaid.usd.used, self.prepaid.credits.used),
            held=Amount(total.usd.held, total.credits.held),
            primary=self._window_state("primary", terms.primary, now_us),
            secondary=self._window_state("secondary", terms.secondary, now_us),
        )

    def _turn(self, day: int) -> None:
        """Begin the day's and month's meters anew where the time has come.

        A clock that was set back doesn't bring back a budget that was used.
        """
        if day > self.day.label:
            self.day = Meters(day)
            month = month_of(day)
            if month > self.month.label:
                self.month = Meters(month)

    def _period(self, period: BudgetPeriod) -> Meters:
        if period == "total":
            return self.total
        return self.day if period == "day" else self.month

    def _period_ends_us(self, period: BudgetPeriod) -> int | None:
        if period == "total":
            return None
        after = self.day.label + 1 if period == "day" else first_day(self.month.label + 1)
        return after * DAY_US

    def _lacking(self, most: Amount, terms: Terms, budget: Meters) -> Shortage | None:
        if budget.usd.shortage(terms.budget_usd, most.usd):
            resets = self._period_ends_us(terms.budget_period)
            return _short("budget_usd", terms.budget_usd, budget.usd, most.usd, resets)
        if budget.credits.shortage(terms.budget_credits, most.credits):
            resets = self._period_ends_us(terms.budget_period)
            return _short(
                "budget_credits", terms.budget_credits, budget.credits, most.credits, resets
            )
        if self.prepaid.usd.shortage(terms.prepaid_usd, most.usd):
            return _short("prepaid_usd", terms.prepaid_usd, self.prepaid.usd, most.usd, None)
        if terms.primary is None and terms.secondary is None:
            credit = self.prepaid.credits
            if credit.shortage(terms.prepaid_credits, most.credits):
                return _short("prepaid_credits", terms.prepaid_credits, credit, most.credits, None)
        return None

    def _full(self, most: Amount, terms: Terms, now_us: int) -> Shortage | None:
        """The window that has no room; of two the one that is full for longer."""
        found = None
        for name, window in (("primary", terms.primary), ("secondary", terms.secondary)):
            if window is None:
                continue
            running = self._running(name, window, now_us)
            meter = Meter() if running is None else running.meter
            if meter.shortage(window.credits, most.credits):
                ends_us = None if running is None else running.ends_us
                short = _short("window", window.credits, meter, most.credits, ends_us)
                if found is None or _waits(short) > _waits(found):
                    found = short
        return found

    def _prepaid_has(self, most: Amount, terms: Terms) -> bool:
        return bool(terms.prepaid_credits) and not self.prepaid.credits.shortage(
            terms.prepaid_credits, most.credits
        )

    def _begun(self, terms: Terms, now_us: int) -> tuple[WindowMeter | None, WindowMeter | None]:
        """The windows that pay, begun where none runs."""
        found: list[WindowMeter | None] = []
        for name, window in (("primary", terms.primary), ("secondary", terms.secondary)):
            running = None if window is None else self._running(name, window, now_us)
            if window is not None and running is None:
                running = self.windows[name] = WindowMeter(window.minutes, now_us)
            found.append(running)
        return found[0], found[1]

    def _running(self, name: str, window: Window, now_us: int) -> WindowMeter | None:
        found = self.windows.get(name)
        if found is None or found.minutes != window.minutes or found.ends_us <= now_us:
            return None
        return found

    def _window_state(self, name: str, window: Window | None, now_us: int) -> WindowState | None:
        if window is None:
            return None
        running = self._running(name, window, now_us)
        if running is None:
            return WindowState(window.minutes, window.credits, 0, 0, None)
        meter = running.meter
        return WindowState(window.minutes, window.credits, meter.used, meter.held, running.ends_us)


def within(cost: Amount, most: Amount) -> bool:
    """Whether a cost is at most what was held; a rate that wasn't published can't cost."""
    return (cost.usd or 0) <= (most.usd or 0) and (cost.credits or 0) <= (most.credits or 0)


def capped(cost: Amount, most: Amount) -> Amount:
    """A cost cut down to what was held, unit by unit; what isn't published stays so."""
    return Amount(_least(cost.usd, most.usd), _least(cost.credits, most.credits))


def _least(cost: int | None, most: int | None) -> int | None:
    return None if cost is None else min(cost, most or 0)


def _short(
    name: ShortageName, limit: int | None, meter: Meter, most: int | None, resets_us: int | None
) -> Shortage:
    limit, most = limit or 0, most or 0
    # Nothing that resets makes room for a request that is larger than the whole.
    return Shortage(name, limit, meter.used + meter.held, most, None if most > limit else resets_us)


def _waits(short: Shortage) -> float:
    return float("inf") if short.resets_us is None else float(short.resets_us)
