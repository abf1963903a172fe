from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.core.days import DAY_US, date_of
from paceline.core.ledger import (
    BUDGET_PERIODS,
    NO_TERMS,
    Amount,
    Shortage,
    Terms,
    Window,
)
from paceline.core.purse import Purse, Spent, Stake, WindowMeter

MINUTE_US = 60_000_000
NOON = 20_000 * DAY_US + DAY_US // 2


def taken(purse: Purse, usd: int | None, credit: int | None, terms: Terms, now: int) -> Stake:
    found = purse.hold(Amount(usd, credit), terms, now)
    assert isinstance(found, Stake), found
    return found


def refused(purse: Purse, usd: int, credit: int, terms: Terms, now: int) -> Shortage:
    found = purse.hold(Amount(usd, credit), terms, now)
    assert isinstance(found, Shortage), found
    return found


def test_a_hold_counts_until_it_is_settled_for_less() -> None:
    purse, terms = Purse(), Terms(budget_usd=10)
    stake = taken(purse, 7, 0, terms, NOON)
    assert refused(purse, 4, 0, terms, NOON) == Shortage("budget_usd", 10, 7, 4)
    purse.settle(stake, Amount(6, 0))
    standing = purse.standing(terms, NOON)
    assert (standing.period_used, standing.held) == (Amount(6, 0), Amount(0, 0))
    purse.release(taken(purse, 4, 0, terms, NOON))
    assert refused(purse, 5, 0, terms, NOON).used == 6


def test_a_budget_of_a_day_starts_anew_and_says_when() -> None:
    purse, terms = Purse(), Terms(budget_credits=10, budget_period="day")
    stake = taken(purse, 0, 10, terms, NOON)
    midnight = 20_001 * DAY_US
    assert refused(purse, 0, 1, terms, midnight - 1).resets_us == midnight
    assert refused(purse, 0, 11, terms, midnight - 1).resets_us is None
    after = taken(purse, 0, 10, terms, midnight)
    # What was let in before midnight is settled on the day before.
    purse.settle(stake, Amount(0, 9))
    assert purse.standing(terms, midnight).period_used == Amount(0, 0)
    purse.settle(after, Amount(0, 1))
    assert purse.standing(terms, midnight).period_used == Amount(0, 1)
    assert (stake.day, after.day) == (20_000, 20_001)


def test_a_budget_of_a_month_says_when_the_next_begins() -> None:
    purse, terms = Purse(), Terms(budget_usd=1, budget_period="month")
    taken(purse, 1, 0, terms, NOON)
    resets = refused(purse, 1, 0, terms, NOON).resets_us
    assert resets is not None
    assert date_of(20_000) == (2024, 10, 4)
    assert date_of(resets // DAY_US) == (2024, 11, 1)
    taken(purse, 1, 0, terms, resets)


def test_a_clock_set_back_does_not_bring_a_budget_back() -> None:
    purse, terms = Purse(), Terms(budget_usd=1, budget_period="day")
    taken(purse, 1, 0, terms, NOON)
    assert refused(purse, 1, 0, terms, NOON - DAY_US).name == "budget_usd"


def test_prepaid_amounts_are_used_up_for_good() -> None:
    purse, terms = Purse(), Terms(prepaid_usd=5, prepaid_credits=5)
    purse.settle(taken(purse, 3, 0, NO_TERMS, NOON), Amount(3, 0))
    # What was used before anything was prepaid isn't taken from it.
    purse.settle(taken(purse, 5, 2, terms, NOON), Amount(5, 2))
    assert refused(purse, 1, 0, terms, NOON) == Shortage("prepaid_usd", 5, 5, 1)
    assert refused(purse, 0, 4, terms, NOON + 99 * DAY_US).name == "prepaid_credits"
    assert purse.standing(terms, NOON).prepaid_used == Amount(5, 2)


WINDOWS = Terms(primary=Window(300, 10), secondary=Window(10_080, 25))


def test_a_window_begins_with_the_first_request_after_the_last_ones_end() -> None:
    purse = Purse()
    assert purse.standing(WINDOWS, NOON).primary is not None
    first = purse.standing(WINDOWS, NOON).primary
    assert first is not None
    assert (first.used, first.resets_us) == (0, None)
    purse.settle(taken(purse, 0, 10, WINDOWS, NOON), Amount(0, 8))
    ends = NOON + 300 * MINUTE_US
    assert refused(purse, 0, 3, WINDOWS, ends - 1) == Shortage("window", 10, 8, 3, ends)
    # An hour of nothing: the next window begins with the next request, not where one ended.
    begins = ends + 60 * MINUTE_US
    taken(purse, 0, 10, WINDOWS, begins)
    second = purse.standing(WINDOWS, begins)
    assert second.primary is not None
    assert second.secondary is not None
    assert second.primary.resets_us == begins + 300 * MINUTE_US
    assert (second.primary.used, second.primary.held) == (0, 10)
    assert (second.secondary.used, second.secondary.held) == (8, 10)
    assert second.secondary.resets_us == NOON + 10_080 * MINUTE_US


def test_the_window_that_is_full_for_longer_is_named() -> None:
    purse = Purse()
    for i in range(2):
        now = NOON + i * 300 * MINUTE_US
        purse.settle(taken(purse, 0, 10, WINDOWS, now), Amount(0, 10))
    full = refused(purse, 0, 6, WINDOWS, NOON + 301 * MINUTE_US)
    assert full == Shortage("window", 25, 20, 6, NOON + 10_080 * MINUTE_US)
    assert refused(purse, 0, 11, WINDOWS, NOON + 301 * MINUTE_US).resets_us is None


def test_prepaid_credits_pay_for_what_windows_have_no_room_for() -> None:
    purse, terms = Purse(), replace(WINDOWS, prepaid_credits=7)
    purse.settle(taken(purse, 0, 10, terms, NOON), Amount(0, 10))
    extra = taken(purse, 0, 5, terms, NOON)
    assert (extra.primary, extra.secondary, extra.prepaid_credits) == (None, None, True)
    assert refused(purse, 0, 3, terms, NOON).name == "window"
    purse.settle(extra, Amount(0, 4))
    standing = purse.standing(terms, NOON)
    assert standing.prepaid_used == Amount(0, 4)
    assert standing.primary is not None
    assert standing.primary.used == 10
    # With room in the windows nothing is taken from what is prepaid.
    later = taken(purse, 0, 3, terms, NOON + 300 * MINUTE_US)
    assert not later.prepaid_credits


def test_what_has_no_published_rate_costs_nothing_and_is_never_refused() -> None:
    purse = Purse()
    terms = replace(WINDOWS, budget_usd=0, prepaid_usd=0, budget_credits=0)
    stake = taken(purse, None, None, terms, NOON)
    assert stake.primary is not None
    purse.settle(stake, Amount(None, None))
    assert purse.standing(terms, NOON).period_used == Amount(0, 0)


def test_a_cost_above_its_hold_is_refused_and_the_hold_stays() -> None:
    purse, terms = Purse(), Terms(budget_usd=10)
    stake = taken(purse, 4, 0, terms, NOON)
    for cost in (Amount(5, 0), Amount(4, 1)):
        with pytest.raises(ValueError, match="can't cost"):
            purse.settle(stake, cost)
    assert purse.standing(terms, NOON).held == Amount(4, 0)
    # Where nothing is bounded a hold is no promise.
    purse.settle(taken(purse, 0, 0, NO_TERMS, NOON), Amount(99, 0))
    assert purse.total.usd.used == 99


def test_a_purse_goes_on_from_what_was_written_down() -> None:
    purse = Purse()
    days = [Spent(19_999, 5, 50, 1, 10), Spent(20_000, 2, 20, 1, 10), Spent(19_000, 1, 1, 0, 0)]
    purse.restore(days, [("primary", WindowMeter(300, NOON))])
    purse.windows["primary"].meter.used = 9
    for period, used in zip(BUDGET_PERIODS, (8, 2, 7), strict=True):
        terms = Terms(budget_usd=100, budget_period=period)
        assert purse.standing(terms, NOON).period_used.usd == used
    assert purse.standing(NO_TERMS, NOON).prepaid_used == Amount(2, 20)
    assert refused(purse, 0, 2, WINDOWS, NOON + 1).used == 9


MAYBE = st.one_of(st.none(), st.integers(0, 30))
WINDOW = st.one_of(st.none(), st.builds(Window, st.integers(1, 3000), st.integers(0, 30)))
TERMS = st.builds(
    Terms,
    budget_usd=MAYBE,
    budget_credits=MAYBE,
    budget_period=st.sampled_from(BUDGET_PERIODS),
    prepaid_usd=MAYBE,
    prepaid_credits=MAYBE,
    primary=WINDOW,
    secondary=WINDOW,
)
STEP = st.tuples(
    st.sampled_from(["hold", "settle", "release"]),
    st.integers(0, 3 * DAY_US),
    st.one_of(st.none(), st.integers(0, 12)),
    st.one_of(st.none(), st.integers(0, 12)),
    st.integers(0, 10),
)


@settings(max_examples=400)
@given(TERMS, st.lists(STEP, max_size=60))
def test_no_limit_is_ever_passed(terms: Terms, steps: list[tuple[str, int, Any, Any, int]]) -> None:
    """Against sums that know nothing of meters: what every request let in has cost so far."""
    purse, now = Purse(), NOON
    open_: list[tuple[Stake, int]] = []
    costs: list[tuple[Stake, int, Amount]] = []
    for what, wait, usd, credit, pick in steps:
        now += wait
        if what == "hold":
            found = purse.hold(Amount(usd, credit), terms, now)
            if isinstance(found, Stake):
                open_.append((found, now))
            else:
                assert found.used + found.requested > found.limit
                assert found.resets_us is None or found.resets_us > now
        elif open_:
            stake, at = open_.pop(pick % len(open_))
            if what == "release":
                purse.release(stake)
                continue
            most = stake.most
            cost = Amount(
                None if most.usd is None else most.usd * pick // 10,
                None if most.credits is None else most.credits * pick // 10,
            )
            purse.settle(stake, cost)
            costs.append((stake, at, cost))

    sums: dict[tuple[str, Any], int] = defaultdict(int)
    for stake, at, cost in costs:
        year, month, _ = date_of(at // DAY_US)
        period = {"total": 0, "day": at // DAY_US, "month": (year, month)}[terms.budget_period]
        sums["budget_usd", period] += cost.usd or 0
        sums["budget_credits", period] += cost.credits or 0
        sums["prepaid_usd", 0] += cost.usd or 0
        if stake.primary is None and stake.secondary is None:
            sums["prepaid_credits", 0] += cost.credits or 0
        for name, window in (("primary", stake.primary), ("secondary", stake.secondary)):
            if window is not None:
                assert window.began_us <= at < window.ends_us
                sums[name, window.began_us] += cost.credits or 0
    limits = {
        "budget_usd": terms.budget_usd,
        "budget_credits": terms.budget_credits,
        "prepaid_usd": terms.prepaid_usd,
        # Without windows and prepaid credits nothing is bounded by prepaid ones.
        "prepaid_credits": terms.prepaid_credits,
        "primary": None if terms.primary is None else terms.primary.credits,
        "secondary": None if terms.secondary is None else terms.secondary.credits,
    }
    for (name, _), total in sums.items():
        limit = limits[name]
        assert limit is None or total <= limit, (name, total)

    # The purse's own sums are exactly these, and what is held is what is open.
    standing = purse.standing(terms, now)
    assert purse.total.usd.used == sum(cost.usd or 0 for _, _, cost in costs)
    assert purse.total.credits.used == sum(cost.credits or 0 for _, _, cost in costs)
    assert standing.held == Amount(
        sum(stake.most.usd or 0 for stake, _ in open_),
        sum(stake.most.credits or 0 for stake, _ in open_),
    )
