"""One request of known tokens on each model and tier, its bill worked out by hand."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.pricing import KINDS, add_up, bill, plain, token_counts
from paceline.core.rates import TIERS, Tier
from paceline.core.usage import Usage
from paceline.runtime.rate_files import load_rates, shipped_rates_folder

CARDS = load_rates([shipped_rates_folder()]).cards
LAUNCH, CUT = "2026-08-20", "2026-08-21"

# 4,000 fresh, 4,000 cached, 2,000 written; 500 visible and 200 reasoning.
CACHED = Usage(
    prompt_tokens=10_000,
    completion_tokens=700,
    cached_tokens=4_000,
    cache_write_tokens=2_000,
    reasoning_tokens=200,
)
# 10,000 fresh; 500 visible and 200 reasoning.
FRESH = Usage(prompt_tokens=10_000, completion_tokens=700, reasoning_tokens=200)
# One fresh token, 250,000 cached, 50,000 written: 300,001, above 272,000; 1,000 visible.
LONG = Usage(
    prompt_tokens=300_001,
    completion_tokens=1_000,
    cached_tokens=250_000,
    cache_write_tokens=50_000,
)

# Model, day, tokens, tier, US$, credits. All sums are in millionths.
Row = tuple[str, str, Usage, Tier, str | None, str | None]
TABLE: list[Row] = [
    # At launch, US$: 4,000 x 5 + 4,000 x 0.50 + 2,000 x 6.25 + 700 x 30
    #   = 20,000 + 2,000 + 12,500 + 21,000 = 55,500
    # credits: 4,000 x 125 + 4,000 x 12.5 + 2,000 x 125 + 700 x 750
    #   = 500,000 + 50,000 + 250,000 + 525,000 = 1,325,000
    ("gpt-5.6-sol", LAUNCH, CACHED, "default", "0.0555", "1.325"),
    ("gpt-5.6-sol", LAUNCH, CACHED, "flex", "0.02775", None),  # 55,500 x 0.5
    ("gpt-5.6-sol", LAUNCH, CACHED, "batch", "0.02775", None),
    ("gpt-5.6-sol", LAUNCH, CACHED, "fast", "0.111", "3.3125"),  # x 2; 1,325,000 x 2.5
    ("gpt-5.6-sol", LAUNCH, CACHED, "priority", "0.111", "3.3125"),
    ("gpt-5.6-sol", LAUNCH, CACHED, "ultrafast", "0.333", None),  # 55,500 x 6
    # Since 21 August, US$: 4,000 x 4 + 4,000 x 0.40 + 2,000 x 5 + 700 x 20
    #   = 16,000 + 1,600 + 10,000 + 14,000 = 41,600
    # credits: 4,000 x 100 + 4,000 x 10 + 2,000 x 100 + 700 x 500
    #   = 400,000 + 40,000 + 200,000 + 350,000 = 990,000
    ("gpt-5.6-sol", CUT, CACHED, "default", "0.0416", "0.99"),
    ("gpt-5.6-sol", CUT, CACHED, "flex", "0.0208", None),  # 41,600 x 0.5
    ("gpt-5.6-sol", CUT, CACHED, "batch", "0.0208", None),
    ("gpt-5.6-sol", CUT, CACHED, "fast", "0.0832", "2.475"),  # x 2; 990,000 x 2.5
    ("gpt-5.6-sol", CUT, CACHED, "priority", "0.0832", "2.475"),
    ("gpt-5.6-sol", CUT, CACHED, "ultrafast", "0.2496", None),  # 41,600 x 6
    # Long, US$: (1 x 4 + 250,000 x 0.40 + 50,000 x 5) x 2 + 1,000 x 20 x 1.5
    #   = (4 + 100,000 + 250,000) x 2 + 30,000 = 730,008
    # credits: (1 x 100 + 250,000 x 10 + 50,000 x 100) x 2 + 1,000 x 500 x 1.5
    #   = (100 + 2,500,000 + 5,000,000) x 2 + 750,000 = 15,750,200
    ("gpt-5.6-sol", CUT, LONG, "default", "0.730008", "15.7502"),
    ("gpt-5.6-sol", CUT, LONG, "flex", "0.365004", None),  # 730,008 x 0.5
    ("gpt-5.6-sol", CUT, LONG, "fast", "1.460016", "39.3755"),  # x 2; 15,750,200 x 2.5
    ("gpt-5.6-sol", CUT, LONG, "ultrafast", "4.380048", None),  # 730,008 x 6
    # Terra, US$: 4,000 x 2 + 4,000 x 0.20 + 2,000 x 2 x 1.25 + 700 x 12
    #   = 8,000 + 800 + 5,000 + 8,400 = 22,200
    # credits: 4,000 x 50 + 4,000 x 5 + 2,000 x 50 + 700 x 300
    #   = 200,000 + 20,000 + 100,000 + 210,000 = 530,000
    ("gpt-5.6-terra", CUT, CACHED, "default", "0.0222", "0.53"),
    ("gpt-5.6-terra", CUT, CACHED, "flex", "0.0111", None),  # 22,200 x 0.5
    ("gpt-5.6-terra", CUT, CACHED, "batch", "0.0111", None),
    ("gpt-5.6-terra", CUT, CACHED, "fast", "0.0444", "1.325"),  # x 2; 530,000 x 2.5
    ("gpt-5.6-terra", CUT, CACHED, "priority", "0.0444", "1.325"),
    ("gpt-5.6-terra", CUT, CACHED, "ultrafast", "0.1332", None),  # 22,200 x 6
    # Luna, US$: 4,000 x 0.20 + 4,000 x 0.02 + 2,000 x 0.20 x 1.25 + 700 x 1.20
    #   = 800 + 80 + 500 + 840 = 2,220
    # credits: 4,000 x 5 + 4,000 x 0.5 + 2,000 x 5 + 700 x 30
    #   = 20,000 + 2,000 + 10,000 + 21,000 = 53,000
    ("gpt-5.6-luna", CUT, CACHED, "default", "0.00222", "0.053"),
    ("gpt-5.6-luna", CUT, CACHED, "flex", "0.00111", None),  # 2,220 x 0.5
    ("gpt-5.6-luna", CUT, CACHED, "batch", "0.00111", None),
    ("gpt-5.6-luna", CUT, CACHED, "fast", "0.00444", "0.1325"),  # x 2; 53,000 x 2.5
    ("gpt-5.6-luna", CUT, CACHED, "priority", "0.00444", "0.1325"),
    ("gpt-5.6-luna", CUT, CACHED, "ultrafast", "0.01332", None),  # 2,220 x 6
    # Opus: 10,000 x 5 + 700 x 25 = 50,000 + 17,500 = 67,500; fast twice that
    ("claude-opus-4-8", CUT, FRESH, "default", "0.0675", None),
    ("claude-opus-4-8", CUT, FRESH, "fast", "0.135", None),
    # Fable: 10,000 x 10 + 700 x 50 = 100,000 + 35,000 = 135,000; it has no fast
    ("claude-fable-5", CUT, FRESH, "default", "0.135", None),
    ("claude-fable-5", CUT, FRESH, "fast", None, None),
    # Nobody has published a rate.
    ("gpt-5.3-codex-spark", CUT, FRESH, "default", None, None),
    ("gpt-5.5", CUT, FRESH, "fast", None, None),
    ("gpt-5.4", CUT, FRESH, "fast", None, None),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[1]}-{row[3]}")
def test_to_the_last_digit(row: Row) -> None:
    model, day, usage, tier, usd, credits_ = row
    found = bill(CARDS[model], usage, tier, day)
    assert (None if found.usd is None else plain(found.usd)) == usd
    assert (None if found.credits is None else plain(found.credits)) == credits_


def test_every_card_is_in_the_table_and_every_tier_that_it_prices() -> None:
    tried = {(row[0], row[3]) for row in TABLE}
    assert {model for model, _ in tried} == set(CARDS)
    for model in ("gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna"):
        assert {tier for name, tier in tried if name == model} == set(TIERS)


def test_parts_by_kind_add_up() -> None:
    found = bill(CARDS["gpt-5.6-sol"], CACHED, "fast", CUT)
    charge = found.charges["usd"]
    assert {kind: plain(part) for kind, part in charge.parts.items()} == {
        "input": "0.032",  # 4,000 x 4 x 2
        "cached_input": "0.0032",  # 4,000 x 0.40 x 2
        "cache_write": "0.02",  # 2,000 x 5 x 2
        "output": "0.02",  # 500 x 20 x 2
        "reasoning": "0.008",  # 200 x 20 x 2
    }
    assert add_up(charge.parts.values()) == found.usd
    assert charge.multiplier == Decimal(2)
    assert (found.surcharge, found.since) == (False, CUT)


def test_the_surcharge_begins_above_272000_tokens() -> None:
    at = bill(CARDS["gpt-5.6-sol"], Usage(272_000, 1), "default", CUT)
    above = bill(CARDS["gpt-5.6-sol"], Usage(272_001, 1), "default", CUT)
    assert (at.surcharge, above.surcharge) == (False, True)
    assert at.usd == Decimal("1.08802")  # 272,000 x 4 + 20
    assert above.usd == Decimal("2.176038")  # 272,001 x 8 + 30


def test_one_token_keeps_its_digits() -> None:
    found = bill(CARDS["gpt-5.6-luna"], Usage(1, 0, cached_tokens=1), "flex", CUT)
    assert found.usd is not None
    assert plain(found.usd) == "0.00000001"


def test_what_is_missing_is_named() -> None:
    opus = bill(CARDS["claude-opus-4-8"], CACHED, "default", CUT)
    assert opus.charges["usd"].missing == ("usd.cached_input", "usd.cache_write")
    assert opus.charges["credits"].missing == ("credits",)
    assert opus.charges["usd"].certainty is None
    sol = bill(CARDS["gpt-5.6-sol"], CACHED, "ultrafast", CUT)
    assert sol.charges["credits"].missing == ("tiers.ultrafast.credits",)
    spark = bill(CARDS["gpt-5.3-codex-spark"], CACHED, "default", CUT)
    assert [charge.missing for charge in spark.charges.values()] == [("usd",), ("credits",)]


def test_a_bill_is_as_certain_as_the_least_certain_number_in_it() -> None:
    def classes(model: str, tier: Tier, usage: Usage = CACHED) -> list[str | None]:
        found = bill(CARDS[model], usage, tier, CUT)
        return [found.charges["usd"].certainty, found.charges["credits"].certainty]

    assert classes("gpt-5.6-sol", "default") == ["official", "estimate"]
    assert classes("gpt-5.6-sol", "ultrafast") == ["hypothesis", None]
    assert classes("gpt-5.6-terra", "ultrafast", FRESH) == ["official", None]
    # No rate is listed for what Terra writes to its cache.
    assert classes("gpt-5.6-terra", "ultrafast", CACHED) == ["estimate", None]


@pytest.mark.parametrize(
    "usage",
    [
        Usage(-1, 5),
        Usage(10, 5, cached_tokens=6, cache_write_tokens=5),
        Usage(10, 5, reasoning_tokens=6),
        Usage(10, 5, cached_tokens=-1),
    ],
)
def test_counts_that_cannot_be_are_refused(usage: Usage) -> None:
    with pytest.raises(ValueError, match="can't be"):
        bill(CARDS["gpt-5.6-sol"], usage, "default", CUT)


def test_an_unknown_tier_and_a_day_that_is_none_are_refused() -> None:
    with pytest.raises(ValueError, match="no tier"):
        bill(CARDS["gpt-5.6-sol"], FRESH, "scale", CUT)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="no day"):
        bill(CARDS["gpt-5.6-sol"], FRESH, "default", "2026-02-29")


@given(
    st.tuples(*[st.integers(0, 2_000_000)] * 5),
    st.sampled_from(TIERS),
    st.sampled_from(["gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna"]),
)
def test_exact_by_fractions(counts: tuple[int, ...], tier: Tier, model: str) -> None:
    fresh, cached, written, visible, thought = counts
    usage = Usage(fresh + cached + written, visible + thought, cached, written, thought)
    rates = CARDS[model].on(CUT)
    assert rates is not None
    numbers = {key: Fraction(value) for key, value in rates.numbers.items()}
    write = numbers.get("usd.cache_write", numbers["usd.input"] * Fraction(5, 4))
    prompt = fresh * numbers["usd.input"] + cached * numbers["usd.cached_input"] + written * write
    answer = (visible + thought) * numbers["usd.output"]
    if fresh + cached + written > 272_000:
        prompt, answer = prompt * 2, answer * Fraction(3, 2)
    times = {"default": Fraction(1)}.get(tier) or numbers[f"tiers.{tier}.usd"]
    found = bill(CARDS[model], usage, tier, CUT).usd
    assert found is not None
    assert Fraction(found) == (prompt + answer) * times / 1_000_000
    assert set(token_counts(usage)) == set(KINDS)


def test_a_sum_with_something_unknown_is_unknown() -> None:
    assert add_up([Decimal("0.1"), Decimal("0.2")]) == Decimal("0.3")
    assert add_up([]) == 0
    assert add_up([Decimal(1), None]) is None
