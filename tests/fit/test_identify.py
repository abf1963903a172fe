"""Lines through token times, least squares without negatives, and what they identify."""

from __future__ import annotations

import math
import random

import pytest

from paceline.fit.linear import solve
from paceline.fit.probe.identify import (
    Decode,
    Engine,
    Shift,
    Wait,
    batch_of,
    identify_decode,
    identify_prefill,
)
from paceline.fit.probe.regress import Row, nonnegative
from paceline.fit.probe.trace import line_with_shifts, line_with_stalls


def token_times(count: int, step_ms: float, jitter: float = 0.0) -> list[float]:
    drawn = random.Random(3)
    width = jitter * math.sqrt(12) * step_ms
    return [(step_ms * j + drawn.random() * width) / 1000 for j in range(count)]


def test_a_positive_definite_system_is_solved_and_no_other() -> None:
    assert solve([[4.0, 0.0], [2.0, 3.0]], [8.0, 7.0]) == pytest.approx([1.25, 1.5])
    with pytest.raises(ValueError, match="not positive definite"):
        solve([[1.0, 0.0], [2.0, 1.0]], [1.0, 1.0])


def test_jitter_averages_out_of_a_line() -> None:
    line = line_with_stalls(token_times(256, 25.0, jitter=0.1))
    assert line.step_ms == pytest.approx(25.0, abs=4 * line.error_ms)
    assert line.error_ms < 0.003
    assert line.scatter_ms == pytest.approx(2.5, rel=0.1)
    assert line.shifts_ms == ()


def test_several_tokens_an_event_are_several_steps() -> None:
    assert line_with_stalls(token_times(50, 25.0), per_event=2.5).step_ms == pytest.approx(10.0)


def test_a_stall_is_taken_out_and_reported() -> None:
    times = token_times(256, 25.0, jitter=0.1)
    stalled = [at + (0.044 if j >= 100 else 0.0) for j, at in enumerate(times)]
    line = line_with_stalls(stalled)
    assert line.shifts_ms == pytest.approx((44.0,), abs=2.0)
    assert line.step_ms == pytest.approx(25.0, abs=0.01)


def test_tokens_that_only_came_in_late_are_no_stall() -> None:
    times = token_times(256, 5.0)
    late = [max(at, 0.52) if 0.5 <= at < 0.52 else at for at in times]
    line = line_with_stalls(late)
    assert line.shifts_ms == ()
    assert line.step_ms == pytest.approx(5.0, abs=1e-6)


def test_shifts_at_known_places() -> None:
    times = [at + 0.01 * (j >= 20) + 0.03 * (j >= 40) for j, at in enumerate(token_times(60, 8.0))]
    assert line_with_shifts(times, [20, 40]).shifts_ms == pytest.approx((10.0, 30.0))


def test_coefficients_without_evidence_are_nothing() -> None:
    drawn = random.Random(5)
    rows = [
        Row((1.0, float(i), drawn.random()), 3.0 + 2.0 * i + drawn.gauss(0, 0.01), 0.01)
        for i in range(12)
    ]
    constant, slope, nothing = nonnegative(rows).values
    assert constant == pytest.approx(3.0, abs=0.03)
    assert slope == pytest.approx(2.0, abs=0.01)
    assert nothing == 0.0


def test_no_coefficient_is_negative_and_one_broken_row_is_left_out() -> None:
    rows = [Row((1.0, float(i)), 5.0 - 0.1 * i, 0.01) for i in range(8)]
    assert nonnegative(rows).values[1] == 0.0
    rows = [Row((1.0, float(i)), 5.0 + i, 0.01) for i in range(12)]
    rows[4] = Row((1.0, 4.0), 300.0, 0.01)
    assert nonnegative(rows).values == pytest.approx((5.0, 1.0))


def test_the_batch_that_a_stream_sees() -> None:
    assert batch_of(8, 1) == 8.0
    assert batch_of(3, 8) == 1.0
    assert batch_of(12, 8) == pytest.approx((4 * 2 * 2 + 4) / 12)


def decode_rows(engine: Engine) -> list[Decode]:
    rows = []
    for streams, context in (
        (1, 100),
        (2, 100),
        (4, 100),
        (8, 100),
        (16, 100),
        (32, 100),
        (8, 8000),
    ):
        batch = batch_of(streams, engine.replicas)
        rows.append(Decode(streams, context, engine.step(batch, batch * context), 0.002))
    return rows


@pytest.mark.parametrize(
    "engine",
    [
        Engine(8.0, 0.25, 1.0, 4e-5),
        Engine(5.0, 0.8, 0.6, 4e-5),
        Engine(18.4, 0.163, 1.0, 0.0, replicas=8, tenants=39.5),
        Engine(1.333, 0.0, 1.0, 0.0),
    ],
    ids=["linear", "concave", "replicas", "flat"],
)
def test_decode_is_identified(engine: Engine) -> None:
    found = identify_decode(decode_rows(engine), tenants=engine.tenants)
    assert found.replicas == engine.replicas
    assert found.step_ms == pytest.approx(engine.step_ms, rel=1e-3)
    assert found.step_ms_per_seq == pytest.approx(engine.step_ms_per_seq, rel=5e-3)
    assert found.seq_exponent == pytest.approx(engine.seq_exponent)
    assert found.step_ms_per_kv_token == pytest.approx(engine.step_ms_per_kv_token, rel=5e-3)


DECODE = Engine(8.0, 0.25, 1.0, 1e-5)


def waits(chunk: int, overhead: float, per_token: float, prefill_step: float) -> list[Wait]:
    found = []
    for prompt in (15, 15, 15, *range(1000, 8001, 1000)):
        steps = math.ceil(prompt / chunk)
        engine = steps * (DECODE.step(1, prompt) + prefill_step) + per_token * prompt
        found.append(Wait(prompt, overhead + engine))
    return found


def shifts(per_token: float, prefill_step: float) -> list[Shift]:
    beside = DECODE.step(2, 0) - DECODE.step(1, 0)
    return [
        Shift(prompt, prefill_step + beside + (per_token + 1e-5) * prompt, 0.2)
        for prompt in (500, 1000, 1500, 2000)
    ]


def test_prefill_overhead_and_chunk_are_identified() -> None:
    found = identify_prefill(DECODE, waits(2048, 60.0, 0.03, 4.0), shifts(0.03, 4.0), 0.3)
    assert found.overhead_ms == pytest.approx(60.0, rel=1e-3)
    assert found.step_ms_per_prefill_token == pytest.approx(0.03, rel=1e-3)
    assert found.prefill_step_ms == pytest.approx(4.0, rel=1e-2)
    assert found.max_num_batched_tokens == 2048
    assert not found.disaggregated_prefill


def test_a_chunk_that_no_prompt_reached_is_unknown() -> None:
    found = identify_prefill(DECODE, waits(1 << 20, 60.0, 0.03, 0.0), shifts(0.03, 0.0), 0.3)
    assert found.max_num_batched_tokens == 0
    assert found.prefill_step_ms == 0.0


def test_prompts_that_hold_nobody_up_are_prefilled_elsewhere() -> None:
    alone = [Wait(prompt, 60.0 + 0.03 * prompt) for prompt in (15, 15, *range(1000, 8001, 1000))]
    unmoved = [Shift(prompt, 0.01, 0.05) for prompt in (500, 1000, 1500, 2000)]
    found = identify_prefill(DECODE, alone, unmoved, 0.3)
    assert found.disaggregated_prefill
    assert found.overhead_ms == pytest.approx(60.0)
    assert found.step_ms_per_prefill_token == pytest.approx(0.03)
