"""The search for the highest load, on functions and on a queue with a known answer."""

from __future__ import annotations

import math

import pytest

from paceline.simulation.arrivals import Drawn
from paceline.simulation.capacity import Probe, find_capacity
from paceline.simulation.lengths import Length
from paceline.simulation.run import run_open
from paceline.simulation.slo import Slo
from paceline.simulation.statistics import summarise
from tests.simulation.hand import profile


@pytest.mark.parametrize("edge", [1, 2, 3, 7, 8, 1324, 65_535])
@pytest.mark.parametrize("start", [1, 5, 4096])
def test_whole_loads_are_found_exactly(edge: int, start: int) -> None:
    found = find_capacity(lambda n: Probe(n, {}, n <= edge), start=start, whole=True, most=1e6)
    assert (found.load, found.bounded) == (edge, True)
    assert len(found.probes) < 45


@pytest.mark.parametrize("edge", [0.003, 0.9, 1.0, 47.3, 9e5])
def test_others_are_found_to_a_hundredth(edge: float) -> None:
    found = find_capacity(lambda x: Probe(x, {}, x <= edge))
    assert found.load is not None
    assert 0.989 * edge <= found.load <= edge
    assert found.bounded


def test_no_load_holds() -> None:
    assert find_capacity(lambda x: Probe(x, {}, False)).load is None
    found = find_capacity(lambda x: Probe(x, {}, False), start=9, whole=True)
    assert (found.load, found.bounded) == (None, False)
    assert [probe.load for probe in found.probes] == [9, 4, 2, 1]


def test_a_search_that_ends_at_its_most_says_so() -> None:
    found = find_capacity(lambda x: Probe(x, {}, True), most=100)
    assert (found.load, found.bounded) == (100, False)


def wait_in_time(rate: float, service: float, wait: float) -> float:
    """The share of the customers of an M/D/1 queue who wait `wait` at most (Erlang, 1909)."""
    terms = 0.0
    for k in range(int(wait / service) + 1):
        x = rate * (k * service - wait)
        terms += x**k / math.factorial(k) * math.exp(-x)
    return (1 - rate * service) * terms


def test_one_slot_is_a_queue_of_known_capacity() -> None:
    """One slot and ten steps of 10 ms a request: M/D/1 with a service of 100 ms.

    90 % of its TTFTs are within 310 ms, wait and first step, up to the rate at which 90 % wait
    300 ms at most.
    """
    low, high = 0.1, 9.99
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if wait_in_time(middle, 0.1, 0.3) >= 0.9 else (low, middle)

    sizes = Length("fixed", 1, 1), Length("fixed", 10, 10)
    slo = Slo({"ttft": 310.0}, 90.0)

    def measure(rate: float) -> Probe:
        run = run_open(profile(max_num_seqs=1), Drawn(*sizes, 20_000, rate=rate))
        ttft = summarise(run, slo).stated("ttft")
        return Probe(rate, {"ttft": ttft}, ttft <= 310.0)

    found = find_capacity(measure, start=5.0)
    assert found.bounded
    assert found.load == pytest.approx(low, rel=0.03)


def test_the_queue_waits_as_long_as_theory_says() -> None:
    """The mean wait of M/D/1 is ρ D / 2 (1 - ρ): 100 ms at ρ = 2/3."""
    sizes = Length("fixed", 1, 1), Length("fixed", 10, 10)
    run = run_open(profile(max_num_seqs=1), Drawn(*sizes, 40_000, rate=20 / 3))
    queue = summarise(run, Slo()).queue
    assert queue is not None
    assert queue.mean == pytest.approx(100.0, rel=0.03)
    within = sum(a - e <= 3e8 for a, e in zip(run.admitted, run.engine, strict=True)) / len(run)
    assert within == pytest.approx(wait_in_time(20 / 3, 0.1, 0.3), abs=0.01)
