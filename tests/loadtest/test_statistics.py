from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_loadtest.model import Call, Loop, LoopRun, ToolSpan, Turn, TurnRun
from paceline_loadtest.statistics import (
    NEVER_ENDED,
    Slo,
    Spread,
    calls_of,
    e2e,
    gaps,
    lateness,
    slot_wait,
    statistics,
    steady_part,
    tpot,
    ttft,
)

LOOP = Loop("a", 0, 0, 0, (Turn(1, 0, 1),))


def call(
    scheduled: float = 0.0,
    first: float = 1.0,
    last: float = 3.0,
    *,
    tokens: int | None = 11,
    slot: float | None = None,
    sent: float | None = None,
) -> Call:
    """A call that went well."""
    return Call(
        scheduled_at=scheduled,
        slot_at=scheduled if slot is None else slot,
        sent_at=scheduled if sent is None else sent,
        first_at=first,
        first_visible_at=first,
        last_at=last,
        end_at=last + 0.5,
        status=200,
        output_tokens=tokens,
        reasoning_tokens=0,
    )


def failed(why: str = "HTTP 500: no", scheduled: float = 0.0) -> Call:
    return Call(scheduled, slot_at=scheduled, sent_at=scheduled, end_at=scheduled + 9, error=why)


def run_of(*calls: Call, start: float = 0.0, end: float | None = 5.0) -> LoopRun:
    return LoopRun(LOOP, start, [TurnRun(start, one) for one in calls], end)


# -- one call ----------------------------------------------------------------------------------


def test_latencies_count_from_when_the_call_should_have_been_made() -> None:
    late = call(scheduled=0.0, first=11.0, last=13.0, slot=8.0, sent=10.0)
    assert (ttft(late), e2e(late)) == (11.0, 13.0)
    assert (slot_wait(late), lateness(late)) == (8.0, 2.0)


def test_a_client_that_cannot_keep_up_makes_latencies_longer() -> None:
    # 10 requests a second, one at a time, half a second each: 8 requests.
    calls = []
    for i in range(8):
        begun = i * 0.5
        calls.append(call(i * 0.1, begun + 0.1, begun + 0.5, slot=begun, sent=begun))
    found = statistics([run_of(*calls)])
    assert found.e2e is not None
    assert found.e2e.mean == pytest.approx(0.5 + sum(i * 0.4 for i in range(8)) / 8)
    assert found.slot_wait is not None
    assert found.slot_wait.max == pytest.approx(2.8)
    assert found.lateness is not None
    assert found.lateness.max == 0.0


def test_what_it_was_told_to_wait_is_no_lateness() -> None:
    told = replace(call(sent=3.0), waited_s=2.5, retries=1)
    assert lateness(told) == pytest.approx(0.5)
    found = statistics([run_of(told, call())])
    assert found.told_to_wait is not None
    assert (found.told_to_wait.count, found.told_to_wait.max) == (1, 2.5)
    assert found.retried == 1


def test_a_wait_behind_the_first_try_hides_no_lateness() -> None:
    told = Call(0.0, slot_at=0.0, sent_at=0.5, end_at=4.0, waited_s=2.0)
    assert lateness(told) == pytest.approx(0.5)


def test_tpot_is_between_the_first_and_the_last_token() -> None:
    assert tpot(call(first=1.0, last=3.0, tokens=11)) == pytest.approx(0.2)


def test_tpot_counts_only_tokens_that_were_seen_to_come() -> None:
    # 20 were reasoning that isn't shown: they were over when the first content came.
    hidden = replace(call(first=1.0, last=3.0, tokens=31), reasoning_tokens=20)
    assert tpot(hidden) == pytest.approx(0.2)
    shown = replace(hidden, first_visible_at=2.0)
    assert tpot(shown) == pytest.approx(2.0 / 30)


@pytest.mark.parametrize(
    "one",
    [
        call(tokens=1),
        call(tokens=None),
        call(first=3.0, last=3.0),
        replace(call(), first_at=None),
        failed(),
    ],
)
def test_without_two_tokens_in_time_there_is_no_tpot(one: Call) -> None:
    assert tpot(one) is None


def test_gaps_are_between_chunks_whatever_they_hold() -> None:
    chunks = replace(call(tokens=40), chunk_at=array("d", [1.0, 1.5, 1.75]))
    assert list(gaps(chunks)) == [0.5, 0.25]
    found = statistics([run_of(chunks)])
    assert found.itl is not None
    assert found.itl.ordered == (0.25, 0.5)


def test_e2e_ends_with_the_last_content_and_not_with_the_usage_behind_it() -> None:
    assert e2e(call(last=3.0)) == 3.0


def test_a_call_that_failed_has_no_latency() -> None:
    broken = replace(call(), error="the stream was cut")
    assert (ttft(broken), e2e(broken), tpot(broken)) == (None, None, None)


# -- all of them -------------------------------------------------------------------------------


def test_errors_are_counted_and_percentiles_are_of_successes() -> None:
    calls = [call(last=2.0), failed(), failed(), failed("timed out"), call(last=4.0)]
    found = statistics([run_of(*calls)])
    assert (found.calls, found.failed, found.error_rate) == (5, 3, 0.6)
    assert found.errors == {"HTTP 500: no": 2, "timed out": 1}
    assert found.e2e is not None
    assert found.e2e.ordered == (2.0, 4.0)


def test_a_call_that_never_ended_failed() -> None:
    found = statistics([run_of(Call(0.0, sent_at=0.0))])
    assert found.errors == {NEVER_ENDED: 1}
    assert found.error_rate == 1.0
    assert found.ttft is None


def test_nothing_comes_to_nothing() -> None:
    found = statistics([])
    assert (found.calls, found.error_rate, found.steady_s, found.loops) == (0, 0.0, 0.0, 0)
    assert (found.steady_tok_s, found.task, found.good_share) == (None, None, None)


def test_calls_of_sub_agents_count_too() -> None:
    inner = run_of(call(), failed())
    outer = run_of(call())
    outer.turns[0].tools.append(ToolSpan("t", 3.0, 5.0, [inner]))
    assert len(list(calls_of([outer]))) == 3
    assert statistics([outer]).failed == 1


def test_tasks_are_those_that_ran_to_their_end() -> None:
    stopped = run_of(failed(), end=2.0)
    stopped.stopped = "HTTP 500"
    found = statistics([run_of(end=5.0), stopped, run_of(end=None), run_of(end=7.0)])
    assert found.task is not None
    assert found.task.ordered == (5.0, 7.0)
    assert (found.loops, found.loops_stopped) == (4, 2)


def test_goodput_counts_the_calls_that_kept_every_limit() -> None:
    quick, slow = call(first=0.5, last=2.5), call(first=1.5, last=3.5)
    runs = [run_of(quick, slow, failed(), replace(call(), first_at=None))]
    found = statistics(runs, Slo(ttft_s=1.0))
    assert (found.good, found.good_share) == (1, 0.25)
    # From the first call's time to the last one's end: the failed one ends at 9 s.
    assert found.good_s == pytest.approx(1 / 9)
    assert statistics(runs, Slo(tpot_s=0.1)).good == 1
    assert statistics(runs, Slo(e2e_s=3.0)).good == 2
    assert statistics(runs, Slo()).good == 3
    assert statistics(runs).good is None


def test_the_steady_part_leaves_out_the_rise_and_the_fall() -> None:
    runs = [run_of(start=s, end=e) for s, e in ((0, 10), (1, 11), (2, 12), (10, 20), (11, 22))]
    assert steady_part(runs) == (2, 12)
    assert steady_part([run_of(start=3, end=9)]) == (3, 9)
    assert steady_part([run_of(start=0, end=1), run_of(start=2, end=4)]) == (0, 4)
    assert steady_part([run_of(end=None)]) == (0.0, 0.0)


def test_throughput_is_that_of_the_steady_part() -> None:
    # Two loops of 10 tokens a second, the second a second later: from 1 s to 3 s both run.
    runs = [
        run_of(call(0.0, 0.0, 3.0, tokens=30), start=0.0, end=3.0),
        run_of(call(1.0, 1.0, 4.0, tokens=30), start=1.0, end=4.0),
    ]
    found = statistics(runs)
    assert found.steady_s == 2.0
    assert found.steady_tok_s == pytest.approx(20.0)
    assert (found.output_tokens, found.tokens_known) == (60, 2)


def test_an_answer_in_one_piece_counts_where_it_came() -> None:
    found = statistics([run_of(call(0.0, 2.0, 2.0, tokens=50), end=5.0)])
    assert found.steady_tok_s == pytest.approx(10.0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100), st.floats(0, 100))
def test_percentiles_grow_and_lie_within(values: list[float], a: float, b: float) -> None:
    spread = Spread.of(values)
    assert spread is not None
    low, high = sorted((a, b))
    assert min(values) <= spread.percentile(low) <= spread.percentile(high) * (1 + 1e-12)
    assert spread.percentile(100) == spread.max == max(values)
    assert spread.count == len(values)


def test_what_is_not_known_is_in_no_spread() -> None:
    assert Spread.of([None, None]) is None
    spread = Spread.of([None, 3.0, 1.0])
    assert spread is not None
    assert spread.ordered == (1.0, 3.0)


CALLS = st.one_of(
    st.builds(
        lambda at, wait, length, tokens: call(at, at + wait, at + wait + length, tokens=tokens),
        st.floats(0, 100),
        st.floats(0, 10),
        st.floats(0, 10),
        st.integers(0, 500),
    ),
    st.just(failed()),
)


@given(st.lists(st.lists(CALLS, max_size=4), max_size=5), st.floats(0.01, 20))
def test_every_call_is_counted_once(found: list[list[Call]], limit: float) -> None:
    runs = [run_of(*calls) for calls in found]
    figures = statistics(runs, Slo(ttft_s=limit))
    assert figures.calls == sum(map(len, found))
    assert figures.failed == sum(figures.errors.values())
    good = figures.calls - figures.failed
    assert figures.good is not None
    assert 0 <= figures.good <= good
    assert (figures.e2e.count if figures.e2e else 0) == good
    assert 0.0 <= figures.error_rate <= 1.0
