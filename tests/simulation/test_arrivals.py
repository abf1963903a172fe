"""Drawn arrivals and traces at work: gaps, lengths, order, repetition, prompt blocks."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any

import pytest

from paceline.core.profile import Profile
from paceline.simulation.arrivals import Drawn, Job, Trace, TraceWorkload
from paceline.simulation.lengths import Length, WorkloadError
from tests.simulation.hand import profile

TEN = Length("fixed", 10, 10)


def drawn(**options: Any) -> list[Job]:
    return list(Drawn(TEN, TEN, **options).jobs(profile()))


@pytest.mark.parametrize(("burstiness", "variation"), [(1.0, 1.0), (0.25, 2.0), (4.0, 0.5)])
def test_gaps_are_gamma_with_the_mean_of_the_rate(burstiness: float, variation: float) -> None:
    """A gamma distribution of shape k has a standard deviation of mean / sqrt(k)."""
    at = [job[0] for job in drawn(requests=40_000, rate=50.0, burstiness=burstiness)]
    gaps = [b - a for a, b in pairwise([0, *at])]
    assert fmean(gaps) == pytest.approx(1e9 / 50, rel=0.03)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(variation, rel=0.03)


def test_arrivals_hang_on_the_seed_alone() -> None:
    assert drawn(requests=50, rate=2.0, seed=1) == drawn(requests=50, rate=2.0, seed=1)
    assert drawn(requests=50, rate=2.0, seed=1) != drawn(requests=50, rate=2.0, seed=2)


def test_another_rate_stretches_the_same_requests() -> None:
    """Runs of a search differ in their load and in nothing else."""
    sizes = Length("lognormal", 100, 300)
    slow, fast = (list(Drawn(sizes, sizes, 200, rate=rate).jobs(profile())) for rate in (1.0, 4.0))
    assert [job[1:] for job in slow] == [job[1:] for job in fast]
    assert [job[0] / 4 for job in slow] == pytest.approx([job[0] for job in fast], abs=1)


def test_without_a_rate_there_are_no_gaps() -> None:
    assert {job[0] for job in drawn(requests=5)} == {0}


def test_reasoning_is_the_profiles_own() -> None:
    jobs = Drawn(TEN, TEN, 1, reasoning_effort="high").jobs(profile())
    assert next(jobs)[2] == 10 + profile().reasoning.high


@pytest.mark.parametrize(
    "options",
    [{"requests": 0}, {"rate": 0.0}, {"rate": -1.0}, {"rate": float("nan")}, {"burstiness": 0.0}],
)
def test_impossible_processes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(WorkloadError):
        Drawn(TEN, TEN, **{"requests": 1, "rate": 1.0, **options})


def trace(block_tokens: int = 0) -> Trace:
    return Trace(block_tokens)


def test_a_trace_starts_at_0_and_runs_as_fast_as_asked() -> None:
    found = trace()
    for at_s, prompt, output in ((100, 5, 6), (101, 7, 8), (104, 9, 0)):
        found.add(at_s * 10**9, prompt, output)
    assert list(found.jobs(128)) == [(0, 5, 6, ()), (10**9, 7, 8, ()), (4 * 10**9, 9, 1, ())]
    assert [job[0] for job in found.jobs(128, speedup=4.0)] == [0, 250_000_000, 10**9]


def test_a_repetition_begins_a_mean_gap_after_the_end() -> None:
    found = trace()
    for at_s in (100, 101, 104):
        found.add(at_s * 10**9, 5, 6)
    at = [job[0] / 1e9 for job in found.jobs(128, repeat=3, limit=7)]
    assert at == [0, 1, 4, 6, 7, 10, 12]


def test_a_trace_is_put_in_order_and_ties_stay() -> None:
    found = trace(512)
    for at, prompt in ((3, 30), (1, 10), (3, 31), (2, 20)):
        found.add(at, prompt, 1, (prompt,))
    ordered = found.in_order()
    assert [job[1] for job in ordered.jobs(8)] == [10, 20, 30, 31]
    assert ordered.in_order() is ordered


def blocks(found: Trace, size: int, **options: Any) -> list[tuple[int, ...]]:
    return [job[3] for job in found.jobs(size, **options)]


@pytest.mark.parametrize("size", [1, 16, 100, 128, 300, 512, 700, 1024, 4096])
def test_blocks_of_any_size_share_what_the_trace_shares(size: int) -> None:
    """Two prompts of 2,000 and 2,300 tokens with their first 1,024 in common."""
    found = trace(512)
    found.add(0, 2000, 1, (7, 8, 9, 10))
    found.add(1, 2300, 1, (7, 8, 19, 20, 21))
    one, other = blocks(found, size)
    assert (len(one), len(other)) == (2000 // size, 2300 // size)
    assert len(set(one)) == len(one)
    shared = 1024 // size
    assert one[:shared] == other[:shared]
    assert not set(one[shared:]) & set(other)


def test_the_last_id_covers_what_is_left_of_a_prompt() -> None:
    """600 tokens are an id of 512 and one of 88: four whole blocks of 128, the last in both."""
    found = trace(512)
    found.add(0, 600, 1, (1, 2))
    found.add(1, 700, 1, (1, 2))
    one, other = blocks(found, 128)
    assert len(one) == 4
    assert len(other) == 5
    assert other[:4] == one


def test_a_repetition_brings_new_prompts() -> None:
    found = trace(512)
    found.add(0, 1024, 1, (1, 2))
    found.add(1, 1024, 1, (1, 2))
    one, two, three, four = blocks(found, 128, repeat=2)
    assert one == two
    assert three == four
    assert not set(one) & set(three)


def test_a_trace_is_made_for_the_profiles_block_size() -> None:
    found = trace(512)
    found.add(0, 1024, 1, (1, 2))
    work = TraceWorkload(found, "a", limit=1)
    asked: Profile = profile()
    assert [len(job[3]) for job in work.jobs(asked)] == [1024 // asked.prefix_cache.block_tokens]
