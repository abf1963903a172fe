"""What a probe has identified, as a profile."""

from __future__ import annotations

import math
from collections.abc import Iterable

from paceline.fit.document import Document, Source
from paceline.fit.points import quantile
from paceline.fit.probe.identify import Engine, Wait, identify_decode, identify_prefill
from paceline.fit.probe.plan import Observed

_IQR_IN_DEVIATIONS = 1.35
"""Of a normal distribution."""
_STEADY, _STEADY_MS = 1.1, 5.0
"""A p90 of TTFT this close to its median is one value and noise."""
_NEARBY_MS = 5.0
"""A round trip below this is this machine's own, and nothing of the endpoint."""
_LEAST_SCATTER_MS = 0.5
"""Less can't be told from this client's own lateness."""
_LEAST_JITTER = 0.03
_MOST_JITTER = 0.25


def identify(seen: Observed, *, replicas: int = 0, tenants: float = 0.0) -> Engine:
    """The engine behind what a probe has seen."""
    engine = identify_decode(seen.decode, replicas=replicas, tenants=tenants)
    low, middle, high = (quantile(seen.tiny_ms, q) or 0.0 for q in (0.25, 0.5, 0.75))
    error = (high - low) / _IQR_IN_DEVIATIONS
    # The median of the tiny ones in place of each: a client that was held up is late, never early.
    waits = [Wait(seen.tiny_tokens, middle)] * len(seen.tiny_ms)
    waits += seen.waits if error > _STEADY_MS else _soonest(seen.waits)
    return identify_prefill(engine, waits, seen.shifts, error)


def _soonest(waits: Iterable[Wait]) -> list[Wait]:
    """Of prompts of one length the shortest wait, where all should be the same."""
    best: dict[int, Wait] = {}
    for wait in waits:
        known = best.setdefault(wait.prompt, wait)
        if wait.ms < known.ms:
            best[wait.prompt] = wait
    return list(best.values())


def jitter_of(seen: Observed) -> float:
    """The standard deviation of tokens around their line, in steps; 0: none shows."""
    jitter = seen.scatter_ms / seen.step_ms
    if seen.scatter_ms < _LEAST_SCATTER_MS or jitter < _LEAST_JITTER:
        return 0.0
    return min(jitter, _MOST_JITTER)


def probe_document(
    seen: Observed, engine: Engine, *, name: str, model: str, context_tokens: int = 0
) -> Document:
    """The profile of a probed model."""
    text = f"{seen.requests} requests to {model}"
    measured = Source("estimate", f"fitted on {text}")
    document = Document(name, f"{model}, probed")
    context = context_tokens or 1 << (seen.longest + 1).bit_length()
    given = "given to paceline fit" if context_tokens else "the longest probed, to a power of two"
    kind = "estimate" if context_tokens else "hypothesis"
    document.put("limits.context_tokens", context, Source(kind, given))
    document.put(
        "limits.max_output_tokens", max(context // 2, 1), Source("hypothesis", "within the context")
    )
    if engine.replicas > 1:
        document.put("engine.replicas", engine.replicas, measured)
    document.put("engine.step_ms", engine.step_ms, measured)
    document.put("engine.step_ms_per_seq", engine.step_ms_per_seq, measured)
    document.put("engine.seq_exponent", engine.seq_exponent, measured)
    document.put("engine.step_ms_per_kv_token", engine.step_ms_per_kv_token, measured)
    document.put("engine.step_ms_per_prefill_token", engine.step_ms_per_prefill_token, measured)
    document.put("engine.prefill_step_ms", engine.prefill_step_ms, measured)
    if engine.disaggregated_prefill:
        document.put("engine.disaggregated_prefill", True, measured)
    if engine.max_num_batched_tokens:
        document.put("engine.max_num_batched_tokens", engine.max_num_batched_tokens, measured)
    if seen.slots:
        slots = math.ceil(seen.slots / engine.replicas) + math.ceil(engine.tenants)
        document.put("engine.max_num_seqs", slots, measured)
    if engine.tenants:
        document.put("tenants.running", engine.tenants, Source("estimate", "given to paceline fit"))
    _put_overhead(document, seen, engine, measured)
    _put_variation(document, seen, measured)
    return document


def _put_overhead(document: Document, seen: Observed, engine: Engine, source: Source) -> None:
    p50, p90 = quantile(seen.tiny_ms, 0.5) or 0.0, quantile(seen.tiny_ms, 0.9) or 0.0
    prefill = engine.step_ms_per_prefill_token * seen.tiny_tokens + engine.prefill_step_ms
    late = _mean_lateness_ms(seen) + seen.round_trip_ms
    if seen.round_trip_ms > _NEARBY_MS:
        document.put("overhead.round_trip_ms", seen.round_trip_ms, source)
    step = 0.0 if engine.disaggregated_prefill else engine.step(1, seen.tiny_tokens)
    rest = step + prefill + late
    if p90 <= max(_STEADY * p50, p50 + _STEADY_MS):
        overhead = max(engine.overhead_ms - late, 0.0)
        document.put("overhead.api_ms_p50", overhead, source)
        document.put("overhead.api_ms_p90", overhead, source)
    else:
        document.put("overhead.api_ms_p50", max(p50 - rest, 0.0), source)
        document.put("overhead.api_ms_p90", max(p90 - rest, 0.0), source)


def _mean_lateness_ms(seen: Observed) -> float:
    """What jitter adds to a first token: half its width, which is sqrt(12) deviations."""
    return jitter_of(seen) * seen.step_ms * math.sqrt(3.0)


def _put_variation(document: Document, seen: Observed, source: Source) -> None:
    jitter = jitter_of(seen)
    if jitter:
        document.put("variation.jitter", jitter, source)
    if seen.stalls_ms:
        every = max(round(seen.steps_seen / len(seen.stalls_ms)), 1)
        document.put("variation.stall_ms", sum(seen.stalls_ms) / len(seen.stalls_ms), source)
        document.put("variation.stall_every_steps", every, source)
