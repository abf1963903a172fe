"""The bill of a request, exactly: decimals only, and a rounding that would lose a digit raises.

    part = tokens * rate * long-context factor * tier's multiplier / 1,000,000

for each kind of token. Reasoning is billed as output. A request is billed at the tier that served
it. Where a number that the bill needs isn't published there is no total, and the bill says which
number that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, localcontext
from typing import Literal, get_args

from paceline.core.rates import TIERS, UNITS, Day, RateCard, Rates, Tier, Unit
from paceline.core.sources import SOURCE_CLASSES, Source, SourceClass
from paceline.core.usage import Usage

Kind = Literal["input", "cached_input", "cache_write", "output", "reasoning"]
KINDS: tuple[Kind, ...] = get_args(Kind)

NOT_PUBLISHED = "no rate published"
"""What stands in place of an amount that nobody can know."""

# 20 digits of tokens, 19 of a rate, and 16 of each of a factor, a surcharge and a multiplier.
EXACT = Context(prec=96, traps=[DivisionByZero, Inexact, InvalidOperation])
"""Arithmetic in which nothing is rounded: a result that doesn't fit raises decimal.Inexact."""


@dataclass(frozen=True, slots=True)
class Charge:
    """One request in one unit.

    `parts` holds the kinds of which there were tokens, multiplier and surcharge included. `used`
    are the card's numbers that made them, `missing` those that aren't published.
    """

    unit: Unit
    total: Decimal | None
    parts: Mapping[Kind, Decimal]
    multiplier: Decimal | None
    used: Mapping[str, Source]
    missing: tuple[str, ...] = ()

    @property
    def certainty(self) -> SourceClass | None:
        """The least certain class among the numbers used; None where there is no total."""
        if self.total is None:
            return None
        return least_certain(source.kind for source in self.used.values())


@dataclass(frozen=True, slots=True)
class Bill:
    """What a request costs, in either unit. `surcharge`: the long-context one was due."""

    model: str
    tier: Tier
    since: Day | None
    """The first day of the rates in force; None where they are the model's first, or none."""
    surcharge: bool
    charges: Mapping[Unit, Charge]

    @property
    def usd(self) -> Decimal | None:
        """US dollars, exact; None where no rate is published."""
        return self.charges["usd"].total

    @property
    def credits(self) -> Decimal | None:
        """Codex credits, exact; None where no rate is published."""
        return self.charges["credits"].total


def bill(card: RateCard, usage: Usage, tier: Tier, day: Day) -> Bill:
    """The bill of one request that `tier` served on `day`.

    Raises ValueError for an unknown tier, a text that is no day, or counts that can't be: below 0,
    or parts above their whole.
    """
    if tier not in TIERS:
        raise ValueError(f"{tier!r} is no tier; there are {', '.join(TIERS)}")
    counts = token_counts(usage)
    rates = card.on(day)
    if rates is None:
        none = {unit: Charge(unit, None, {}, None, {}, (unit,)) for unit in UNITS}
        return Bill(card.model, tier, None, False, none)
    threshold = rates.numbers.get("long_context.above_input_tokens")
    surcharge = threshold is not None and usage.prompt_tokens > threshold
    with localcontext(EXACT):
        charges = {unit: _charge(rates, unit, counts, tier, surcharge) for unit in UNITS}
    return Bill(card.model, tier, rates.since, surcharge, charges)


def token_counts(usage: Usage) -> dict[Kind, int]:
    """A request's tokens by how they are priced; they add up to its total.

    Raises ValueError for counts below 0 or parts above their whole.
    """
    counts: dict[Kind, int] = {
        "input": usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cached_input": usage.cached_tokens,
        "cache_write": usage.cache_write_tokens,
        "output": usage.completion_tokens - usage.reasoning_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    if min(counts.values()) < 0:
        raise ValueError(f"these token counts can't be: {usage}")
    return counts


def least_certain(classes: Iterable[SourceClass]) -> SourceClass | None:
    """The last of the classes in the order of certainty; None of none."""
    return max(classes, key=SOURCE_CLASSES.index, default=None)


def add_up(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """The exact sum of amounts; None where one of them isn't known."""
    total = Decimal(0)
    with localcontext(EXACT):
        for amount in amounts:
            if amount is None:
                return None
            total += amount
    return total


def plain(amount: Decimal) -> str:
    """An amount in plain digits, all of them, without zeros at the end."""
    return f"{amount.normalize(EXACT):f}"


def _charge(
    rates: Rates, unit: Unit, counts: Mapping[Kind, int], tier: Tier, surcharge: bool
) -> Charge:
    numbers = rates.numbers
    used: dict[str, Source] = {}
    missing: list[str] = []

    def number(key: str) -> Decimal | None:
        found = numbers.get(key)
        if found is None:
            missing.append(key)
        else:
            used[key] = rates.source(key)
        return found

    def rate(kind: Kind) -> Decimal | None:
        key = f"{unit}.{'output' if kind == 'reasoning' else kind}"
        if key in numbers or f"{key}_factor" not in numbers:
            return number(key)
        factor, base = number(f"{key}_factor"), number(f"{unit}.input")
        return None if factor is None or base is None else factor * base

    multiplier = Decimal(1) if tier == "default" else number(f"tiers.{tier}.{unit}")
    parts: dict[Kind, Decimal] = {}
    for kind in KINDS:
        if not counts[kind]:
            continue
        price = rate(kind)
        if surcharge:
            side = "output" if kind in {"output", "reasoning"} else "input"
            longer = number(f"long_context.{side}")
            price = None if price is None or longer is None else price * longer
        if price is not None and multiplier is not None:
            parts[kind] = (counts[kind] * price * multiplier).scaleb(-6)
    if not any(key.startswith(f"{unit}.") for key in numbers):
        # One word for a unit that has no rate at all.
        missing = [unit]
    total = None if missing else sum(parts.values(), Decimal(0))
    return Charge(unit, total, parts, multiplier, used, tuple(dict.fromkeys(missing)))
