"""The parts of a task's time: without gaps, exact to the nanosecond, and nothing made up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline_loadtest.model import Call, Loop, LoopRun, ServerPart, ToolSpan, TurnRun
from paceline_loadtest.report.breakdown import Breakdown, Part, breakdown, mean, ns, spans
from tests.loadtest.report_fixture import results
from tests.loadtest.report_strategies import RUNS

LOOP = Loop("l", 10, 0, 0, ())
slow = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@slow
@given(RUNS)
def test_any_runs_parts_add_up_to_its_whole_time(run: LoopRun) -> None:
    found = spans(run)
    assert all(span.ns > 0 for span in found)
    assert all(before.end == after.start for before, after in pairwise(found))
    if run.ended_at is None:
        assert breakdown(run) is None
        return
    whole = max(0, ns(run.ended_at) - ns(run.started_at))
    parts = breakdown(run)
    assert parts is not None
    assert parts.total == sum(span.ns for span in found) == whole
    if found:
        assert (found[0].start, found[-1].end) == (ns(run.started_at), ns(run.ended_at))


@pytest.mark.parametrize("scenario", ["code-edit", "research"])
def test_a_real_runs_parts_add_up(scenario: str) -> None:
    for target in results(scenario, loops=2).targets:
        for run in target.loops:
            parts = breakdown(run)
            assert parts is not None
            assert parts.total == ns(run.ended_at or 0.0) - ns(run.started_at)
            assert parts.share("reasoning", "output", "tools") > 0.3
            assert parts.share("client") < 0.01


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["queue", "tools"]), st.integers(1, 10**12)),
        min_size=1,
        max_size=5,
    )
)
def test_a_mean_is_the_parts_means(held: list[dict[Part, int]]) -> None:
    whole = mean([Breakdown(parts) for parts in held])
    exact = sum(sum(parts.values()) for parts in held) / len(held)
    assert abs(whole.total - exact) <= 1.0


def call(**about: object) -> Call:
    """Due at 1 s, sent at 1.2, first content at 3, visible from 4, ended at 6."""
    known: dict[str, object] = {
        "scheduled_at": 1.0,
        "slot_at": 1.1,
        "sent_at": 1.2,
        "headers_at": 3.0,
        "first_at": 3.0,
        "first_visible_at": 4.0,
        "last_at": 5.5,
        "end_at": 6.0,
        "output_tokens": 100,
        "reasoning_tokens": 40,
        "server": ServerPart(overhead_s=0.3, queue_s=0.5, prefill_s=0.7),
    }
    return Call(**{**known, **about})  # type: ignore[arg-type]  # names are the fields' own


def parts_of(found: Call, *tools: ToolSpan, end: float = 7.0) -> dict[Part, float]:
    run = LoopRun(LOOP, 0.0, [TurnRun(0.0, found, list(tools), end)], end)
    parts = breakdown(run)
    assert parts is not None
    return {part: parts.seconds(part) for part in parts.parts}


def test_a_streamed_call_of_a_server_that_tells() -> None:
    assert parts_of(call()) == pytest.approx(
        {
            "think": 1.0,
            "slots": 0.1,
            "client": 0.1 + 1.0,
            "network": 0.6 + 0.5,
            "queue": 0.5,
            "prefill": 0.7,
            "reasoning": 1.0,
            "output": 1.5,
        }
    )


def test_what_a_server_doesnt_tell_is_left_out() -> None:
    found = parts_of(call(server=ServerPart()))
    assert found["waiting"] == pytest.approx(1.8)
    assert not {"queue", "prefill"} & found.keys()
    assert found["network"] == pytest.approx(0.5)


def test_an_answer_in_one_piece_of_a_server_that_tells_only_its_parts() -> None:
    whole = call(first_at=5.5, first_visible_at=5.5)
    found = parts_of(whole)
    # 4.3 s until it came: 1.5 before its first token, and 2.8 of decoding, 40 % of it reasoning.
    assert found["queue"] == pytest.approx(0.5)
    assert found["prefill"] == pytest.approx(0.7)
    assert found["reasoning"] == pytest.approx(2.8 * 0.4)
    assert found["output"] == pytest.approx(2.8 * 0.6)


def test_an_answer_in_one_piece_uses_the_decoding_that_the_server_tells() -> None:
    server = ServerPart(overhead_s=0.3, queue_s=0.5, prefill_s=0.7, decode_s=2.0)
    found = parts_of(call(first_at=5.5, first_visible_at=5.5, server=server))
    assert found["reasoning"] == pytest.approx(0.8)
    assert found["output"] == pytest.approx(1.2)
    assert found["network"] == pytest.approx(4.3 - 0.5 - 0.7 - 2.0 + 0.5)


def test_an_answer_in_one_piece_of_a_server_that_tells_nothing_was_waited_for() -> None:
    found = parts_of(call(first_at=5.5, first_visible_at=5.5, server=ServerPart()))
    assert found["waiting"] == pytest.approx(4.3)
    assert not {"reasoning", "output"} & found.keys()


def test_reasoning_that_isnt_shown_is_reasoning_all_the_same() -> None:
    found = parts_of(call(first_visible_at=3.0))
    assert found["reasoning"] == pytest.approx(1.8 - 0.3 - 0.5 - 0.7)
    assert found["output"] == pytest.approx(2.5)
    assert found["network"] == pytest.approx(0.3 + 0.5)


def test_reasoning_without_an_answer_is_no_output() -> None:
    found = parts_of(call(first_visible_at=None, reasoning_tokens=100))
    assert found["reasoning"] == pytest.approx(2.5)
    assert "output" not in found


@pytest.mark.parametrize("sent_at", [1.2, 2.2])
def test_what_it_was_told_to_wait_is_a_part_of_its_own(sent_at: float) -> None:
    found = parts_of(call(waited_s=1.0, sent_at=sent_at))
    assert found["limits"] == pytest.approx(1.0)
    assert sum(found.values()) == pytest.approx(7.0)


def test_a_server_that_says_more_than_there_was_is_cut() -> None:
    server = ServerPart(overhead_s=1.0, queue_s=1.5, prefill_s=9.0)
    found = parts_of(call(server=server))
    assert found["queue"] == pytest.approx(1.5)
    assert found["prefill"] == pytest.approx(0.3)


def test_a_failed_call_is_failed_from_when_it_was_due() -> None:
    found = parts_of(call(error="it broke", end_at=2.5))
    assert found == pytest.approx({"think": 1.0, "failed": 1.5, "client": 4.5})
    never = parts_of(call(end_at=None))
    assert never == pytest.approx({"think": 1.0, "failed": 6.0})


def test_of_parallel_tools_the_longest_counts() -> None:
    tools = [ToolSpan("a", 6.0, 6.9), ToolSpan("b", 6.0, 8.0), ToolSpan("c", 6.1, 7.0)]
    assert parts_of(call(), *tools, end=8.5)["tools"] == pytest.approx(2.0)


def test_tools_one_after_another_add_up() -> None:
    tools = [ToolSpan("a", 6.0, 6.9), ToolSpan("b", 7.0, 8.0)]
    found = parts_of(call(), *tools, end=8.0)
    assert found["tools"] == pytest.approx(1.9)
    assert found["client"] == pytest.approx(0.1 + 0.1)


def agent(name: str, start: float, end: float) -> LoopRun:
    """One that works from start to end: a request of which half is reasoning."""
    half = (start + end) / 2
    asked = Call(
        start,
        sent_at=start,
        first_at=start,
        first_visible_at=half,
        last_at=end,
        end_at=end,
        output_tokens=10,
        reasoning_tokens=5,
    )
    return LoopRun(Loop(name, 1, 0, 0, ()), start, [TurnRun(start, asked, [], end)], end)


def test_of_sub_agents_the_last_to_end_counts_and_its_time_is_its_own() -> None:
    tool = ToolSpan("agents", 6.0, 9.0, [agent("one", 6.2, 8.2), agent("two", 6.2, 7.0)])
    found = parts_of(call(), tool, end=9.0)
    assert found["reasoning"] == pytest.approx(1.0 + 1.0)
    assert found["output"] == pytest.approx(1.5 + 1.0)
    # What comes before and after the sub-agents is the tool's own.
    assert found["tools"] == pytest.approx(0.2 + 0.8)


def test_an_agent_that_ended_before_the_critical_one_began_counts_too() -> None:
    tool = ToolSpan("agents", 6.0, 9.0, [agent("one", 6.0, 7.0), agent("two", 7.0, 9.0)])
    found = parts_of(call(), tool, end=9.0)
    assert found["reasoning"] == pytest.approx(1.0 + 1.5)


def test_between_turns_it_is_the_client() -> None:
    turns = [TurnRun(0.0, call(), [], 6.0), TurnRun(6.4, call(scheduled_at=6.4, end_at=None))]
    run = LoopRun(LOOP, 0.0, turns, 8.0)
    turn_of = {(span.part, span.turn) for span in spans(run)}
    assert ("client", 0) in turn_of
    assert ("failed", 1) in turn_of
