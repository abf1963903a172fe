"""What a loop and a trace take, by profiles whose times can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from paceline.core.profile import Engine, Limits, PrefixCache, Profile
from paceline.core.rates import Offer, RateCard, Rates
from paceline.core.sources import Source
from paceline.core.usage import Usage
from paceline.simulation.arrivals import Trace, TraceWorkload
from paceline.simulation.bills import make_line
from paceline.simulation.lengths import WorkloadError
from paceline.simulation.spending import AgentLoop, Spending, spend_trace
from paceline.simulation.traces import load_trace

# 10 ms a step, 1 ms a prompt token, and a cache that knows 16 tokens and more by blocks of 16.
PROFILE = Profile(
    name="tiny",
    title="Tiny",
    engine=Engine(step_ms=10.0, step_ms_per_prefill_token=1.0),
    prefix_cache=PrefixCache(min_tokens=16, block_tokens=16),
)
MS = 1_000_000


def test_a_loop_by_hand() -> None:
    loop = AgentLoop(turns=3, input=40, grow=20, output=4, reasoning=2, tool_s=1.0)
    spent = loop.run(PROFILE)
    # 40 tokens have 2 whole blocks, 60 have 3 and 80 have 5; a hit is what the turn before wrote.
    assert spent.usages == (
        Usage(40, 6, cached_tokens=0, cache_write_tokens=32, reasoning_tokens=2),
        Usage(60, 6, cached_tokens=32, cache_write_tokens=16, reasoning_tokens=2),
        Usage(80, 6, cached_tokens=48, cache_write_tokens=32, reasoning_tokens=2),
    )
    # Each turn: 10 ms and its uncached tokens to the first token, five more steps for the rest.
    assert spent.waited_ns == (10 + 40 + 50) * MS + (10 + 28 + 50) * MS + (10 + 32 + 50) * MS
    assert spent.tools_ns == 2_000 * MS
    assert spent.total_ns == spent.waited_ns + spent.tools_ns
    assert spent.refused == 0


def test_a_loop_without_the_cache() -> None:
    spent = AgentLoop(2, 40, 20, 4, 2, 0.0, cache=False).run(PROFILE)
    assert spent.usages == (Usage(40, 6, reasoning_tokens=2), Usage(60, 6, reasoning_tokens=2))
    assert spent.waited_ns == (10 + 40 + 50) * MS + (10 + 60 + 50) * MS


def test_a_loop_ends_before_the_turn_that_does_not_fit() -> None:
    small = replace(PROFILE, limits=Limits(context_tokens=70, max_output_tokens=10))
    loop = AgentLoop(turns=5, input=40, grow=20, output=4, reasoning=2, tool_s=1.0)
    spent = loop.run(small)
    assert (len(spent.usages), spent.refused, spent.tools_ns) == (2, 3, 1_000 * MS)
    none = AgentLoop(turns=5, input=40, output=11, reasoning=0).run(small)
    assert (none.usages, none.refused, none.total_ns) == ((), 5, 0)


@pytest.mark.parametrize(
    ("loop", "complaint"),
    [
        ({"turns": 0}, "turns"),
        ({"input": 0}, "input"),
        ({"grow": -1}, "grow"),
        ({"output": 0, "reasoning": 0}, "at least one"),
        ({"tool_s": -1.0}, "seconds"),
        ({"tool_s": float("nan")}, "seconds"),
    ],
)
def test_loops_that_cannot_be(loop: dict[str, Any], complaint: str) -> None:
    with pytest.raises(WorkloadError, match=complaint):
        AgentLoop(**loop)


def test_a_trace_without_blocks_writes_nothing() -> None:
    trace = Trace()
    trace.add(0, 40, 6)
    trace.add(5_000 * MS, 60, 1)
    spent = spend_trace(PROFILE, TraceWorkload(trace, "t"))
    assert spent.usages == (Usage(40, 6), Usage(60, 1))
    assert spent.waited_ns == (10 + 40 + 50) * MS + (10 + 60) * MS


def test_a_trace_with_blocks_reads_what_it_wrote(tmp_path: Path) -> None:
    line = '{"at_s": %d, "prompt_tokens": %d, "output_tokens": 1, "blocks": %s, "block_tokens": 16}'
    file = tmp_path / "t.jsonl"
    file.write_text(f"{line % (0, 40, [1, 2])}\n{line % (9, 60, [1, 2, 3])}\n", "utf-8")
    spent = spend_trace(PROFILE, TraceWorkload(load_trace(file)[0], "t"))
    assert spent.usages == (
        Usage(40, 1, cache_write_tokens=32),
        Usage(60, 1, cached_tokens=32, cache_write_tokens=16),
    )


def card(**numbers: str) -> RateCard:
    found = {key.replace("__", "."): Decimal(value) for key, value in numbers.items()}
    source = Source("official", "made up")
    return RateCard("m", "M", (Rates(None, found, dict.fromkeys(found, source)),))


CARD = card(
    usd__input="2",
    usd__output="10",
    credits__input="50",
    credits__output="250",
    credits__per_usd="25",
    tiers__fast__usd="2",
    tiers__fast__credits="2.5",
)
DAY = "2026-08-21"


def spending(total_ms: int, *usages: Usage, refused: int = 0) -> Spending:
    return Spending(PROFILE, usages or (Usage(1_000, 100),), total_ms * MS, 0, refused)


def test_the_price_of_a_second_by_hand() -> None:
    # 1,000 x 2 + 100 x 10 = 3,000 and 1,000 x 50 + 100 x 250 = 75,000 millionths.
    first = make_line(spending(3_000), CARD, Offer("default", None), DAY)
    assert (first.usd.total, first.credits.total) == (Decimal("0.003"), Decimal("0.075"))
    api = make_line(spending(1_000), CARD, Offer("fast", "usd"), DAY)
    assert (api.usd.total, api.credits.total, api.credits.missing) == (Decimal("0.006"), None, ())
    # 0.003 dollars more, for 2 seconds.
    assert api.per_second_saved(first, "usd") == Decimal("0.0015")
    assert api.per_second_saved(first, "credits") is None
    codex = make_line(spending(2_000), CARD, Offer("fast", "credits"), DAY)
    # 75,000 x 2.5 = 187,500; at 25 a dollar 7,500.
    assert codex.credits.total == Decimal("0.1875")
    assert (codex.usd.total, codex.usd.from_credits) == (Decimal("0.0075"), True)
    # 0.1125 credits more, for one second; 0.0045 dollars' worth.
    assert codex.per_second_saved(first, "credits") == Decimal("0.1125")
    assert codex.per_second_saved(first, "usd") == Decimal("0.0045")


def test_a_second_has_no_price_where_none_is_saved_or_the_work_is_another() -> None:
    offer = Offer("default", None)
    first = make_line(spending(1_000), CARD, offer, DAY)
    assert make_line(spending(1_000), CARD, offer, DAY).per_second_saved(first, "usd") is None
    less = make_line(spending(500, refused=1), CARD, offer, DAY)
    assert less.per_second_saved(first, "usd") is None
    unknown = make_line(spending(500), None, offer, DAY)
    assert (unknown.usd.total, unknown.usd.missing) == (None, ("usd",))
    assert unknown.per_second_saved(first, "usd") is None
    assert unknown.per_second_class(first, "usd") is None


def test_nothing_served_costs_nothing_that_is_known() -> None:
    nothing = Spending(PROFILE, (), 0, 0, refused=2)
    line = make_line(nothing, CARD, Offer("default", None), DAY)
    assert (line.usd.total, line.usd.missing, line.tokens) == (None, (), {})


def test_credits_without_a_worth_have_no_dollars() -> None:
    bare = card(credits__input="50", credits__output="250")
    line = make_line(spending(1_000), bare, Offer("default", "credits"), DAY)
    assert line.credits.total == Decimal("0.075")
    assert (line.usd.total, line.usd.missing) == (None, ("credits.per_usd",))


def test_time_is_as_certain_as_the_least_certain_number_that_makes_it() -> None:
    sources = {
        "engine.step_ms": Source("measured", "x"),
        "engine.replicas": Source("hypothesis", "one user uses one"),
    }
    known = replace(PROFILE, sources=sources)
    assert Spending(known, (), 0).certainty == "measured"
    assert Spending(known, (), 0, alone=False).certainty == "hypothesis"
    guess = replace(known, sources={**sources, "overhead.api_ms_p50": Source("estimate", "x")})
    assert Spending(guess, (), 0).certainty == "estimate"
    assert Spending(PROFILE, (), 0).certainty == "hypothesis"
