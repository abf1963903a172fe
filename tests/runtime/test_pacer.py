"""The live driver on a clock moved by hand: what leaves when, and that it's what the model says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.core.deployment import deploy
from paceline.core.profile import Overhead, Profile, Variation
from paceline.core.sequence import State
from paceline.core.simulate import Abort, Arrival, replay
from paceline.runtime.pacer import LEAST_GAP_NS
from tests.runtime.pacing import MS, Rig, flat, ms, profile, twin


def test_tokens_leave_when_they_are_due() -> None:
    """A prompt of 5 at 2 ms a token in a step of 10 ms, then a token every 10 ms."""
    rig = Rig(profile(step_ms_per_prefill_token=2.0))
    _, reader = rig.ask(4, prompt=5)
    rig.run(19.999)
    assert reader.begun is None
    rig.run(100)
    assert ms(reader.left[0]) == [20.0, 30.0, 40.0, 50.0]
    assert reader.ended is not None
    assert ms([reader.ended]) == [50.0]
    assert reader.body == b"0:0-1 0:1-2 0:2-3 0:3-4 0:end done"
    assert rig.idle()


@pytest.mark.parametrize("rate", [40.0, 750.0, 1250.5])
def test_a_flat_rate_doesn_t_drift(rate: float) -> None:
    rig = Rig(flat(rate, ttft_ms=100.0))
    _, reader = rig.ask(2000)
    rig.run_out()
    step_ns = 1e9 / rate
    for token, left in enumerate(reader.left[0]):
        assert 0 <= left - (rig.answers[0].received_ns + 100 * MS + token * step_ns) + 1 <= 2


def test_two_choices_end_in_the_order_of_their_last_tokens() -> None:
    rig = Rig(profile())
    _, reader = rig.ask(5, 2, 3)
    rig.run_out()
    assert reader.finished == [1, 2, 0]
    assert {i: len(left) for i, left in reader.left.items()} == {0: 5, 1: 2, 2: 3}
    assert reader.body.endswith(b"0:end done")
    assert reader.body.count(b"done") == 1


@pytest.mark.parametrize("made", [profile(), flat(100.0)])
def test_a_whole_answer_waits_for_its_last_token(made: Profile) -> None:
    rig = Rig(made)
    _, reader = rig.ask(3, 10, 7, stream=False)
    rig.run_out()
    assert reader.begun is None
    assert reader.body == b""
    last = max(seq.due(seq.output_tokens - 1) for seq in rig.answers[0].seqs)
    assert reader.ended == last
    assert reader.usage is not None
    assert reader.usage.completion_tokens == 20
    assert rig.idle()


@pytest.mark.parametrize("made", [profile(step_ms_per_prefill_token=1.0), flat(100.0, 20.0)])
@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_without_tokens_still_takes_its_time(made: Profile, stream: bool) -> None:
    rig = Rig(made)
    _, reader = rig.ask(0, prompt=10, stream=stream)
    rig.run_out()
    assert reader.ended is not None
    assert ms([reader.ended]) == [20.0]
    assert reader.body == (b"0:end done" if stream else b"")
    assert rig.metrics.generation_tokens == 0
    assert rig.idle()


def test_none_and_some_tokens_in_one_answer() -> None:
    rig = Rig(profile())
    _, reader = rig.ask(0, 3)
    rig.run_out()
    assert reader.finished == [0, 1]
    assert reader.body.endswith(b"1:end done")
    assert rig.idle()


# -- lateness ----------------------------------------------------------------------------------


def test_what_is_late_leaves_together_and_is_told() -> None:
    """Timers 25 ms late on steps of 10 ms: three or so tokens a write, none lost, no drift."""
    rig = Rig(profile(), late_ns=25 * MS)
    _, reader = rig.ask(30)
    rig.run_out()
    seq = rig.answers[0].seqs[0]
    assert [seq.due(i) for i in (0, 29)] == [rig.answers[0].received_ns + i * MS for i in (10, 300)]
    assert len(reader.runs) < 15
    late = [left - seq.due(i) for i, left in enumerate(reader.left[0])]
    assert min(late) >= 0
    assert max(late) < 40 * MS
    lags = rig.metrics.lags
    assert lags.count == len(reader.runs)
    firsts = [start for _, start, _ in reader.runs]
    assert lags.sum == pytest.approx(sum(late[i] for i in firsts) / 1e9)
    assert rig.metrics.generation_tokens == 30


def test_the_record_has_every_write() -> None:
    rig = Rig(profile(), late_ns=3 * MS)
    _, reader = rig.ask(5)
    rig.run_out()
    record = rig.records.get("0")
    assert record is not None
    told = record.to_json()
    chunks = told["choices"][0]["chunks"]
    assert [chunk["due_ms"] for chunk in chunks] == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert [chunk["left_ms"] for chunk in chunks] == ms(reader.left[0])
    assert sum(chunk["tokens"] for chunk in chunks) == 5
    assert told["state"] == "finished"
    split = told["split_ms"]
    assert split["total"] == pytest.approx(sum(v for k, v in split.items() if k != "total"))
    assert split["lateness"] == pytest.approx(3.0)


# -- readers that leave, and slow ones ---------------------------------------------------------


def test_a_reader_that_leaves_makes_room() -> None:
    rig = Rig(profile(max_num_seqs=1))
    first, _ = rig.ask(1000)
    _, second = rig.ask(3)
    rig.run(95)
    assert second.begun is None
    rig.abort(first)
    rig.run_out()
    # The slot is free at the boundary of 100 ms, a step before the first token.
    assert ms(second.left[0]) == [110.0, 120.0, 130.0]
    assert rig.idle()
    assert rig.metrics.aborted_by == {"client_gone": 1}


@pytest.mark.parametrize("made", [profile(), flat(100.0)])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("at_ms", [0.0, 5.0, 10.0, 35.0, 99.999, 100.0])
def test_nothing_is_sent_to_a_reader_that_left(made: Profile, stream: bool, at_ms: float) -> None:
    rig = Rig(made)
    answer, reader = rig.ask(10, 10, stream=stream)
    rig.run(at_ms)
    over = answer.over
    rig.abort(answer)
    sent = reader.body
    rig.run(10_000)
    assert reader.body == sent
    assert (reader.ended is not None) == over
    assert rig.idle()
    assert rig.records.live == 0


def test_a_reader_leaves_between_the_last_token_and_its_writing() -> None:
    """The timer is late, so the engine is through with the answer when the reader goes."""
    for stream in (True, False):
        rig = Rig(profile(), late_ns=50 * MS)
        answer, _ = rig.ask(3, stream=stream)
        rig.run(45)
        assert answer in rig.pacer.answers
        rig.abort(answer)
        _, other = rig.ask(2)
        rig.run_out()
        assert other.ended is not None
        assert rig.idle()


def test_a_slow_reader_costs_only_itself() -> None:
    rig = Rig(profile())
    _, slow = rig.ask(20)
    _, other = rig.ask(20)
    rig.run(55)
    slow.blocked = True
    rig.run(1000)
    assert len(slow.left[0]) == 5
    assert slow.finished == []
    assert other.ended is not None
    seq = rig.answers[1].seqs[0]
    assert all(0 <= at - seq.due(i) <= LEAST_GAP_NS for i, at in enumerate(other.left[0]))
    slow.blocked = False
    assert slow.drained is not None
    slow.drained()
    rig.run(1)
    assert len(slow.left[0]) == 20
    assert slow.finished == [0]
    assert rig.idle()


@pytest.mark.parametrize("made", [profile(step_ms=0.01), flat(100_000.0)])
def test_a_reader_far_behind_catches_up_in_bounded_writes(made: Profile) -> None:
    rig = Rig(made)
    _, reader = rig.ask(5000)
    rig.run(1)
    reader.blocked = True
    rig.run(500)
    had = len(reader.left[0])
    reader.blocked = False
    assert reader.drained is not None
    reader.drained()
    rig.run(50)
    assert reader.ended is not None
    assert len(reader.left[0]) == 5000
    assert max(stop - start for _, start, stop in reader.runs) <= 1024
    assert had < 1000
    assert rig.idle()


def test_a_server_that_stops_tells_its_readers() -> None:
    rig = Rig(profile())
    begun, streaming = rig.ask(100)
    rig.run(25)
    waiting, early = rig.ask(100)
    whole, object_ = rig.ask(100, stream=False)
    for answer in (begun, waiting, whole):
        rig.pacer.break_off(answer, "stop")
    rig.run(1000)
    assert streaming.body.endswith(b"failed: server_shutting_down")
    assert early.refused == object_.refused == (503, "server_shutting_down")
    assert rig.idle()
    assert rig.metrics.aborted_by == {"shutdown": 3}


# -- whatever happens --------------------------------------------------------------------------

PROFILES = st.builds(
    lambda engine, overhead, variation: replace(
        profile(**engine), overhead=overhead, variation=variation
    ),
    st.fixed_dictionaries(
        {
            "step_ms": st.sampled_from([0.7, 10.0]),
            "step_ms_per_seq": st.sampled_from([0.0, 0.3]),
            "step_ms_per_kv_token": st.sampled_from([0.0, 0.001]),
            "step_ms_per_prefill_token": st.sampled_from([0.0, 0.05]),
            "max_num_seqs": st.sampled_from([0, 1, 3]),
            "max_num_batched_tokens": st.sampled_from([16, 8192]),
            "kv_cache_tokens": st.sampled_from([0, 400]),
            "replicas": st.sampled_from([1, 2]),
            "disaggregated_prefill": st.booleans(),
        }
    )
    | st.just({"step_ms": 5.0, "tokens_per_step": 2.5, "draft_tokens": 3, "kv_cache_tokens": 300}),
    st.sampled_from([Overhead(), Overhead(api_ms_p50=3.0, api_ms_p90=9.0, pipeline_stages=2)]),
    st.sampled_from(
        [Variation(), Variation(jitter=0.2), Variation(0.1, stall_ms=7.0, stall_every_steps=5)]
    ),
)
Action = tuple[float, list[int], int, bool, float | None]
"""Milliseconds since the last, choices' tokens, prompt, streamed, when its reader leaves."""
ACTIONS: st.SearchStrategy[list[Action]] = st.lists(
    st.tuples(
        st.floats(0.0, 60.0),
        st.lists(st.integers(0, 40), min_size=1, max_size=3),
        st.integers(1, 120),
        st.booleans(),
        st.none() | st.floats(0.0, 200.0),
    ),
    min_size=1,
    max_size=7,
)


@given(PROFILES | st.sampled_from([flat(40.0), flat(3000.0, 12.0)]), ACTIONS, st.data())
@settings(max_examples=400)
def test_live_is_the_model_and_never_early(
    made: Profile, actions: list[Action], data: st.DataObject
) -> None:
    """Every token once, in order, never before it is due; each answer ends once; all is freed.

    And what the deployment saw, replayed in virtual time, gives the same schedule to the
    nanosecond, however late the timers were.
    """
    rig = Rig(made, late_ns=data.draw(st.sampled_from([0, 30_000, 4 * MS, 35 * MS])))
    readers = []
    leaving: list[tuple[int, int]] = []
    for number, (gap_ms, tokens, prompt, stream, leaves_ms) in enumerate(actions):
        at_ns = rig.clock.now_ns() + round(gap_ms * MS)
        go_on(rig, leaving, at_ns)
        _, reader = rig.ask(*tokens, prompt=prompt, stream=stream, key=1000)
        readers.append(reader)
        if leaves_ms is not None:
            leaving.append((rig.clock.now_ns() + round(leaves_ms * MS), number))
    go_on(rig, leaving, rig.clock.now_ns() + 200 * MS)
    rig.run_out()

    assert rig.idle()
    assert rig.records.live == 0
    for answer, reader in zip(rig.answers, readers, strict=True):
        aborted = any(seq.state is State.ABORTED for seq in answer.seqs) or reader.ended is None
        assert aborted == (reader.ended is None)
        if aborted:
            assert answer.record.state == "aborted"
        else:
            assert all(seq.state is State.FINISHED for seq in answer.seqs)
        for index, left in reader.left.items():
            seq = answer.seqs[index]
            assert aborted or len(left) == seq.output_tokens
        if reader.ended is not None:
            assert reader.ended >= max(seq.end_ns for seq in answer.seqs)

    twins = {id(seq): twin(seq) for answer in rig.answers for seq in answer.seqs}
    events = [
        Arrival(event.at_ns, tuple(twins[id(seq)] for seq in event.seqs))
        if isinstance(event, Arrival)
        else Abort(event.at_ns, twins[id(event.seq)])
        for event in rig.events
    ]
    ended = list(replay(deploy(made, keep_history=True), events))
    assert sorted(map(id, ended)) == sorted(map(id, twins.values())), "each ends exactly once"
    for answer in rig.answers:
        for live in answer.seqs:
            simulated = twins[id(live)]
            for name in ("state", "engine_ns", "admitted_ns", "first_ns", "end_ns", "preemptions"):
                assert getattr(live, name) == getattr(simulated, name), name
            if live.state is State.FINISHED and live.output_tokens:
                tokens_due = [live.due(i) for i in range(live.output_tokens)]
                assert tokens_due == [simulated.due(i) for i in range(live.output_tokens)]


def go_on(rig: Rig, leaving: list[tuple[int, int]], until_ns: int) -> None:
    """Let time go by, and readers leave when they do."""
    for at_ns, number in sorted(leaving):
        if at_ns <= until_ns:
            rig.clock.advance(at_ns - rig.clock.now_ns())
            rig.abort(rig.answers[number])
            leaving.remove((at_ns, number))
    rig.clock.advance(until_ns - rig.clock.now_ns())


@pytest.mark.parametrize("made", [profile(), flat(100.0)])
def test_a_fault_in_one_answer_costs_no_other_a_token(
    made: Profile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An encoder that fails at its third token ends its own answer with an error, and only that."""
    rig = Rig(made)
    broken, _ = rig.ask(10)
    _, reader = rig.ask(10)
    encoder = broken.streams[0].encoder
    assert encoder is not None
    honest = encoder.tokens

    def fails(start: int, stop: int) -> bytes:
        if stop > 2:
            raise RuntimeError("a fault")
        return honest(start, stop)

    monkeypatch.setattr(encoder, "tokens", fails)
    rig.run_out()
    assert broken.over
    assert broken.record.state == "failed"
    assert len(reader.left[0]) == 10
    assert reader.ended is not None
    assert "writing an answer failed" in caplog.text
    assert rig.idle()
