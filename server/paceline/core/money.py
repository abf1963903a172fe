"""Prices as whole numbers of pico, compiled once, so that a request's bill is a few additions.

A rate is for a million tokens, an `Amount` counts 1e-12 of a dollar or credit: a token's price in
pico is its rate times 1,000,000. What comes out equals `core.pricing.bill` to the last digit; a
card on which some token's price is no whole number of pico is refused when it is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

from paceline.core.ledger import PICO, Amount
from paceline.core.pricing import EXACT
from paceline.core.rates import TIERS, UNITS, Day, RateCard, RateError, Rates, Tier, Unit
from paceline.core.usage import Usage

_PER_TOKEN = Decimal(PICO // 1_000_000)
_PLACES = len(str(PICO)) - 1


@dataclass(frozen=True, slots=True)
class _Tokens:
    """A token of each kind in one unit, in pico; None where no rate is published."""

    input: int | None
    cached_input: int | None
    cache_write: int | None
    output: int | None

    def sum(self, fresh: int, cached: int, written: int, output: int) -> int | None:
        """So many tokens of each; None where there are some of a kind without a rate."""
        total = 0
        if fresh:
            if self.input is None:
                return None
            total = fresh * self.input
        if cached:
            if self.cached_input is None:
                return None
            total += cached * self.cached_input
        if written:
            if self.cache_write is None:
                return None
            total += written * self.cache_write
        if output:
            if self.output is None:
                return None
            total += output * self.output
        return total

    def most(self, prompt: int, output: int) -> int:
        """The most that so many can cost: an unpublished rate costs nothing."""
        dearest = max(self.input or 0, self.cached_input or 0, self.cache_write or 0)
        return prompt * dearest + output * (self.output or 0)


_Pair = tuple[_Tokens | None, _Tokens | None]
"""US dollars and credits; None for a unit that can't be billed at all."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What one model's tokens cost on one tier and day."""

    above: int | None
    """A prompt of more tokens than this pays the long-context prices."""
    plain: _Pair
    long: _Pair

    @classmethod
    def of(cls, card: RateCard, tier: Tier, day: Day) -> Prices:
        """The prices in force.

        Raises ValueError for an unknown tier or a text that is no day, and RateError with the
        dotted key of a rate that makes a token's price a fraction of a pico.
        """
        if tier not in TIERS:
            raise ValueError(f"{tier!r} is no tier; there are {', '.join(TIERS)}")
        rates = card.on(day)
        if rates is None:
            return UNPRICED
        with localcontext(EXACT):
            return _compiled(rates, tier)

    def cost(self, usage: Usage) -> Amount:
        """The exact bill of a request.

        Raises ValueError for counts that can't be: below 0, or parts above their whole.
        """
        prompt, cached, written = usage.prompt_tokens, usage.cached_tokens, usage.cache_write_tokens
        output, reasoning = usage.completion_tokens, usage.reasoning_tokens
        fresh = prompt - cached - written
        if fresh < 0 or cached < 0 or written < 0 or not 0 <= reasoning <= output:
            raise ValueError(f"these token counts can't be: {usage}")
        above = self.above
        usd, credit = self.long if above is not None and prompt > above else self.plain
        return Amount(
            None if usd is None else usd.sum(fresh, cached, written, output),
            None if credit is None else credit.sum(fresh, cached, written, output),
        )

    def most(self, prompt_tokens: int, output_tokens: int) -> Amount:
        """The most a request of at most so many tokens can cost, whatever the cache does.

        None in a unit that can't be billed at all.
        """
        above = self.above
        pairs = [self.plain]
        if above is not None and prompt_tokens > above:
            pairs.append(self.long)
        usd = [pair[0].most(prompt_tokens, output_tokens) for pair in pairs if pair[0]]
        credit = [pair[1].most(prompt_tokens, output_tokens) for pair in pairs if pair[1]]
        return Amount(max(usd, default=None), max(credit, default=None))


UNPRICED = Prices(None, (None, None), (None, None))
"""Where nobody sells the tokens: every amount is None."""


class PriceList:
    """One card's prices, each compiled at its first use."""

    def __init__(self, card: RateCard) -> None:
        """Raises RateError where one of the card's prices is a fraction of a pico."""
        self.card = card
        self._known: dict[tuple[Tier, Day], Prices] = {}
        for rates in card.rates:
            for tier in TIERS:
                with localcontext(EXACT):
                    _compiled(rates, tier)

    def on(self, tier: Tier, day: Day) -> Prices:
        """The prices of a tier on a day. Raises ValueError as `Prices.of`."""
        found = self._known.get((tier, day))
        if found is None:
            if len(self._known) > 8 * len(TIERS):
                # Days that have passed.
                self._known.clear()
            found = self._known[tier, day] = Prices.of(self.card, tier, day)
        return found


def to_pico(amount: Decimal | int) -> int:
    """An amount of dollars or credits in pico. Raises ValueError for a fraction of one."""
    with localcontext(EXACT):
        pico = Decimal(amount) * PICO
        if not pico.is_finite() or pico != pico.to_integral_value():
            raise ValueError(f"{amount} has more than {_PLACES} digits behind the point")
        return int(pico)


def digits(pico: int) -> str:
    """An amount in plain exact digits, without zeros at the end: `0.0416`."""
    sign = "-" if pico < 0 else ""
    whole, part = divmod(abs(pico), PICO)
    if not part:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{part:0{_PLACES}}".rstrip("0")


def _compiled(rates: Rates, tier: Tier) -> Prices:
    numbers = rates.numbers
    above = numbers.get("long_context.above_input_tokens")
    usd, credit = (_tokens(rates, unit, tier, long=False) for unit in UNITS)
    if above is None:
        return Prices(None, (usd, credit), (usd, credit))
    long_usd, long_credit = (_tokens(rates, unit, tier, long=True) for unit in UNITS)
    return Prices(int(above), (usd, credit), (long_usd, long_credit))


def _tokens(rates: Rates, unit: Unit, tier: Tier, *, long: bool) -> _Tokens | None:
    numbers = rates.numbers
    if not any(key.startswith(f"{unit}.") for key in numbers):
        return None
    keys = [] if tier == "default" else [f"tiers.{tier}.{unit}"]
    if keys and keys[0] not in numbers:
        return None

    def price(kind: str) -> int | None:
        used = [f"{unit}.{kind}"]
        if used[0] not in numbers and f"{used[0]}_factor" in numbers:
            used = [f"{used[0]}_factor", f"{unit}.input"]
        used += keys
        if long:
            used.append(f"long_context.{'output' if kind == 'output' else 'input'}")
        value = _PER_TOKEN
        for key in used:
            if key not in numbers:
                return None
            value *= numbers[key]
        if value != value.to_integral_value():
            times = "".join(f" x {key}" for key in used[1:])
            raise RateError(used[0], f"{used[0]}{times}: a token's price must be whole 1e-12s")
        return int(value)

    return _Tokens(price("input"), price("cached_input"), price("cache_write"), price("output"))
