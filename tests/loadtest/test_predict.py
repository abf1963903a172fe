from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.deployment import deploy
from paceline.core.profile import (
    Engine,
    Limits,
    Overhead,
    PrefixCache,
    Profile,
    Variation,
    WebSocketFactors,
)
from paceline.core.rng import hash64
from paceline.core.sequence import Sequence
from paceline.core.simulate import Arrival, replay
from paceline.runtime.profile_files import ProfileRegistry, virtual_profile
from paceline_loadtest.draw import draw
from paceline_loadtest.model import Call, Loop, LoopRun, ToolRun, Turn
from paceline_loadtest.predict import DEFAULT_TERMS, REFUSED, Terms, predict
from paceline_loadtest.prompts import prompt_tokens
from paceline_loadtest.report.breakdown import breakdown
from paceline_loadtest.scenario_files import load_scenario, shipped_scenarios
from paceline_loadtest.statistics import calls_of


def flat(name: str) -> Profile:
    found = virtual_profile(name)
    assert found is not None
    return found


FLAT = flat("flat-40")

PLAIN = Profile(
    name="plain",
    title="100 tokens a second, 10,000 of a prompt, 0.2 s on top",
    engine=Engine(step_ms=10.0, step_ms_per_prefill_token=0.1, disaggregated_prefill=True),
    overhead=Overhead(api_ms_p50=200.0, api_ms_p90=200.0),
    prefix_cache=PrefixCache(min_tokens=1024, block_tokens=128),
)
"""Prefill apart from decode: a first token comes 0.2 s and 0.1 ms a token after its request."""


def loop_of(*turns: Turn, name: str = "a", system: int = 0) -> Loop:
    return Loop(name, system, 0, 0, turns, seed=1)


def alone(loop: Loop, profile: Profile, terms: Terms = DEFAULT_TERMS) -> LoopRun:
    (run,) = predict([loop], profile, terms)
    return run


def seconds(run: LoopRun) -> float:
    assert run.seconds is not None
    return run.seconds


def span(call: Call) -> float:
    assert call.end_at is not None
    return call.end_at - call.scheduled_at


# -- one loop ----------------------------------------------------------------------------------


def test_a_flat_rate_takes_a_token_less_one_and_the_tools() -> None:
    turn = Turn(10, 3, 8, (ToolRun("t", 0.5, 1),))
    run = alone(loop_of(turn, turn), FLAT, Terms(shows_reasoning=True))
    assert seconds(run) == pytest.approx(2 * (10 * 0.025 + 0.5), abs=1e-6)
    call = run.turns[0].call
    assert call.first_at == 0.0
    assert call.first_visible_at == pytest.approx(3 * 0.025)
    assert call.last_at == pytest.approx(10 * 0.025)
    assert (call.output_tokens, call.reasoning_tokens) == (11, 3)


def test_a_call_takes_its_overhead_its_prefill_and_a_step_a_token() -> None:
    loop = loop_of(Turn(993, 0, 51), Turn(50, 0, 1))
    run = alone(loop, PLAIN)
    first = run.turns[0].call
    # 993 words, 4 tokens around the message and 3 for the reply.
    assert first.prompt_tokens == 1000
    assert first.cached_tokens == 0
    # The first token comes at the end of the step that follows the prefill.
    assert first.first_at is not None
    assert first.first_at == pytest.approx(0.2 + 0.1 + 0.01, abs=0.0101)
    assert span(first) == pytest.approx(first.first_at + 50 * 0.01, abs=1e-6)
    assert first.server.overhead_s == pytest.approx(0.2)
    assert first.server.prefill_s == pytest.approx(0.11, abs=0.0101)
    assert first.server.decode_s == pytest.approx(0.5)


def test_a_prompt_finds_the_one_before_it_in_the_cache() -> None:
    loop = loop_of(Turn(1200, 0, 100), *[Turn(60, 0, 40)] * 4)
    run = alone(loop, PLAIN)
    prompts = list(prompt_tokens(loop, "chat"))
    assert [turn.call.prompt_tokens for turn in run.turns] == prompts
    expected = [0, *(before // 128 * 128 for before in prompts[:-1])]
    assert [turn.call.cached_tokens for turn in run.turns] == expected
    assert all(cached >= 1024 for cached in expected[1:])


def test_loops_share_their_system_prompt_in_the_cache_and_nothing_else() -> None:
    loops = [loop_of(Turn(3000, 0, 1), name=name, system=2000) for name in "ab"]
    first, second = predict(loops, PLAIN)
    assert first.turns[0].call.cached_tokens == 0
    # Four tokens of the format stand around the system prompt.
    assert second.turns[0].call.cached_tokens == 2004 // 128 * 128
    other = loop_of(Turn(3000, 0, 1), name="b", system=2100)
    assert predict([loops[0], other], PLAIN)[1].turns[0].call.cached_tokens == 0


def test_a_websocket_is_spared_what_its_profile_says() -> None:
    factors = WebSocketFactors(round_trip=0.2, per_token=0.7, ttft=0.5)
    overhead = Overhead(round_trip_ms=75, per_token_ms=1, api_ms_p50=75, api_ms_p90=75)
    profile = replace(PLAIN, overhead=overhead, websocket=factors)
    loop = loop_of(*[Turn(10, 5, 5)] * 3)
    http, websocket = (
        alone(loop, profile, Terms(dialect)) for dialect in ("responses", "responses-websocket")
    )
    saved = 3 * (75 * 0.8 + 75 * 0.5 + 1 * 0.3) / 1000
    # A call begins at the next step of an engine that never stands still for it: within a step.
    assert seconds(http) - seconds(websocket) == pytest.approx(saved, abs=0.03)
    parts = [run.turns[0].call.server.overhead_s for run in (http, websocket)]
    assert parts == pytest.approx([0.151, 0.0532])


def test_thinking_passes_before_the_call_is_due() -> None:
    run = alone(loop_of(Turn(10, 0, 5, think_s=2.0)), FLAT)
    assert run.turns[0].started_at == 0.0
    assert run.turns[0].call.scheduled_at == pytest.approx(2.0)
    assert seconds(run) == pytest.approx(2.1)


@pytest.mark.parametrize(("parallel", "expected"), [(True, 3.0), (False, 6.0)])
def test_tools_run_side_by_side_or_one_after_another(parallel: bool, expected: float) -> None:
    tools = tuple(ToolRun("t", s, 1) for s in (1.0, 3.0, 2.0))
    run = alone(loop_of(Turn(10, 0, 1, tools, parallel=parallel)), FLAT)
    assert seconds(run) == pytest.approx(expected)
    ends = [tool.ended_at for tool in run.turns[0].tools]
    assert ends == pytest.approx([1.0, 3.0, 2.0] if parallel else [1.0, 4.0, 6.0])


def test_sub_agents_run_at_once_and_the_tool_ends_after_the_last() -> None:
    agents = tuple(loop_of(Turn(9, 0, n), name=f"sub-{n}") for n in (5, 41, 21))
    tool = ToolRun("sub", 0.25, 10, agents=agents)
    run = alone(loop_of(Turn(10, 0, 1, (tool,)), Turn(0, 0, 1)), FLAT)
    (found,) = run.turns[0].tools
    assert [agent.ended_at for agent in found.loops] == pytest.approx([0.1, 1.0, 0.5])
    assert found.ended_at == pytest.approx(1.25)
    assert run.turns[1].call.scheduled_at == pytest.approx(1.25)


def test_what_the_client_costs_is_a_part_of_its_own() -> None:
    loop = loop_of(*[Turn(10, 0, 5)] * 4)
    bare, costly = alone(loop, FLAT), alone(loop, FLAT, Terms(client_s=0.003))
    assert seconds(costly) - seconds(bare) == pytest.approx(4 * 0.003)
    parts = breakdown(costly)
    assert parts is not None
    assert parts.seconds("client") == pytest.approx(4 * 0.003)


def test_of_reasoning_that_is_not_shown_a_client_sees_only_the_time() -> None:
    loop = loop_of(Turn(10, 30, 8))
    hidden, shown = (alone(loop, PLAIN, Terms(shows_reasoning=shows)) for shows in (False, True))
    assert seconds(hidden) == seconds(shown)
    call = hidden.turns[0].call
    assert call.first_at == call.first_visible_at == shown.turns[0].call.first_visible_at
    assert breakdown(hidden) == breakdown(shown)


def test_an_answer_in_one_piece_comes_at_its_end() -> None:
    run = alone(loop_of(Turn(10, 3, 8)), PLAIN, Terms(stream=False))
    call = run.turns[0].call
    assert call.first_at == call.first_visible_at == call.last_at
    assert seconds(run) == seconds(alone(loop_of(Turn(10, 3, 8)), PLAIN))


def test_an_answer_that_only_thinks_shows_nothing() -> None:
    profile = replace(PLAIN, limits=Limits(context_tokens=4000, max_output_tokens=5))
    run = alone(loop_of(Turn(10, 30, 8)), profile)
    call = run.turns[0].call
    # As the server cuts it: what is left of the reasoning, and no visible token.
    assert (call.output_tokens, call.reasoning_tokens, call.first_visible_at) == (5, 5, None)


# -- what the model refuses --------------------------------------------------------------------


def test_a_loop_ends_with_the_request_that_is_refused() -> None:
    profile = replace(PLAIN, limits=Limits(context_tokens=100, max_output_tokens=50))
    loop = loop_of(Turn(60, 0, 20), Turn(30, 0, 20), Turn(1, 0, 1))
    run = alone(loop, profile)
    assert [turn.call.error for turn in run.turns] == [None, REFUSED]
    assert run.stopped == REFUSED
    assert run.turns[1].call.status == 400
    assert run.ended_at == run.turns[1].call.end_at


def test_or_goes_on_without_its_answer() -> None:
    profile = replace(PLAIN, limits=Limits(context_tokens=100, max_output_tokens=50))
    loop = loop_of(Turn(60, 0, 20), Turn(30, 0, 20, (ToolRun("t", 2.0, 1),)))
    run = alone(loop, profile, Terms(on_error="continue"))
    assert run.turns[1].call.error == REFUSED
    assert run.stopped is None
    assert run.turns[1].tools[0].ended_at - run.turns[1].tools[0].started_at == pytest.approx(2.0)


def test_an_answer_is_cut_where_the_context_ends() -> None:
    profile = replace(PLAIN, limits=Limits(context_tokens=100, max_output_tokens=50))
    assert alone(loop_of(Turn(73, 0, 40)), profile).turns[0].call.output_tokens == 20
    assert alone(loop_of(Turn(10, 0, 90)), profile).turns[0].call.output_tokens == 50


def test_what_no_replica_could_hold_is_refused() -> None:
    profile = replace(PLAIN, engine=replace(PLAIN.engine, kv_cache_tokens=60))
    assert alone(loop_of(Turn(50, 0, 40)), profile).stopped == REFUSED


# -- several loops -----------------------------------------------------------------------------


def test_users_take_turns_at_the_loops() -> None:
    loops = [loop_of(Turn(10, 0, n), name=str(n)) for n in (41, 81, 21, 1)]
    runs = predict(loops, FLAT, users=2, think_s=1.0)
    assert [run.loop.id for run in runs] == ["41", "81", "21", "1"]
    # The first user is free at 1 s and begins again at 2; the other at 2 and 3.
    assert [run.started_at for run in runs] == pytest.approx([0.0, 0.0, 2.0, 3.0])


def test_one_user_runs_one_loop_after_another() -> None:
    loops = [loop_of(Turn(10, 0, 41), name=str(n)) for n in range(3)]
    runs = predict(loops, FLAT)
    assert [run.started_at for run in runs] == pytest.approx([0.0, 1.0, 2.0])


def test_loops_that_arrive_wait_for_nobody() -> None:
    loops = [loop_of(Turn(10, 0, 41), name=str(n)) for n in range(3)]
    runs = predict(loops, FLAT, starts=[0.5, 0.25, 7.0])
    assert [run.started_at for run in runs] == [0.5, 0.25, 7.0]
    assert [seconds(run) for run in runs] == pytest.approx([1.0] * 3)


def test_loops_at_once_share_a_batch() -> None:
    engine = Engine(step_ms=10.0, step_ms_per_seq=1.0)
    profile = replace(PLAIN, engine=engine)
    loops = [loop_of(Turn(10, 0, 101), name=str(n)) for n in range(10)]
    (single,) = predict(loops[:1], profile)
    at_once = predict(loops, profile, users=10)
    decode = single.turns[0].call.server.decode_s
    assert decode == pytest.approx(100 * 0.011)
    for run in at_once:
        assert run.turns[0].call.server.decode_s == pytest.approx(100 * 0.020, rel=0.01)


def test_hard_slots_make_a_queue() -> None:
    profile = replace(PLAIN, engine=replace(PLAIN.engine, max_num_seqs=1))
    loops = [loop_of(Turn(10, 0, 101), name=str(n)) for n in range(2)]
    first, second = (run.turns[0].call.server for run in predict(loops, profile, users=2))
    assert first.queue_s == pytest.approx(0.0, abs=1e-6)
    assert second.queue_s == pytest.approx(1.0, abs=0.03)


def test_one_that_is_preempted_has_its_first_token_when_it_came() -> None:
    profile = replace(PLAIN, engine=Engine(step_ms=10.0, kv_cache_tokens=900))
    loops = [loop_of(Turn(400, 0, 300), name=str(n)) for n in range(2)]
    first, second = (run.turns[0].call for run in predict(loops, profile, users=2))
    # Both came in, and the second had to leave again until the first was done.
    assert first.last_at is not None
    assert second.first_at == pytest.approx(first.first_at, abs=0.05)
    assert second.last_at is not None
    assert second.last_at > first.last_at + 1.0


def test_the_numbers_of_users_and_starts_must_make_sense() -> None:
    with pytest.raises(ValueError, match="at least one user"):
        predict([], FLAT, users=0)
    with pytest.raises(ValueError, match="1 starts for 2 loops"):
        predict([loop_of(Turn(1, 0, 1))] * 2, FLAT, starts=[0.0])
    assert predict([], FLAT) == []


# -- what always holds -------------------------------------------------------------------------

TURNS = st.builds(
    Turn,
    st.integers(0, 3000),
    st.integers(0, 300),
    st.integers(1, 300),
    st.lists(
        st.builds(ToolRun, st.just("t"), st.floats(0, 5), st.integers(1, 900)), max_size=3
    ).map(tuple),
    st.booleans(),
    st.floats(0, 3),
)
LOOPS = st.lists(st.lists(TURNS, min_size=1, max_size=5).map(tuple), min_size=1, max_size=4).map(
    lambda found: [Loop(str(i), 900, 2, 80, turns, i) for i, turns in enumerate(found)]
)
ENGINES = st.sampled_from(
    [
        PLAIN,
        replace(PLAIN, engine=Engine(step_ms=5.0, step_ms_per_seq=0.5, max_num_seqs=2)),
        replace(PLAIN, engine=Engine(step_ms=8.0, step_ms_per_prefill_token=0.05, replicas=2)),
        replace(PLAIN, engine=Engine(step_ms=8.0, tokens_per_step=2.5, draft_tokens=4)),
        replace(PLAIN, engine=Engine(step_ms=8.0, kv_cache_tokens=40_000)),
        replace(PLAIN, variation=Variation(jitter=0.2, stall_ms=40, stall_every_steps=50)),
        FLAT,
    ]
)


@given(LOOPS, ENGINES, st.integers(1, 4))
def test_times_follow_each_other_and_the_parts_are_the_whole(
    loops: list[Loop], profile: Profile, users: int
) -> None:
    for run in predict(loops, profile, Terms(client_s=0.002), users=users):
        before = run.started_at
        for turn in run.turns:
            call = turn.call
            assert turn.started_at == pytest.approx(before, abs=1e-9)
            stamps = [turn.started_at, call.scheduled_at, call.sent_at, call.first_at]
            stamps += [call.first_visible_at, call.last_at, call.end_at]
            stamps += [max([call.end_at or 0.0, *(tool.ended_at for tool in turn.tools)])]
            known = [stamp for stamp in stamps if stamp is not None]
            assert len(known) == len(stamps)
            assert known == sorted(known)
            assert turn.ended_at == pytest.approx(known[-1], abs=1e-9)
            before = known[-1]
        parts = breakdown(run)
        assert parts is not None
        assert parts.total == pytest.approx(seconds(run) * 1e9, abs=2)


@given(LOOPS, ENGINES)
def test_a_loop_takes_the_same_time_whenever_it_begins(loops: list[Loop], profile: Profile) -> None:
    # What comes later, on an idle machine whose cache knows nothing of it, changes nothing.
    (early,) = predict(loops[:1], profile, starts=[0.0])
    (late,) = predict(loops[:1], profile, starts=[1000.0])
    # Steps of a machine with other tenants go on by themselves; jitter there is none.
    assert seconds(late) == pytest.approx(seconds(early), abs=1e-3)


@given(
    st.lists(
        st.tuples(st.integers(0, 2_000), st.integers(1, 900), st.integers(1, 200)), max_size=8
    ),
    ENGINES,
)
def test_calls_end_when_the_simulator_says_so(
    jobs: list[tuple[int, int, int]], profile: Profile
) -> None:
    jobs.sort(key=lambda job: job[0])
    loops = [loop_of(Turn(new, 0, out), name=str(i)) for i, (_, new, out) in enumerate(jobs)]
    runs = predict(loops, profile, starts=[at / 1000 for at, _, _ in jobs])
    keys = [hash64("predict", loop.id, loop.seed, 0) for loop in loops]
    seqs = [Sequence(new + 7, out, key=key) for (_, new, out), key in zip(jobs, keys, strict=True)]
    arrivals = [Arrival(at * 1_000_000, (seq,)) for (at, _, _), seq in zip(jobs, seqs, strict=True)]
    ended = list(replay(deploy(profile), arrivals))
    assert len(ended) == len(runs)
    for run, seq in zip(runs, seqs, strict=True):
        assert run.ended_at == pytest.approx(seq.end_ns / 1e9, abs=1e-9)
        assert run.turns[0].call.first_at == pytest.approx(seq.first_ns / 1e9, abs=1e-9)


@given(LOOPS, ENGINES)
def test_the_same_loops_give_the_same_runs(loops: list[Loop], profile: Profile) -> None:
    assert predict(loops, profile, users=2) == predict(loops, profile, users=2)


@pytest.mark.parametrize("name", shipped_scenarios())
def test_the_shipped_scenarios_end_sooner_the_faster_the_profile(name: str) -> None:
    scenario = load_scenario(name)
    registry = ProfileRegistry.load()
    loops = draw(scenario, count=5)
    totals = []
    for profile in ("gpu-40", "gpt-5.6-sol-codex-fast", "wafer-750", "spark-1000"):
        found = registry.get(profile)
        assert found is not None
        runs = predict(loops, found, Terms(scenario.dialect))
        assert [run.stopped for run in runs] == [None] * 5
        assert all(call.ok for call in calls_of(runs))
        totals.append(sum(map(seconds, runs)))
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == 4
