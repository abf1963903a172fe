from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.core.ledger import Amount
from paceline.core.money import UNPRICED, PriceList, Prices, digits, to_pico
from paceline.core.pricing import bill, plain
from paceline.core.rates import TIERS, RateCard, RateError, Tier, parse_rate_card
from paceline.core.usage import Usage
from paceline.runtime.rate_files import load_rates, shipped_rates_folder

CARDS = load_rates([shipped_rates_folder()]).cards
DAYS = sorted({"2026-01-01", "2026-08-20", "2026-08-21", "2030-12-31"})
TOKENS = st.one_of(
    st.integers(0, 400_000), st.sampled_from([0, 1, 272_000, 272_001, 10**9, 10**12])
)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    cached, written, fresh = draw(TOKENS), draw(TOKENS), draw(TOKENS)
    output = draw(TOKENS)
    return Usage(
        prompt_tokens=cached + written + fresh,
        completion_tokens=output,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=draw(st.integers(0, output)),
    )


def pico(amount: Decimal | None) -> int | None:
    return None if amount is None else to_pico(amount)


@settings(max_examples=500)
@given(st.sampled_from(sorted(CARDS)), st.sampled_from(TIERS), st.sampled_from(DAYS), usages())
def test_a_cost_is_the_bill(model: str, tier: Tier, day: str, usage: Usage) -> None:
    exact = bill(CARDS[model], usage, tier, day)
    assert Prices.of(CARDS[model], tier, day).cost(usage) == Amount(
        pico(exact.usd), pico(exact.credits)
    )


@given(
    st.sampled_from(sorted(CARDS)),
    st.sampled_from(TIERS),
    usages(),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
def test_no_cost_is_above_the_most(
    model: str, tier: Tier, usage: Usage, more_prompt: int, more_output: int
) -> None:
    prices = PriceList(CARDS[model]).on(tier, "2026-09-01")
    cost = prices.cost(usage)
    most = prices.most(usage.prompt_tokens + more_prompt, usage.completion_tokens + more_output)
    for one, bound in ((cost.usd, most.usd), (cost.credits, most.credits)):
        assert one is None or (bound is not None and one <= bound)


def made(**numbers: Any) -> RateCard:
    source = {"class": "estimate", "from": "a test"}
    sources = dict.fromkeys(numbers, source)
    return parse_rate_card({"model": "m", "title": "M", "cards": [{**numbers, "sources": sources}]})


def test_the_most_of_a_card_by_hand() -> None:
    prices = Prices.of(CARDS["gpt-5.6-sol"], "fast", "2026-09-01")
    # 1,000 at the price of writing to the cache, 5 a million, and 10 at 20; fast doubles it.
    assert prices.most(1_000, 10).usd == to_pico(Decimal("0.0104"))
    # Credits: written tokens count as input, 100 a million, and 10 at 500; fast is 2.5 times.
    assert prices.most(1_000, 10).credits == to_pico(Decimal("0.2625"))
    # One token above 272,000: twice the input, 1.5 times the output.
    assert prices.most(272_001, 10).usd == to_pico(Decimal("5.44062"))


def test_a_long_prompt_that_is_cheaper_does_not_lower_the_most() -> None:
    card = made(
        usd={"input": 4, "output": 8},
        long_context={
            "above_input_tokens": 100,
            "input": Decimal("0.5"),
            "output": Decimal("0.5"),
        },
    )
    prices = Prices.of(card, "default", "2026-01-01")
    assert prices.most(101, 1).usd == 101 * 4_000_000 + 8_000_000
    assert prices.cost(Usage(101, 1)).usd == 101 * 2_000_000 + 4_000_000


def test_a_price_of_less_than_a_pico_is_refused_by_its_key() -> None:
    card = made(usd={"input": Decimal("0.0000001"), "output": 1})
    with pytest.raises(RateError, match=r"usd\.input: a token's price") as caught:
        Prices.of(card, "default", "2026-01-01")
    assert caught.value.key == "usd.input"
    with pytest.raises(RateError):
        PriceList(card)


def test_what_makes_the_fraction_is_named() -> None:
    card = made(
        usd={"input": Decimal("0.000001"), "output": 1}, tiers={"flex": {"usd": Decimal("0.5")}}
    )
    assert Prices.of(card, "default", "2026-01-01").cost(Usage(3, 0)).usd == 3
    with pytest.raises(RateError, match=r"usd\.input x tiers\.flex\.usd"):
        PriceList(card)


def test_what_nobody_sells_has_no_price() -> None:
    spark = Prices.of(CARDS["gpt-5.3-codex-spark"], "default", "2026-09-01")
    assert spark.cost(Usage(10, 10)) == spark.most(10, 10) == Amount(None, None)
    assert UNPRICED.cost(Usage(1, 1)) == Amount(None, None)
    fable = Prices.of(CARDS["claude-fable-5"], "default", "2026-09-01")
    assert fable.cost(Usage(10, 1, cached_tokens=1)) == Amount(None, None)
    assert fable.cost(Usage(10, 1)) == Amount(150_000_000, None)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(1, 0, cached_tokens=2),
        Usage(0, 1, reasoning_tokens=2),
        Usage(5, 0, cache_write_tokens=-1),
        Usage(5, 0, cached_tokens=-1),
        Usage(-1, 0),
        Usage(0, -1),
        Usage(0, 1, reasoning_tokens=-1),
    ],
)
def test_counts_that_cannot_be(usage: Usage) -> None:
    with pytest.raises(ValueError, match="can't be"):
        Prices.of(CARDS["gpt-5.6-sol"], "default", "2026-09-01").cost(usage)


def test_no_tier_and_no_day() -> None:
    card = CARDS["gpt-5.6-sol"]
    with pytest.raises(ValueError, match="is no tier"):
        Prices.of(card, "warp", "2026-09-01")  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(ValueError, match="is no day"):
        Prices.of(card, "default", "today")


def test_a_list_forgets_old_days_and_goes_on() -> None:
    prices = PriceList(CARDS["gpt-5.6-sol"])
    launch = prices.on("default", "2026-08-20")
    assert prices.on("default", "2026-08-20") is launch
    for day in range(1, 29):
        for tier in TIERS:
            assert prices.on(tier, f"2026-02-{day:02}").cost(Usage(1, 0)).usd is not None
    assert prices.on("default", "2026-08-20") == launch


@given(st.decimals(0, 10**9, places=12))
def test_digits_are_exact(amount: Decimal) -> None:
    assert digits(to_pico(amount)) == plain(amount)


def test_a_fraction_of_a_pico_is_no_amount() -> None:
    assert digits(-1) == "-0.000000000001"
    for amount in (Decimal("1e-13"), Decimal("NaN"), Decimal("Infinity")):
        with pytest.raises(ValueError, match="has more than 12 digits"):
            to_pico(amount)
