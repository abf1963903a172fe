"""What each profile's tokens are sold for: the rate cards, with their prices compiled."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from paceline.core.days import day_text
from paceline.core.ledger import Amount
from paceline.core.money import UNPRICED, PriceList, Prices
from paceline.core.rates import Day, Offer, RateCard, RateError, Tier, Unit
from paceline.core.usage import Usage
from paceline.runtime.rate_files import RateBook, RateFileError, load_rates, shipped_rates_folder

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Sale:
    """What a request's tokens are sold for: a model's card at a tier, on a day."""

    model: str
    """The card's; "" where none sells the profile."""
    prices: Prices
    since: Day | None = None
    """The first day of the rates in force; None for a model's first rates, and for none."""
    only: Unit | None = None
    """The one unit that it is sold in; None where either will do."""

    def cost(self, usage: Usage) -> Amount:
        """The exact bill."""
        return self._sold(self.prices.cost(usage))

    def most(self, prompt_tokens: int, output_tokens: int) -> Amount:
        """The most that so many tokens can cost."""
        return self._sold(self.prices.most(prompt_tokens, output_tokens))

    def _sold(self, amount: Amount) -> Amount:
        if self.only is None:
            return amount
        return Amount(amount.usd, None) if self.only == "usd" else Amount(None, amount.credits)


NOT_SOLD = Sale("", UNPRICED)
"""Of a profile that is on nobody's rate card."""


class PriceBook:
    """Sales by profile and tier, for one fixed day or for today's day of UTC."""

    def __init__(
        self,
        cards: Iterable[RateCard],
        day: Day = "",
        *,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """`day` "" is today's, which `clock_s` (Unix time) tells.

        Raises RateFileError for a card with prices that are no whole 1e-12ths.
        """
        self._clock_s = clock_s
        self._fixed = day
        self._midnight_s = -math.inf
        self._day = day
        self._sales: dict[tuple[str, str, Tier | None], Sale] = {}
        self._lists: dict[str, PriceList] = {}
        book = RateBook(cards)
        for card in book.cards.values():
            try:
                self._lists[card.model] = PriceList(card)
            except RateError as error:
                raise RateFileError(None, f"{card.model}: {error.key}", error.reason) from error
        self._book = book

    @classmethod
    def load(cls, paths: Iterable[Path] = (), day: Day = "") -> PriceBook:
        """The shipped rate cards, and those of files and folders over them.

        Raises RateFileError.
        """
        return cls(load_rates([shipped_rates_folder(), *paths]).cards.values(), day)

    def offer(self, profile: str) -> Offer | None:
        """What a profile sells; None where no card has it."""
        found = self._book.of_profile(profile)
        return None if found is None else found[1]

    def sale(self, profile: str, standard: str, tier: Tier | None = None) -> Sale:
        """What a profile's tokens are sold for.

        `tier` is what the request asked for of the model that `standard` serves as a rule; None
        for one that named the profile itself: it pays what the profile sells, in its unit alone.
        """
        if not self._fixed and not 0 <= self._clock_s() - self._midnight_s < _DAY_S:
            self._turn_to_today()
        key = profile, standard, tier
        found = self._sales.get(key)
        if found is None:
            found = self._make(*key)
            # Names that nobody sells can be invented without end.
            if found is not NOT_SOLD:
                self._sales[key] = found
        return found

    def _make(self, profile: str, standard: str, tier: Tier | None) -> Sale:
        found = self._book.of_profile(profile)
        if tier is not None and (found is None or found[1].tier == "default"):
            # One deployment serves several tiers: the price is of the one that was asked for.
            found = self._book.of_profile(standard)
            if found is not None:
                found = found[0], Offer(tier, None)
        if found is None:
            return NOT_SOLD
        card, offer = found
        rates = card.on(self._day)
        return Sale(
            card.model,
            self._lists[card.model].on(offer.tier, self._day),
            None if rates is None else rates.since,
            offer.sold_in if tier is None else None,
        )

    def _turn_to_today(self) -> None:
        today = int(self._clock_s() // _DAY_S)
        self._midnight_s = float(today * _DAY_S)
        self._day = day_text(today)
        self._sales.clear()
