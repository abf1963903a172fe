"""Terms on their way to the scripts, and what comes back: shortages, and a purse as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.core.days import DAY_US, first_day, month_of
from paceline.core.ledger import Amount, Hold, Shortage, Standing, Terms, Window, WindowState
from paceline.runtime.ledger.rows import joined, split


def terms_json(terms: Terms) -> dict[str, Any]:
    """A key's terms as the script takes them."""

    def window(of: Window | None) -> dict[str, Any] | None:
        return None if of is None else {"minutes": of.minutes, "credits": split(of.credits)}

    def limit(pico: int | None) -> Any:
        return None if pico is None else split(pico)

    return {
        "period": terms.budget_period,
        "budget_usd": limit(terms.budget_usd),
        "budget_credits": limit(terms.budget_credits),
        "prepaid_usd": limit(terms.prepaid_usd),
        "prepaid_credits": limit(terms.prepaid_credits),
        "primary": window(terms.primary),
        "secondary": window(terms.secondary),
    }


def shortage(answer: Sequence[str], hold: Hold, terms: Terms) -> Shortage:
    """What the script's answer says is lacking."""
    name, milli, pico, resets = answer[:4]
    used = joined(int(milli), int(pico))
    usd, credit = hold.most.usd or 0, hold.most.credits or 0
    if name == "window":
        window = terms.primary if answer[4] == "primary" else terms.secondary
        limit = 0 if window is None else window.credits
        return Shortage("window", limit, used, credit, int(resets) if resets else None)
    requested = usd if name.endswith("usd") else credit
    limit = getattr(terms, name) or 0
    resets_us = None
    if resets == "period" and requested <= limit:
        resets_us = _period_ends_us(terms, int(answer[4]), int(answer[5]))
    return Shortage(name, limit, used, requested, resets_us)  # type: ignore[arg-type]  # one of the script's names


def _period_ends_us(terms: Terms, day: int, month: int) -> int | None:
    if terms.budget_period == "total":
        return None
    return (day + 1 if terms.budget_period == "day" else first_day(month + 1)) * DAY_US


def standing(fields: dict[str, str], terms: Terms, now_us: int) -> Standing:
    """A purse's hash as of now."""

    def amount(meter: str, kind: str) -> int:
        return joined(*(int(fields.get(f"{meter}:{kind}{part}", 0)) for part in "10"))

    def both(meter: str, kind: str) -> Amount:
        return Amount(amount(f"{meter}.usd", kind), amount(f"{meter}.credits", kind))

    def state(name: str, window: Window | None) -> WindowState | None:
        if window is None:
            return None
        began_us = int(fields.get(f"{name}.began", 0))
        ends_us = began_us + window.minutes * 60_000_000
        if int(fields.get(f"{name}.minutes", 0)) != window.minutes or ends_us <= now_us:
            return WindowState(window.minutes, window.credits, 0, 0, None)
        meter = f"{name}@{began_us}"
        used, held = amount(meter, "u"), amount(meter, "h")
        return WindowState(window.minutes, window.credits, used, held, ends_us)

    day = max(now_us // DAY_US, int(fields.get("day", -1)))
    period = {"total": "total", "day": f"day{day}", "month": f"month{month_of(day)}"}
    return Standing(
        terms=terms,
        period_used=both(period[terms.budget_period], "u"),
        prepaid_used=both("prepaid", "u"),
        held=both("total", "h"),
        primary=state("primary", terms.primary),
        secondary=state("secondary", terms.secondary),
    )
