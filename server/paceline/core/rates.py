"""Rate cards: what a model's tokens cost, by the day, each number with its source.

A card's numbers are decimals under dotted names (`usd.input`, `tiers.fast.credits`).
`parse_rate_card` is the only way in from a file; it refuses unknown keys and impossible values
with the dotted key's name. What nobody has published is left out of the file, and stays absent:
no number here stands for one that isn't known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal, get_args

from paceline.core.sources import Source, read_sources

Unit = Literal["usd", "credits"]
"""US dollars, or Codex credits."""
UNITS: tuple[Unit, ...] = get_args(Unit)

Tier = Literal["default", "flex", "batch", "fast", "priority", "ultrafast"]
"""What can serve a request, as a price list tells it apart; `default` is the plain rate."""
TIERS: tuple[Tier, ...] = get_args(Tier)

Day = str
"""A day as `2026-08-21`: such days sort as they follow each other."""

_RATES = ("input", "cached_input", "cache_write", "output")
_FACTORS = ("cached_input", "cache_write")
_MILLION = Decimal(1_000_000)
_PLACES = 12
"""Most digits behind the point, so that a bill is exact in a fixed number of digits."""


@dataclass(frozen=True, slots=True)
class _Range:
    low: Decimal
    high: Decimal
    above: bool = False
    whole: bool = False

    def refuses(self, value: Decimal) -> str | None:
        """Why a value can't stand; None when it can."""
        if self.whole and value != value.to_integral_value():
            return f"must be a whole number, not {value}"
        if value < self.low or value > self.high or (self.above and value == self.low):
            low = f"above {self.low}" if self.above else f"at least {self.low}"
            return f"must be {low} and at most {self.high}, not {value}"
        if -int(value.normalize().as_tuple().exponent) > _PLACES:
            return f"must have at most {_PLACES} digits behind the point"
        return None


_PRICE = _Range(Decimal(0), _MILLION)
_TIMES = _Range(Decimal(0), Decimal(1000), above=True)

KEYS: Mapping[str, _Range] = {
    **{f"{unit}.{kind}": _PRICE for unit in UNITS for kind in _RATES},
    **{f"{unit}.{kind}_factor": _TIMES for unit in UNITS for kind in _FACTORS},
    "credits.per_usd": _Range(Decimal(0), _MILLION, above=True),
    "long_context.above_input_tokens": _Range(Decimal(1), Decimal(10**12), whole=True),
    "long_context.input": _TIMES,
    "long_context.output": _TIMES,
    **{f"tiers.{tier}.{unit}": _TIMES for tier in TIERS[1:] for unit in UNITS},
}
"""Every number that a card may have.

Rates are for a million tokens. A `..._factor` prices tokens that no rate is listed for as so many
times the input rate. `long_context` multiplies the whole request's input and output where its
prompt is longer than `above_input_tokens`. `tiers` multiplies all of it.
"""


class RateError(ValueError):
    """A rate card that can't be used; `key` is the dotted name of what is wrong."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Rates:
    """The numbers in force from a day on; `since` None is from the model's first day on."""

    since: Day | None
    numbers: Mapping[str, Decimal]
    sources: Mapping[str, Source]

    def source(self, key: str) -> Source:
        """Where a number comes from: its own source, else that of the table it stands in."""
        return self.sources[_covering(self.sources, key)]


@dataclass(frozen=True, slots=True)
class Offer:
    """What a profile sells: a tier, paid in dollars or in credits, or in either (None)."""

    tier: Tier
    sold_in: Unit | None


@dataclass(frozen=True, slots=True)
class RateCard:
    """All rates of one model, oldest first; none where nobody has published any."""

    model: str
    title: str
    rates: tuple[Rates, ...] = ()
    offers: Mapping[str, Offer] = field(default_factory=dict)
    """By the name of the profile."""
    notes: str = ""

    def on(self, day: Day) -> Rates | None:
        """The rates in force on a day; None where none were. Raises ValueError for no day."""
        if not is_day(day):
            raise ValueError(f"{day!r} is no day such as 2026-08-21")
        found = None
        for rates in self.rates:
            if rates.since is None or rates.since <= day:
                found = rates
        return found


def is_day(text: str) -> bool:
    """Whether a text is a day of the calendar, written `2026-08-21`."""
    match = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", text)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    return year >= 1 and 1 <= month <= 12 and 1 <= day <= days[month - 1]


def parse_rate_card(data: Mapping[str, Any]) -> RateCard:
    """Make a card from a parsed document: numbers are Decimal or int, `from` is a Day.

    Raises RateError for an unknown key, a value out of range, a float (it isn't exact), a number
    without a source, a source of no number, or cards that aren't in order of their days.
    """
    for key in data:
        if key not in {"model", "title", "notes", "profiles", "cards"}:
            raise RateError(key, "unknown key")
    model = _text(data, "model")
    if not model or any(c.isspace() for c in model):
        raise RateError("model", "must be a word without spaces")
    cards = data.get("cards", [])
    if not isinstance(cards, list):
        raise RateError("cards", "must be a list of tables")
    rates = tuple(_rates(f"cards[{i}]", card) for i, card in enumerate(cards))
    for i, (before, after) in enumerate(pairwise(rates), 1):
        if after.since is None:
            raise RateError(f"cards[{i}].from", "missing: only the first card may have none")
        if before.since is not None and after.since <= before.since:
            raise RateError(f"cards[{i}].from", "must be later than that of the card before")
    return RateCard(
        model=model,
        title=_text(data, "title"),
        rates=rates,
        offers=_offers(data.get("profiles", {})),
        notes=_text(data, "notes", ""),
    )


def _text(data: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise RateError(key, "missing" if value is None else "must be a string")
    return value


def _offers(data: Any) -> dict[str, Offer]:
    if not isinstance(data, Mapping):
        raise RateError("profiles", "must be a table")
    found: dict[str, Offer] = {}
    for profile, entry in data.items():
        where = f"profiles.{profile}"
        if not isinstance(entry, Mapping) or not {"tier"} <= set(entry) <= {"tier", "sold_in"}:
            raise RateError(where, 'must be { tier = "…" }, perhaps with sold_in')
        if entry["tier"] not in TIERS:
            raise RateError(f"{where}.tier", f"must be one of {', '.join(TIERS)}")
        if entry.get("sold_in", "usd") not in UNITS:
            raise RateError(f"{where}.sold_in", f"must be one of {', '.join(UNITS)}")
        found[profile] = Offer(entry["tier"], entry.get("sold_in"))
    return found


def _rates(where: str, card: Any) -> Rates:
    if not isinstance(card, Mapping):
        raise RateError(where, "must be a table")
    since = card.get("from")
    if since is not None and not (isinstance(since, str) and is_day(since)):
        raise RateError(f"{where}.from", "must be a day such as 2026-08-21")
    body = {key: value for key, value in card.items() if key not in {"from", "sources"}}
    numbers = {key: _number(where, key, value) for key, value in _flat("", body)}
    _check_pairs(where, numbers)
    sources = read_sources(
        card.get("sources", {}), lambda key, reason: RateError(f"{where}.{key}", reason)
    )
    covered: set[str] = set()
    for key in numbers:
        source = _covering(sources, key)
        if not source:
            raise RateError(f"{where}.sources.{key}", "missing: every number needs a source")
        covered.add(source)
    for key in sources:
        if key not in covered:
            raise RateError(f"{where}.sources.{key}", "is the source of no number of this card")
    return Rates(since, numbers, sources)


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield prefix, value
        return
    for key, inner in value.items():
        yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)


def _number(where: str, key: str, value: Any) -> Decimal:
    if key not in KEYS:
        raise RateError(f"{where}.{key}", "unknown key")
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise RateError(f"{where}.{key}", "must be a number")
    number = Decimal(value)
    if not number.is_finite():
        raise RateError(f"{where}.{key}", f"must be a number, not {value}")
    reason = KEYS[key].refuses(number)
    if reason is not None:
        raise RateError(f"{where}.{key}", reason)
    return number


def _check_pairs(where: str, numbers: Mapping[str, Decimal]) -> None:
    """Numbers that make sense only together, or only apart."""
    for table, needed in (
        ("usd", ("input", "output")),
        ("credits", ("input", "output")),
        ("long_context", ("above_input_tokens", "input", "output")),
    ):
        if any(key.startswith(f"{table}.") for key in numbers):
            for name in needed:
                if f"{table}.{name}" not in numbers:
                    raise RateError(f"{where}.{table}.{name}", "missing")
    for unit in UNITS:
        for kind in _FACTORS:
            key = f"{unit}.{kind}"
            if key in numbers and f"{key}_factor" in numbers:
                raise RateError(f"{where}.{key}_factor", f"there is a rate: {kind}")


def _covering(sources: Mapping[str, Source], key: str) -> str:
    """The key of a number's source: its own, else that of a table around it; "" without one."""
    while key and key not in sources:
        key = key.rpartition(".")[0]
    return key
