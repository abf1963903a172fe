"""What an answer tells of itself: its times, its counts, its record, its metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.core.profile import Overhead, PrefixCache
from tests.runtime.pacing import Rig, flat, ms, profile


def test_hidden_tokens_take_time_and_count_but_show_nothing() -> None:
    rig = Rig(profile())
    _, reader = rig.ask(5, reasoning=3)
    rig.run(35)
    assert reader.body == b""
    assert rig.metrics.generation_tokens == 3
    rig.run_out()
    assert reader.body == b"0:3-4 0:4-5 0:end done"
    assert ms(reader.left[0]) == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert reader.usage is not None
    assert (reader.usage.completion_tokens, reader.usage.reasoning_tokens) == (5, 3)
    assert rig.metrics.generation_tokens == 5


def test_the_first_token_of_any_channel_is_the_first() -> None:
    """The headers leave with it, and the time to first token is its time."""
    rig = Rig(profile())
    _, reader = rig.ask(5, reasoning=3)
    rig.run(11)
    assert reader.begun is not None
    assert ms([reader.begun]) == [10.0]
    assert rig.metrics.ttft.count == 1
    assert rig.metrics.ttft.sum == pytest.approx(0.010)
    rig.run_out()
    assert rig.metrics.ttft.count == 1


def test_the_times_of_a_request_that_waited() -> None:
    """An API layer of 7 ms; then a first answer of 50 ms in the only slot."""
    made = replace(
        profile(max_num_seqs=1, step_ms_per_prefill_token=1.0),
        overhead=Overhead(api_ms_p50=7.0, api_ms_p90=7.0),
    )
    rig = Rig(made)
    rig.ask(4, prompt=10)
    _, reader = rig.ask(2, prompt=5)
    rig.run_out()
    assert reader.timing is not None
    timing = reader.timing
    assert timing.overhead_s == pytest.approx(0.007)
    assert timing.queue_s == pytest.approx(0.050)
    assert timing.prefill_s == pytest.approx(0.015)
    assert timing.ttft_s == pytest.approx(0.072)
    record = rig.records.get("1")
    assert record is not None
    split = record.split()
    assert split == pytest.approx(
        {
            "overhead": 7.0,
            "queue": 50.0,
            "prefill": 15.0,
            "decode": 10.0,
            "lateness": 0.0,
            "total": 82.0,
        }
    )
    assert rig.metrics.queue.sum == pytest.approx(0.050)
    assert rig.metrics.prefill.sum == pytest.approx(0.020 + 0.015)
    assert rig.metrics.decode.sum == pytest.approx(0.030 + 0.010)
    assert rig.metrics.e2e.sum == pytest.approx(0.057 + 0.082)


@pytest.mark.parametrize("stream", [True, False])
def test_metrics_are_the_same_streamed_or_not(stream: bool) -> None:
    rig = Rig(profile())
    rig.ask(11, prompt=3, stream=stream)
    rig.run_out()
    metrics = rig.metrics
    assert metrics.ttft.sum == pytest.approx(0.010)
    assert metrics.tpot.sum == pytest.approx(0.010)
    assert metrics.e2e.sum == pytest.approx(0.110)
    assert metrics.prompt == 3
    assert metrics.generation_tokens == 11
    assert metrics.endings["length"] == 1
    assert metrics.gaps.count == (10 if stream else 0)
    assert metrics.lags.count == (11 if stream else 0)


def test_an_aborted_answer_counts_what_was_sent() -> None:
    rig = Rig(profile())
    answer, _ = rig.ask(100)
    rig.run(55)
    rig.abort(answer)
    rig.run_out()
    assert rig.metrics.generation_tokens == 5
    assert rig.metrics.endings["abort"] == 1
    assert rig.metrics.e2e.count == 0
    assert answer.record.state == "aborted"
    assert answer.record.first_due_ns is not None


def test_one_that_was_aborted_before_its_first_token_has_no_times() -> None:
    rig = Rig(profile(step_ms_per_prefill_token=10.0))
    answer, _ = rig.ask(3, prompt=100)
    rig.run(55)
    rig.abort(answer)
    rig.run_out()
    told = answer.record.to_json()
    assert told["times_ms"]["first_token_due"] is None
    assert told["split_ms"]["total"] == 55.0
    assert rig.metrics.ttft.count == 0


def test_cached_tokens_are_told_once_for_all_choices() -> None:
    made = replace(profile(), prefix_cache=PrefixCache(min_tokens=0, block_tokens=4))
    rig = Rig(made)
    for expected in (0, 8):
        answer, reader = rig.ask(2, 2, 2, prompt=10, blocks=(11, 12))
        rig.run_out()
        assert reader.usage is not None
        assert reader.usage.cached_tokens == expected
        assert reader.usage.prompt_tokens == 10
        assert answer.record.cached_tokens == expected
    assert rig.metrics.prefix_hits == 8


def test_a_finished_answer_is_let_go() -> None:
    rig = Rig(flat(100.0))
    answer, reader = rig.ask(3)
    rig.run_out()
    assert answer.over
    assert answer.streams == []
    assert reader.drained is None
    assert rig.records.live == 0
    assert all(seq.owner is None for seq in answer.seqs)
