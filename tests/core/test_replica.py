"""The replica: hand-worked schedules first, then what must hold for every one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.core.deployment import EngineDeployment
from paceline.core.profile import Engine, Overhead, PrefixCache, Profile, Tenants, Variation
from paceline.core.replica import Replica
from paceline.core.sequence import Sequence, State
from paceline.core.simulate import Abort, Arrival, replay, run_out
from paceline.core.steps import FOREVER

MS = 1_000_000


def profile(**engine: Any) -> Profile:
    return Profile(name="test", title="test", engine=Engine(**{"step_ms": 10.0, **engine}))


def due_ms(seq: Sequence) -> list[float]:
    return [seq.due(i) / MS for i in range(seq.output_tokens)]


def run(replica: Replica, arrivals: list[tuple[float, Sequence]]) -> None:
    for at_ms, seq in arrivals:
        replica.arrive(seq, round(at_ms * MS))
    while replica.next_ns < FOREVER:
        replica.advance(replica.next_ns)


def test_one_request_alone() -> None:
    """Prefill of 50 tokens at 1 ms in one step of 10 + 50 ms, then a token every 10 ms."""
    replica = Replica(profile(step_ms_per_prefill_token=1.0), keep_history=True)
    seq = Sequence(50, 4)
    run(replica, [(5.0, seq)])
    assert due_ms(seq) == [65.0, 75.0, 85.0, 95.0]
    assert (seq.first_ns, seq.end_ns) == (65 * MS, 95 * MS)
    assert seq.state is State.FINISHED


def test_prompts_are_prefilled_in_chunks() -> None:
    """250 tokens in chunks of 100: steps of 110, 110 and 60 ms."""
    replica = Replica(
        profile(step_ms_per_prefill_token=1.0, max_num_batched_tokens=100), keep_history=True
    )
    seq = Sequence(250, 2)
    run(replica, [(0.0, seq)])
    assert due_ms(seq) == [280.0, 290.0]


def test_a_chunk_is_shared_first_come_first_served() -> None:
    """Two prompts of 60 and 80 with chunks of 100: the first ends in step 1, both in step 2."""
    replica = Replica(
        profile(step_ms_per_prefill_token=1.0, max_num_batched_tokens=100), keep_history=True
    )
    a, b, warm = Sequence(60, 3), Sequence(80, 2), Sequence(1, 50)
    run(replica, [(0.0, warm), (1.0, a), (2.0, b)])
    # warm's prefill step ends at 11; step 2 takes 60 of a and 40 of b (110 ms) to 121
    assert due_ms(a)[0] == 121.0
    assert due_ms(b)[0] == 121.0 + 10.0 + 40.0
    assert due_ms(a)[1] == 171.0


def test_each_sequence_lengthens_the_step() -> None:
    """step = 10 + 2 * running: alone 12 ms, two together 14 ms."""
    replica = Replica(profile(step_ms_per_seq=2.0), keep_history=True)
    a, b = Sequence(1, 5), Sequence(1, 2)
    run(replica, [(0.0, a), (30.0, b)])
    # a: 12, 24, 36 (b joins there), 50 (b's first), 64 (b ends)
    assert due_ms(a) == [12.0, 24.0, 36.0, 50.0, 64.0]
    assert due_ms(b) == [50.0, 64.0]


def test_kv_tokens_lengthen_the_step_by_step() -> None:
    """KV of 100 tokens at .01 ms: steps of 11.00, 11.01, 11.02 ms after the prefill's 11.00."""
    replica = Replica(profile(step_ms_per_kv_token=0.01), keep_history=True)
    seq = Sequence(100, 4)
    run(replica, [(0.0, seq)])
    assert due_ms(seq) == pytest.approx([11.0, 22.0, 33.01, 44.03], abs=1e-6)


def test_slots_are_hard_and_the_queue_is_fifo() -> None:
    replica = Replica(profile(max_num_seqs=2), keep_history=True)
    seqs = [Sequence(1, 3) for _ in range(4)]
    run(replica, [(0.0, s) for s in seqs])
    assert [s.first_ns // MS for s in seqs] == [10, 20, 40, 50]
    assert [s.admitted_ns // MS for s in seqs] == [0, 10, 30, 40]


def test_disaggregated_prefill_leaves_decode_alone() -> None:
    """Prompts of 5 ms each, one after another, while decode ticks every 10 ms."""
    replica = Replica(
        profile(step_ms_per_prefill_token=0.5, disaggregated_prefill=True), keep_history=True
    )
    a, b, c = Sequence(10, 4), Sequence(10, 2), Sequence(10, 2)
    run(replica, [(0.0, a), (0.0, b), (12.0, c)])
    assert due_ms(a) == [5.0, 15.0, 25.0, 35.0]
    assert due_ms(b) == [15.0, 25.0]
    assert due_ms(c) == [25.0, 35.0]


def test_tenants_take_their_share_of_batch_and_slots() -> None:
    base = profile(step_ms_per_seq=1.0, max_num_seqs=4)
    replica = Replica(replace(base, tenants=Tenants(running=2.5)), keep_history=True)
    a, b = Sequence(1, 2), Sequence(1, 2)
    run(replica, [(0.0, a), (0.0, b)])
    assert due_ms(a) == [13.5, 27.0]
    assert b.admitted_ns == 27 * MS


def test_speculative_decoding_yields_the_mean_in_bursts() -> None:
    replica = Replica(profile(tokens_per_step=3.25, draft_tokens=4), keep_history=True)
    seq = Sequence(1, 32_501)
    run(replica, [(0.0, seq)])
    due = due_ms(seq)
    sizes = {n: due.count(due[n]) for n in range(1, 2000)}
    assert max(sizes.values()) == 5
    assert (seq.end_ns - seq.first_ns) / MS == pytest.approx(100_000.0, rel=0.01)
    assert due == sorted(due)


def test_kv_full_preempts_the_youngest_and_recomputes_it() -> None:
    replica = Replica(profile(kv_cache_tokens=60, step_ms_per_prefill_token=1.0), keep_history=True)
    old, young = Sequence(20, 30), Sequence(20, 30)
    run(replica, [(0.0, old), (0.0, young)])
    assert replica.preemptions == young.preemptions == 1
    assert old.preemptions == 0
    assert young.state is old.state is State.FINISHED
    assert young.first_ns < old.end_ns < young.end_ns
    # it had 10 of its tokens when room was out: 30 are prefilled again, then 19 steps are left
    assert young.end_ns - old.end_ns == (10 + 30 + 19 * 10) * MS


def test_prefix_cache_shortens_prefill_and_is_reported() -> None:
    base = profile(step_ms_per_prefill_token=1.0, max_num_batched_tokens=4096)
    rules = PrefixCache(min_tokens=1024, block_tokens=128, ttl_s=1.0)
    replica = Replica(replace(base, prefix_cache=rules), keep_history=True)
    blocks = tuple(range(9))
    first, again = Sequence(1200, 1, blocks=blocks), Sequence(1200, 1, blocks=blocks)
    late = Sequence(1200, 1, blocks=blocks)
    run(replica, [(0.0, first)])
    run(replica, [(1500.0, again)])
    run(replica, [(4000.0, late)])
    assert [s.cached_tokens for s in (first, again, late)] == [0, 1152, 0]
    assert first.first_ns == 1210 * MS
    assert again.first_ns == (1500 + 10 + 48) * MS


def test_abort_frees_the_slot_at_the_next_boundary() -> None:
    replica = Replica(profile(max_num_seqs=1), keep_history=True)
    a, b = Sequence(1, 100), Sequence(1, 1)
    replica.arrive(a, 0)
    replica.arrive(b, 0)
    replica.abort(a, 25 * MS)
    replica.advance(30 * MS)
    assert (replica.running, replica.waiting) == (1, 0)
    assert b.admitted_ns == 30 * MS
    replica.advance(FOREVER - 1)
    assert (replica.running, replica.waiting, b.first_ns) == (0, 0, 40 * MS)


def test_a_batch_may_get_cheaper_by_the_sequence() -> None:
    """step = 10 + 4 * running ** 0.5: alone 14 ms, four together 18 ms."""
    replica = Replica(profile(step_ms_per_seq=4.0, seq_exponent=0.5), keep_history=True)
    alone = Sequence(1, 3)
    run(replica, [(0.0, alone)])
    assert due_ms(alone) == [14.0, 28.0, 42.0]
    four = [Sequence(1, 5) for _ in range(4)]
    run(replica, [(1000.0, seq) for seq in four])
    assert due_ms(four[1])[:3] == [1032.0, 1050.0, 1068.0]


def test_a_step_with_prefill_costs_by_itself() -> None:
    """A prompt of 20 tokens at 1 ms in a step that costs 5 ms more for having prefill in it."""
    replica = Replica(
        profile(step_ms_per_prefill_token=1.0, prefill_step_ms=5.0), keep_history=True
    )
    seq = Sequence(20, 2)
    run(replica, [(0.0, seq)])
    assert due_ms(seq) == [35.0, 45.0]


def test_stalls_lengthen_one_step_in_so_many() -> None:
    base = profile()
    uneven = replace(base, variation=Variation(stall_ms=45.0, stall_every_steps=100))
    replica = Replica(uneven, keep_history=True)
    seq = Sequence(1, 1000)
    run(replica, [(0.0, seq)])
    due = due_ms(seq)
    gaps = [round(b - a, 6) for a, b in pairwise(due)]
    assert set(gaps) == {10.0, 55.0}
    assert gaps.count(55.0) in (9, 10, 11)


# -- properties --------------------------------------------------------------------------------

engines = st.builds(
    Engine,
    step_ms=st.floats(0.1, 50.0),
    step_ms_per_seq=st.sampled_from([0.0, 0.1, 1.7]),
    step_ms_per_kv_token=st.sampled_from([0.0, 1e-4, 0.01]),
    step_ms_per_prefill_token=st.sampled_from([0.0, 0.01, 0.5]),
    disaggregated_prefill=st.booleans(),
    max_num_seqs=st.sampled_from([0, 1, 2, 5]),
    max_num_batched_tokens=st.sampled_from([16, 100, 8192]),
    kv_cache_tokens=st.sampled_from([0, 400, 2000]),
    data_parallel_size=st.sampled_from([1, 3]),
    replicas=st.sampled_from([1, 1, 3]),
)
speculative = st.sampled_from([(1.0, 0), (2.5, 3), (3.24, 4)])


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    mean, drafts = draw(speculative)
    engine = replace(draw(engines), tokens_per_step=mean, draft_tokens=drafts)
    return Profile(
        name="drawn",
        title="drawn",
        engine=engine,
        overhead=Overhead(api_ms_p50=draw(st.sampled_from([0.0, 30.0])), api_ms_p90=80.0),
        variation=Variation(
            jitter=draw(st.sampled_from([0.0, 0.1, 0.25])),
            stall_ms=20.0,
            stall_every_steps=draw(st.sampled_from([0, 7])),
        ),
        prefix_cache=PrefixCache(min_tokens=32, block_tokens=16, ttl_s=2.0),
    )


@st.composite
def workloads(draw: st.DrawFn) -> list[tuple[str, int, int, int, int]]:
    """(what, when, prompt tokens, output tokens, which) in order of time."""
    count = draw(st.integers(1, 12))
    times = sorted(draw(st.lists(st.integers(0, 3_000 * MS), min_size=count, max_size=count)))
    acts: list[tuple[str, int, int, int, int]] = []
    for i, at in enumerate(times):
        if i and draw(st.integers(0, 3)) == 0:
            acts.append(("abort", at, 0, 0, draw(st.integers(0, i - 1))))
        else:
            acts.append(("arrive", at, draw(st.integers(1, 200)), draw(st.integers(0, 60)), i))
    return acts


def events_of(acts: list[tuple[str, int, int, int, int]]) -> tuple[list[Any], list[Sequence]]:
    seqs: dict[int, Sequence] = {}
    events: list[Any] = []
    for what, at, prompt, output, which in acts:
        if what == "arrive":
            blocks = tuple(range(prompt // 16))
            seqs[which] = Sequence(prompt, output, key=which, blocks=blocks)
            events.append(Arrival(at, (seqs[which],)))
        elif which in seqs:
            events.append(Abort(at, seqs[which]))
    return events, list(seqs.values())


def facts(seq: Sequence) -> tuple[Any, ...]:
    return (
        seq.state,
        seq.engine_ns,
        seq.admitted_ns,
        seq.first_ns,
        seq.end_ns,
        seq.cached_tokens,
        seq.preemptions,
    )


@settings(max_examples=300, deadline=None)
@given(profiles(), workloads(), st.lists(st.integers(0, 4_000 * MS), max_size=30))
def test_polling_changes_nothing(
    drawn: Profile, acts: list[tuple[str, int, int, int, int]], polls: list[int]
) -> None:
    """A live driver, that looks at odd times and late, and the simulator agree to the ns."""
    events, seqs = events_of(acts)
    simulated = EngineDeployment(drawn)
    list(replay(simulated, events))

    live_events, live_seqs = events_of(acts)
    live = EngineDeployment(drawn, keep_history=True)
    stops = sorted(
        [(e.at_ns, 1, e) for e in live_events] + [(p, 0, None) for p in polls],
        key=lambda stop: stop[:2],
    )
    for at, _, event in stops:
        if event is None:
            live.advance(at)
        elif isinstance(event, Arrival):
            live.submit(event.seqs, at)
        else:
            live.abort(event.seq, at)
    list(run_out(live))
    assert [facts(s) for s in seqs] == [facts(s) for s in live_seqs]


@settings(max_examples=300, deadline=None)
@given(profiles(), workloads())
def test_every_request_ends_once_and_nothing_is_left(
    drawn: Profile, acts: list[tuple[str, int, int, int, int]]
) -> None:
    events, seqs = events_of(acts)
    deployment = EngineDeployment(drawn)
    ended = list(replay(deployment, events))
    assert sorted(map(id, ended)) == sorted(map(id, seqs))
    assert all(s.state in (State.FINISHED, State.ABORTED) for s in seqs)
    assert deployment.unfinished == 0
    for replica in deployment.replicas:
        assert (replica.running, replica.waiting) == (0, 0)
        assert replica.kv_used(FOREVER) == 0.0


@settings(max_examples=300, deadline=None)
@given(profiles(), workloads(), st.integers(1, 40))
def test_tokens_come_in_order_and_never_early(
    drawn: Profile, acts: list[tuple[str, int, int, int, int]], stride: int
) -> None:
    """What is shown at any moment is monotone, and no token is shown before it is due."""
    events, seqs = events_of(acts)
    deployment = EngineDeployment(drawn, keep_history=True)
    shown = dict.fromkeys(map(id, seqs), 0)
    pending = list(events)
    now = 0
    for _ in range(2000):
        now += stride * MS
        while pending and pending[0].at_ns <= now:
            event = pending.pop(0)
            if isinstance(event, Arrival):
                deployment.submit(event.seqs, event.at_ns)
            else:
                deployment.abort(event.seq, event.at_ns)
        deployment.advance(now)
        for seq in seqs:
            if seq.clock is None or seq.state is State.ABORTED:
                continue
            count = seq.tokens_by(seq.clock.shown_by(now))
            if count > shown[id(seq)]:
                due = [seq.due(i) for i in range(shown[id(seq)], count)]
                assert due == sorted(due)
                assert due[-1] <= now
                shown[id(seq)] = count
        if not pending and deployment.next_ns == FOREVER:
            break
    list(run_out(deployment))
    for seq in seqs:
        if seq.state is State.FINISHED and seq.clock is not None:
            assert seq.tokens_by(seq.clock.shown_by(FOREVER - 1)) == seq.output_tokens


@settings(max_examples=300, deadline=None)
@given(engines, workloads(), st.integers(1, 200), st.integers(0, 60))
def test_a_request_that_comes_last_speeds_nobody_up(
    engine: Engine, acts: list[tuple[str, int, int, int, int]], prompt: int, output: int
) -> None:
    """Adding a request at the end never lets another finish sooner, whatever the limits.

    With prefill on its own hardware a prompt is done at a time that no step changes, and which
    boundary it meets is the phase that the next test bounds; so this one is for shared steps.
    """
    chunked = replace(engine, replicas=1, disaggregated_prefill=False)
    alone = Profile(name="one", title="one", engine=chunked)
    acts = [a for a in acts if a[0] == "arrive"]
    without, seqs = events_of(acts)
    list(replay(EngineDeployment(alone), without))
    with_it, others = events_of(acts)
    last = max(a[1] for a in acts)
    list(replay(EngineDeployment(alone), [*with_it, Arrival(last, (Sequence(prompt, output),))]))
    for before, after in zip(seqs, others, strict=True):
        assert after.end_ns >= before.end_ns - 1


@settings(max_examples=300, deadline=None)
@given(
    st.floats(0.5, 20.0),
    st.sampled_from([0, 1, 2, 3]),
    workloads(),
    st.tuples(st.integers(0, 3_000 * MS), st.integers(1, 200), st.integers(0, 60)),
)
def test_on_a_flat_step_an_added_request_speeds_nobody_up(
    step_ms: float,
    slots: int,
    acts: list[tuple[str, int, int, int, int]],
    extra: tuple[int, int, int],
) -> None:
    """With a flat step a request added anywhere never lets another finish a step sooner.

    Up to one step is the phase of the boundaries, which an arrival at an idle engine sets.
    """
    flat = profile(step_ms=step_ms, max_num_seqs=slots)
    acts = [a for a in acts if a[0] == "arrive"]
    without, seqs = events_of(acts)
    list(replay(EngineDeployment(flat), without))
    with_it, others = events_of(acts)
    added = [*with_it, Arrival(extra[0], (Sequence(extra[1], extra[2]),))]
    added.sort(key=lambda e: e.at_ns)
    list(replay(EngineDeployment(flat), added))
    for before, after in zip(seqs, others, strict=True):
        assert after.end_ns > before.end_ns - step_ms * MS * 1.000001
