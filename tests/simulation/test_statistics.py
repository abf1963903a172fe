"""Figures of a run, worked out by hand, and what an SLO and prices make of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.profile import Limits, PrefixCache, Profile
from paceline.core.sequence import Sequence
from paceline.simulation.arrivals import Drawn, Job
from paceline.simulation.lengths import Length, WorkloadError
from paceline.simulation.prices import Prices, parse_prices
from paceline.simulation.run import run_closed, run_open
from paceline.simulation.slo import Slo, parse_slo
from paceline.simulation.statistics import most_at_once, summarise
from tests.simulation.hand import profile

MS = 1_000_000


class Listed:
    """Requests as they are listed."""

    def __init__(self, *jobs: Job) -> None:
        self._jobs = jobs

    def jobs(self, profile: Profile) -> Iterator[Job]:
        return iter(self._jobs)

    def describe(self) -> dict[str, Any]:
        return {"kind": "listed"}


def two_in_one_slot() -> Listed:
    """Of 4 and 2 tokens at 0 and 10 ms; the second waits for the first's slot."""
    return Listed((0, 5, 4, ()), (10 * MS, 5, 2, ()))


def test_two_requests_in_one_slot() -> None:
    """The first's tokens come at 10, 20, 30 and 40 ms, the second's at 50 and 60."""
    run = run_open(profile(max_num_seqs=1), two_in_one_slot())
    found = summarise(run, parse_slo("ttft:20,tpot:10"))
    assert (found.requests, found.duration_s, found.output_tokens) == (2, 0.06, 6)
    assert found.ttft is not None
    assert found.tpot is not None
    assert found.e2e is not None
    assert found.queue is not None
    assert (found.ttft.mean, found.ttft.p50, found.ttft.max) == (25.0, 25.0, 40.0)
    assert found.ttft.p99 == pytest.approx(10 + 30 * 0.99)
    assert (found.tpot.mean, found.tpot.max) == (10.0, 10.0)
    assert found.e2e.mean == 45.0
    assert (found.queue.mean, found.queue.max) == (15.0, 30.0)
    assert (found.overhead_ms, found.prefill_ms, found.decode_ms) == (0.0, 10.0, 20.0)
    assert found.output_tok_s == pytest.approx(100.0)
    assert found.requests_s == pytest.approx(2 / 0.06)
    assert (found.peak_running, found.peak_waiting) == (1, 1)
    assert found.mean_running == pytest.approx(1.0)
    assert found.slot_use == pytest.approx(1.0)
    assert (found.good, found.good_share) == (1, 0.5)


def test_users_ask_again_after_their_answer() -> None:
    """Two users of two requests each, who think for 5 ms; every answer is 2 tokens of 10 ms.

    The first user's step has begun when the second comes, who joins at 10 ms. Asked again at 25
    and 35 ms, they join at 30 and 40.
    """
    sizes = Length("fixed", 2, 2)
    run = run_closed(profile(), Drawn(sizes, sizes, 4), 2, think_s=0.005)
    assert list(run.received) == [0, 0, 25 * MS, 35 * MS]
    assert list(run.admitted) == [0, 10 * MS, 30 * MS, 40 * MS]
    assert list(run.end) == [20 * MS, 30 * MS, 50 * MS, 60 * MS]


def test_first_requests_of_users_are_spread() -> None:
    sizes = Length("fixed", 1, 1)
    run = run_closed(profile(), Drawn(sizes, sizes, 4), 4, ramp_s=1.0)
    assert list(run.received) == [0, 250 * MS, 500 * MS, 750 * MS]


def test_warmup_runs_and_does_not_count() -> None:
    run = run_open(profile(max_num_seqs=1), two_in_one_slot(), warmup=1)
    assert list(run.received) == [10 * MS]
    assert list(run.admitted) == [40 * MS]


def test_what_the_limits_refuse_takes_no_time() -> None:
    small = Profile(
        name="small",
        title="",
        engine=profile().engine,
        limits=Limits(context_tokens=10, max_output_tokens=4),
    )
    jobs = Listed((0, 7, 4, ()), (1, 6, 4, ()), (2, 1, 5, ()))
    run = run_open(small, jobs)
    assert (run.refused, list(run.prompt)) == (2, [6])


def test_a_run_of_nothing_has_no_distributions() -> None:
    found = summarise(run_open(profile(), Listed()), parse_slo("ttft:1"))
    assert (found.requests, found.ttft, found.duration_s, found.peak_running) == (0, None, 0.0, 0)
    assert (found.output_tok_s, found.good_share, found.cached_share) == (0.0, 0.0, 0.0)


def test_one_token_has_no_tpot_to_break() -> None:
    run = run_open(profile(), Listed((0, 5, 1, ()), (100 * MS, 5, 2, ())))
    found = summarise(run, parse_slo("tpot:5"))
    assert found.tpot is not None
    assert found.tpot.count == 1
    assert found.good == 1


def test_the_second_of_two_like_prompts_is_cached_on_any_replica() -> None:
    """The replicas of a deployment share its prompt cache."""
    cached = PrefixCache(min_tokens=0, block_tokens=4)
    shared = Profile(name="two", title="", engine=profile(replicas=2).engine, prefix_cache=cached)
    blocks = (1, 2)
    # The first still runs when the second comes, which so goes to the other replica.
    run = run_open(shared, Listed((0, 8, 9, blocks), (50 * MS, 9, 2, blocks)))
    assert sorted(run.cached) == [0, 8]
    assert summarise(run, Slo()).cached_share == pytest.approx(8 / 17)


def test_a_run_keeps_no_sequence() -> None:
    sizes = Length("fixed", 3, 3)
    # Other tests' sequences may still be about.
    gc.collect()
    before = sum(type(o) is Sequence for o in gc.get_objects())
    run = run_open(profile(), Drawn(sizes, sizes, 500, rate=100.0))
    assert len(run) == 500
    assert sum(type(o) is Sequence for o in gc.get_objects()) <= before
    assert gc.isenabled()


def test_the_collector_is_on_again_after_a_failure() -> None:
    def broken() -> Iterator[Job]:
        yield (0, 1, 1, ())
        raise RuntimeError("no more")

    class Broken(Listed):
        def jobs(self, profile: Profile) -> Iterator[Job]:
            return broken()

    with pytest.raises(RuntimeError, match="no more"):
        run_open(profile(), Broken())
    assert gc.isenabled()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=30))
def test_most_at_once_is_what_counting_finds(spans: list[tuple[int, int]]) -> None:
    starts, ends = [s for s, _ in spans], [s + d for s, d in spans]
    counted = max(
        (sum(s <= at < e for s, e in zip(starts, ends, strict=True)) for at in starts), default=0
    )
    assert most_at_once(sorted(starts), sorted(ends)) == counted


def test_an_slo_is_read() -> None:
    assert parse_slo("ttft:2000, tpot:50,e2e:1e4").limits == {
        "ttft": 2000.0,
        "tpot": 50.0,
        "e2e": 10_000.0,
    }
    assert parse_slo(None).limits == {}


@pytest.mark.parametrize("text", ["ttft", "ttft:", "ttft:0", "ttft:-1", "itl:5", "ttft:1,ttft:2"])
def test_an_slo_that_makes_no_sense(text: str) -> None:
    with pytest.raises(WorkloadError, match="an SLO is"):
        parse_slo(text)
    with pytest.raises(WorkloadError, match="percentile"):
        parse_slo("ttft:1", 0.0)


def test_cost_is_exact() -> None:
    prices = parse_prices("input:4,cached:0.4,output:20")
    assert prices.cost(3, 1, 1) == Decimal("0.0000284")
    assert parse_prices("output:20,input:.1") == Prices(Decimal(".1"), Decimal(".1"), Decimal(20))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "input:4",
        "input:4,output:x",
        "input:-1,output:1",
        "input:nan,output:1",
        "input:4,output:1,output:2",
        "input:4,output:1,write:3",
    ],
)
def test_prices_that_make_no_sense(text: str) -> None:
    with pytest.raises(WorkloadError, match="price"):
        parse_prices(text)


def test_percentiles_rise() -> None:
    sizes = Length("lognormal", 9, 30)
    run = run_open(profile(max_num_seqs=2), Drawn(sizes, sizes, 400, rate=9.0))
    found = summarise(run, Slo()).ttft
    assert found is not None
    assert all(a <= b for a, b in pairwise((found.p50, found.p90, found.p99, found.max)))
