"""From measured steps and waits to the coefficients of a profile.

Decode: a run of b streams gives step = step_ms + per_seq * batch^exponent + per_kv_token * kv.
Prefill: a request by itself has its first token after

    overhead + chunks * (step_ms + per_seq + prefill_step) + per_prefill_token * prompt
             + per_kv_token * prompt * chunks,      chunks = ceil(prompt / max_num_batched_tokens)

and a prompt that comes while another stream decodes lengthens one of that stream's steps by its
prefill. The first leaves overhead and prefill_step together, the second tells them apart. Where
prompts hold nobody up, they are prefilled on hardware of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.fit.probe.regress import Row, Solution, nonnegative

_EXPONENTS = tuple(i / 50 for i in range(15, 51))
_REPLICAS = (1, 2, 4, 8, 16, 32)
_CHUNKS = tuple(1 << i for i in range(8, 17))
_SIMPLER = 12.0
"""What a freer model must win in chi squared before it is believed."""
_NO_CHUNK = 1 << 40
_CLEAR = 6.0
_HARDLY = 0.2
"""Of what their prefill takes: prompts that hold others up by less don't."""
_FINEST_STEP = 5e-4
_FINEST_WAIT_MS = 1.0
_FINEST_SHIFT_MS = 0.2


@dataclass(frozen=True, slots=True)
class Decode:
    """The step that `streams` streams saw, with `context` tokens each on average."""

    streams: int
    context: float
    step_ms: float
    error_ms: float


@dataclass(frozen=True, slots=True)
class Wait:
    """A TTFT on an idle endpoint."""

    prompt: int
    ms: float


@dataclass(frozen=True, slots=True)
class Shift:
    """By how much a prompt held up a stream that decoded beside it."""

    prompt: int
    ms: float
    error_ms: float


@dataclass(frozen=True, slots=True)
class Engine:
    """What was identified; the names are a profile's."""

    step_ms: float
    step_ms_per_seq: float
    seq_exponent: float
    step_ms_per_kv_token: float
    replicas: int = 1
    tenants: float = 0.0
    overhead_ms: float = 0.0
    step_ms_per_prefill_token: float = 0.0
    prefill_step_ms: float = 0.0
    max_num_batched_tokens: int = 0
    """0: no prompt was long enough to show it."""
    disaggregated_prefill: bool = False

    def step(self, batch: float, kv_tokens: float) -> float:
        """A step without prefill (ms)."""
        share = math.pow(batch + self.tenants, self.seq_exponent)
        return self.step_ms + self.step_ms_per_seq * share + self.step_ms_per_kv_token * kv_tokens


def batch_of(streams: int, replicas: int) -> float:
    """The batch that a stream is in on average, spread evenly: weighted by who sees it."""
    each, more = divmod(streams, replicas)
    return (more * (each + 1) ** 2 + (replicas - more) * each**2) / streams


def identify_decode(rows: Sequence[Decode], *, replicas: int = 0, tenants: float = 0.0) -> Engine:
    """The coefficients of decode. `replicas` 0: found where the steps show it.

    A step that is linear in the batch on one replica is believed unless the rows clearly say
    otherwise.
    """
    simple = (1, 1.0)
    tries = [(r, 1.0) for r in ((replicas,) if replicas else _REPLICAS)]
    tries += [(replicas or 1, exponent) for exponent in _EXPONENTS if exponent < 1.0]
    best: tuple[float, tuple[int, float], Solution] | None = None
    for replica_count, exponent in tries:
        solution = _decode(rows, replica_count, exponent, tenants)
        charge = 0.0 if (replica_count, exponent) in {simple, (replicas, 1.0)} else _SIMPLER
        score = solution.chi2 + charge * max(solution.scale, 1.0)
        if best is None or score < best[0]:
            best = score, (replica_count, exponent), solution
    assert best is not None
    (found_replicas, exponent), (step, per_seq, per_kv) = best[1], best[2].values
    if not per_seq:
        found_replicas, exponent = replicas or 1, 1.0
    return Engine(step, per_seq, exponent, per_kv, found_replicas, tenants)


def _decode(rows: Sequence[Decode], replicas: int, exponent: float, tenants: float) -> Solution:
    table = []
    for row in rows:
        batch = batch_of(row.streams, replicas)
        x = (1.0, (batch + tenants) ** exponent, batch * row.context)
        table.append(Row(x, row.step_ms, max(row.error_ms, _FINEST_STEP * row.step_ms)))
    return nonnegative(table)


def identify_prefill(
    engine: Engine, waits: Sequence[Wait], shifts: Sequence[Shift], wait_error_ms: float
) -> Engine:
    """Add overhead, prefill and the chunk to an engine whose decode is known."""
    apart = replace(engine, disaggregated_prefill=True)
    overhead, per_token, _ = _prefill(apart, waits, (), wait_error_ms, _NO_CHUNK).values
    expected = sum(per_token * shift.prompt for shift in shifts)
    error = math.sqrt(sum(shift.error_ms**2 for shift in shifts))
    if expected > _CLEAR * error and sum(shift.ms for shift in shifts) < _HARDLY * expected:
        return replace(apart, overhead_ms=overhead, step_ms_per_prefill_token=per_token)
    longest = max(wait.prompt for wait in waits)
    best, found = _prefill(engine, waits, shifts, wait_error_ms, _NO_CHUNK), 0
    for chunk in reversed([chunk for chunk in _CHUNKS if chunk < longest]):
        solution = _prefill(engine, waits, shifts, wait_error_ms, chunk)
        if solution.chi2 + (0.0 if found else _SIMPLER * solution.scale) < best.chi2:
            best, found = solution, chunk
    overhead, per_token, prefill_step = best.values
    return replace(
        engine,
        overhead_ms=overhead,
        step_ms_per_prefill_token=per_token,
        prefill_step_ms=prefill_step,
        max_num_batched_tokens=found,
    )


def _prefill(
    engine: Engine,
    waits: Sequence[Wait],
    shifts: Sequence[Shift],
    wait_error_ms: float,
    chunk: int,
) -> Solution:
    alone = engine.step(1, 0.0)
    beside = engine.step(2, 0.0) - alone
    table = []
    for wait in waits:
        steps = 0 if engine.disaggregated_prefill else math.ceil(wait.prompt / chunk)
        known = steps * (alone + engine.step_ms_per_kv_token * wait.prompt)
        sigma = max(wait_error_ms, _FINEST_WAIT_MS, 2e-3 * wait.ms)
        table.append(Row((1.0, wait.prompt, steps), wait.ms - known, sigma))
    for shift in shifts:
        steps = math.ceil(shift.prompt / chunk)
        known = steps * (beside + engine.step_ms_per_kv_token * shift.prompt)
        sigma = max(shift.error_ms, _FINEST_SHIFT_MS)
        table.append(Row((0.0, shift.prompt, steps), shift.ms - known, sigma))
    return nonnegative(table)
