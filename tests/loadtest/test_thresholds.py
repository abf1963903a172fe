from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_loadtest.model import Call, Loop, LoopRun, Turn, TurnRun
from paceline_loadtest.statistics import Slo, Statistics, statistics
from paceline_loadtest.thresholds import (
    NAMES,
    Threshold,
    ThresholdError,
    Verdict,
    evaluate,
    parse_threshold,
)

LOOP = Loop("a", 0, 0, 0, (Turn(1, 0, 1),))


def measured(*, errors: int = 1, good: int = 9) -> Statistics:
    """Nine calls with TTFTs from 1 to 9 seconds, ten tokens a second, and one that failed."""
    calls = [
        Call(0.0, 0.0, 0.0, first_at=i, first_visible_at=i, last_at=i + 1, end_at=i + 1,
             output_tokens=11)
        for i in range(1, good + 1)
    ]  # fmt: skip
    calls += [Call(0.0, error="HTTP 500", end_at=1.0)] * errors
    run = LoopRun(LOOP, 0.0, [TurnRun(0.0, call) for call in calls], 12.0)
    return statistics([run], Slo(ttft_s=5.0))


@pytest.mark.parametrize(
    ("text", "value", "outcome"),
    [
        ("ttft_p50>5", 5.0, "passed"),
        ("ttft_p50>=5", 5.0, "failed"),
        ("ttft_p50<5", 5.0, "passed"),
        ("ttft_p50<=5", 5.0, "failed"),
        ("ttft_max>8.9", 9.0, "failed"),
        ("ttft_mean>5.1", 5.0, "passed"),
        ("ttft_p100>8.9", 9.0, "failed"),
        ("ttft_p0>1", 1.0, "passed"),
        ("ttft_p12.5>1", 2.0, "failed"),
        ("tpot_p50>=0.1", 0.1, "failed"),
        ("e2e_p50 > 7", 6.0, "passed"),
        ("error_rate>0.01", 0.1, "failed"),
        ("error_rate>0.1", 0.1, "passed"),
        ("errors>0", 1.0, "failed"),
        ("task_p50>11", 12.0, "failed"),
        ("loops_stopped>0", 0.0, "passed"),
        ("slot_wait_p99>0", 0.0, "passed"),
        ("lateness_max>0.001", 0.0, "passed"),
        ("good_share<0.6", 0.5, "failed"),
        ("goodput<1", 0.5, "failed"),
        ("throughput<1e3", 99 / 12, "failed"),
        ("itl_p99>1", None, "unknown"),
    ],
)
def test_a_threshold_is_held_against_what_it_names(
    text: str, value: float | None, outcome: str
) -> None:
    (verdict,) = evaluate([parse_threshold(text)], measured())
    if value is None:
        assert verdict.value is None
    else:
        assert verdict.value == pytest.approx(value)
    assert verdict.outcome == outcome
    assert verdict.failed == (outcome != "passed")


def test_what_was_not_measured_was_not_kept() -> None:
    # Otherwise a run in which everything fails would keep any limit on its latencies.
    (verdict,) = evaluate([parse_threshold("ttft_p99>2")], measured(errors=5, good=0))
    assert verdict.failed
    assert str(verdict) == "ttft_p99>2: nothing was measured"


@pytest.mark.parametrize("text", ["error_rate>0", "errors>0", "loops_stopped>0"])
def test_of_no_calls_at_all_nothing_is_known(text: str) -> None:
    (verdict,) = evaluate([parse_threshold(text)], statistics([]))
    assert verdict.outcome == "unknown"


def test_a_verdict_says_its_value() -> None:
    verdict = Verdict(parse_threshold("ttft_p99 >= 2.50"), 3.25)
    assert str(verdict) == "ttft_p99>=2.5: 3.25"


@pytest.mark.parametrize("text", ["", "ttft_p99", "ttft_p99=2", "ttft_p99>", ">2", "ttft p99>2"])
def test_what_has_no_form_is_refused(text: str) -> None:
    with pytest.raises(ThresholdError, match=r"is no threshold: .* in quotes"):
        parse_threshold(text)


@pytest.mark.parametrize(
    "text", ["ttft>2", "ttft_p101>2", "ttlt_p99>2", "error_rate_p99>1", "_p9>1"]
)
def test_an_unknown_name_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ThresholdError, match="there is no") as caught:
        parse_threshold(text)
    assert NAMES in str(caught.value)


@pytest.mark.parametrize("text", ["ttft_p99>two", "ttft_p99>nan", "ttft_p99>inf", "ttft_p99>1s"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ThresholdError, match="is no number"):
        parse_threshold(text)


def test_every_name_that_is_listed_can_be_used() -> None:
    for name in NAMES.split(", "):
        assert parse_threshold(f"{name}>1").name == name


@given(st.floats(-1e6, 1e6), st.sampled_from(["error_rate", "ttft_p99.9", "tpot_mean"]))
def test_a_threshold_reads_back_what_it_writes(limit: float, name: str) -> None:
    threshold = parse_threshold(f"{name}<={limit!r}")
    again = parse_threshold(str(threshold))
    assert (again.name, again.comparison) == (name, "<=")
    assert again.limit == pytest.approx(limit, rel=1e-11)


def test_order_is_kept() -> None:
    thresholds = [Threshold("errors", ">", 0.0), Threshold("ttft_p50", ">", 1.0)]
    assert [verdict.threshold for verdict in evaluate(thresholds, measured())] == thresholds
