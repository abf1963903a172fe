"""One spending on several profiles: time and money side by side, and the price of a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from paceline.core.pricing import Charge, Kind, add_up, bill, least_certain, plain, token_counts
from paceline.core.rates import Day, Offer, RateCard, Unit
from paceline.core.sources import Source, SourceClass
from paceline.simulation.spending import Spending

# A quotient has no last digit; it is rounded, and nothing is billed by it.
_QUOTIENT = Context(prec=9)
_WORTH = Context(prec=28)
_NS = Decimal(1_000_000_000)


@dataclass(frozen=True, slots=True)
class Amount:
    """What all requests of a profile cost in one unit, or why that isn't known.

    `missing` names the numbers that aren't published; it is empty where there is a total, where
    the profile isn't sold in this unit, and where no request was served. `used` holds the sources
    of those that made it.
    """

    total: Decimal | None
    used: dict[str, Source]
    missing: tuple[str, ...] = ()
    from_credits: bool = False
    """US$ worked out from credits, for what is sold in credits alone."""

    @property
    def certainty(self) -> SourceClass | None:
        """The least certain class of what made it; None without a total."""
        if self.total is None:
            return None
        return least_certain(source.kind for source in self.used.values())


@dataclass(frozen=True, slots=True)
class Line:
    """One profile's time and money."""

    spending: Spending
    model: str
    offer: Offer
    usd: Amount
    credits: Amount
    tokens: dict[Kind, int]
    surcharged: int
    since: Day | None
    per_usd: Decimal | None
    """Credits for a dollar, where the card says."""

    @property
    def seconds(self) -> Decimal:
        """Waiting and tools together, to the nanosecond."""
        return Decimal(self.spending.total_ns) / _NS

    def amount(self, unit: Unit) -> Amount:
        """What it costs in a unit."""
        return self.usd if unit == "usd" else self.credits

    def per_second_saved(self, first: Line, unit: Unit) -> Decimal | None:
        """What a second saved costs against the first line; below 0 it is cheaper and faster.

        None where no second is saved, an amount isn't known, or the two did not do the same work.
        """
        if unit == "usd" and self.usd.from_credits:
            # Credits against credits: the dollars of an API are another price list.
            price = self.per_second_saved(first, "credits")
            if price is None or self.per_usd is None:
                return None
            return _QUOTIENT.divide(price, self.per_usd)
        saved_ns = first.spending.total_ns - self.spending.total_ns
        here, there = self.amount(unit).total, first.amount(unit).total
        if saved_ns <= 0 or here is None or there is None:
            return None
        if self.spending.refused != first.spending.refused:
            return None
        return _QUOTIENT.divide((here - there) * _NS, Decimal(saved_ns))

    def per_second_class(self, first: Line, unit: Unit) -> SourceClass | None:
        """The least certain class of what makes the price of a second."""
        if self.per_second_saved(first, unit) is None:
            return None
        classes = (
            self.spending.certainty,
            first.spending.certainty,
            self.amount(unit).certainty,
            first.amount("credits" if self.usd.from_credits else unit).certainty,
        )
        return least_certain(kind for kind in classes if kind is not None)

    def to_json(self, first: Line) -> dict[str, Any]:
        """The line as a JSON object; amounts are exact decimal text."""
        spending = self.spending
        saved: dict[str, Any] = {}
        for unit in ("usd", "credits"):
            price = self.per_second_saved(first, unit)
            saved[unit] = {
                "value": None if price is None else plain(price),
                "class": self.per_second_class(first, unit),
            }
        return {
            "profile": spending.profile.name,
            "model": self.model,
            "tier": self.offer.tier,
            "sold_in": self.offer.sold_in,
            "rates_since": self.since,
            "requests": len(spending.usages),
            "refused": spending.refused,
            "seconds": {"value": plain(self.seconds), "class": spending.certainty},
            "waited_s": plain(Decimal(spending.waited_ns) / _NS),
            "tools_s": plain(Decimal(spending.tools_ns) / _NS),
            "tokens": self.tokens,
            "long_context_requests": self.surcharged,
            "usd": _amount_json(self.usd),
            "credits": _amount_json(self.credits),
            "per_second_saved": saved,
        }


def make_line(spending: Spending, card: RateCard | None, offer: Offer, day: Day) -> Line:
    """Price a spending by a model's card, as it was on a day; None: the model has no card."""
    model = spending.profile.name if card is None else card.model
    rate_card = RateCard(model, model) if card is None else card
    bills = [bill(rate_card, usage, offer.tier, day) for usage in spending.usages]
    tokens: dict[Kind, int] = {}
    for usage in spending.usages:
        for kind, count in token_counts(usage).items():
            tokens[kind] = tokens.get(kind, 0) + count
    usd = _amount([b.charges["usd"] for b in bills])
    credits_ = _amount([b.charges["credits"] for b in bills])
    rates = rate_card.on(day)
    per_usd = None if rates is None else rates.numbers.get("credits.per_usd")
    if offer.sold_in == "credits":
        usd = Amount(None, {}, credits_.missing or ("credits.per_usd",))
        if rates is not None and per_usd is not None and credits_.total is not None:
            worth = _WORTH.divide(credits_.total, per_usd)
            key = "credits.per_usd"
            usd = Amount(worth, {**credits_.used, key: rates.source(key)}, from_credits=True)
    elif offer.sold_in == "usd":
        credits_ = Amount(None, {})
    return Line(
        spending=spending,
        model=model,
        offer=offer,
        usd=usd,
        credits=credits_,
        tokens=tokens,
        surcharged=sum(b.surcharge for b in bills),
        since=None if rates is None else rates.since,
        per_usd=per_usd,
    )


def _amount(charges: Sequence[Charge]) -> Amount:
    if not charges:
        return Amount(None, {})
    used: dict[str, Source] = {}
    missing: dict[str, None] = {}
    for charge in charges:
        used.update(charge.used)
        missing.update(dict.fromkeys(charge.missing))
    return Amount(add_up(charge.total for charge in charges), used, tuple(missing))


def _amount_json(amount: Amount) -> dict[str, Any]:
    return {
        "value": None if amount.total is None else plain(amount.total),
        "class": amount.certainty,
        "not_published": list(amount.missing),
        "from_credits": amount.from_credits,
        "sources": {
            key: {"class": source.kind, "from": source.text} for key, source in amount.used.items()
        },
    }
