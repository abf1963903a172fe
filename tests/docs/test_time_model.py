"""The examples of docs/time-model.md are what the model does."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from paceline.core.deployment import EngineDeployment
from paceline.core.profile import Engine, Profile
from paceline.core.sequence import Sequence
from paceline.core.simulate import Arrival, replay

MS = 1_000_000


class Request(NamedTuple):
    at_ms: float
    prompt: int
    output: int


def run(requests: list[Request], **engine: Any) -> list[Sequence]:
    """Every request's sequence after all have ended, in the order given."""
    profile = Profile(name="page", title="page", engine=Engine(**{"step_ms": 10.0, **engine}))
    seqs = [Sequence(r.prompt, r.output) for r in requests]
    # The page's times may be negative; only differences count.
    arrivals = [
        Arrival(round((r.at_ms + 100) * MS), (seq,)) for r, seq in zip(requests, seqs, strict=True)
    ]
    list(
        replay(
            EngineDeployment(profile, keep_history=True), sorted(arrivals, key=lambda a: a.at_ns)
        )
    )
    return seqs


def end_ms(seq: Sequence) -> float:
    return seq.end_ns / MS - 100


def due_ms(seq: Sequence) -> list[float]:
    return [seq.due(token) / MS - 100 for token in range(seq.output_tokens)]


def test_the_worked_example() -> None:
    a, b = run([Request(0, 1, 5), Request(30, 1, 2)], step_ms_per_seq=2.0)
    assert due_ms(a) == pytest.approx([12, 24, 36, 50, 64])
    assert due_ms(b) == pytest.approx([50, 64])


def test_two_prompts_sharing_chunks() -> None:
    w, a, b = run(
        [Request(0, 1, 50), Request(1, 60, 3), Request(2, 80, 2)],
        step_ms_per_prefill_token=1.0,
        max_num_batched_tokens=100,
    )
    assert due_ms(w)[0] == pytest.approx(11)
    assert due_ms(a) == pytest.approx([121, 171, 181])
    assert due_ms(b) == pytest.approx([171, 181])


def test_the_phase_of_the_boundaries() -> None:
    a, b = Request(0, 1, 9), Request(12, 1, 1)
    assert [end_ms(s) for s in run([a, b])] == pytest.approx([90, 30])
    assert [end_ms(s) for s in run([a, b, Request(-2, 1, 1)])] == pytest.approx([98, 28, 8])


def test_a_slot_taken_before_a_long_prompt() -> None:
    engine = {"step_ms_per_prefill_token": 1.0, "max_num_seqs": 2}
    a, c = Request(0, 1, 5), Request(5, 1000, 1)
    assert end_ms(run([a, c], **engine)[0]) == pytest.approx(1051)
    assert end_ms(run([a, c, Request(1, 1, 10)], **engine)[0]) == pytest.approx(52)


def test_a_long_prompt_on_the_other_side_of_a_last_token() -> None:
    engine = {"step_ms_per_prefill_token": 1.0}
    w, a, p = Request(0, 1, 20), Request(12, 1, 3), Request(38, 300, 1)
    assert end_ms(run([w, a, p], **engine)[1]) == pytest.approx(352)
    assert end_ms(run([w, a, p, Request(-5, 1, 1)], **engine)[1]) == pytest.approx(48)
