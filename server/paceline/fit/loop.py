"""What a closed loop of users sees of an engine, as sums that are linear in its coefficients.

The schedule is that of `paceline.core.replica`; a test holds the two together. But where a
replica gives times, this gives *features*: for every term of a step's cost, how much of it is in
the mean TTFT and the mean TPOT. The schedule in steps hardly depends on the coefficients, so a
fit tries thousands of them on the features of one run.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from paceline.fit.load import Load

CHUNK = 8192
"""`max_num_batched_tokens` where nothing is known of it."""

_EPSILON_MS = 1e-9


@dataclass(frozen=True, slots=True)
class Coefficients:
    """A step's cost: the terms of `paceline.core.profile.Engine`, in ms."""

    step: float
    per_seq: float
    per_kv_token: float
    per_prefill_token: float
    prefill_step: float
    exponent: float


@dataclass(frozen=True, slots=True)
class Bounds:
    """The discrete limits of an engine."""

    slots: int
    kv_tokens: float = math.inf
    chunk: int = CHUNK


@dataclass(slots=True)
class Features:
    """Weights of each term in the mean TPOT (index 0) and the mean TTFT in the engine (1).

    `batch` has them by the number of running sequences; `kv` and `prefill` are weights times
    tokens, `prefill_steps` the weights of the steps with prefill.
    """

    batch: dict[int, list[float]] = field(default_factory=dict)
    kv: list[float] = field(default_factory=lambda: [0.0, 0.0])
    prefill: list[float] = field(default_factory=lambda: [0.0, 0.0])
    prefill_steps: list[float] = field(default_factory=lambda: [0.0, 0.0])
    peak_kv: float = 0.0
    """The most tokens that the KV cache held."""


def run_loop(load: Load, cost: Coefficients, bounds: Bounds, overhead_ms: float) -> Features:
    """Play a closed loop in which every request waits `overhead_ms` before the engine sees it."""
    loop = _Loop(load, cost, bounds, overhead_ms)
    while loop.unfinished:
        loop.boundary()
    return loop.features


class _Loop:
    """One run. Sequences are numbered in the order in which they are issued.

    A step weighs in TPOT what those that decode in it weigh, each over its gaps, n - 1; in TTFT
    what those weigh that wait for their first token, for the part of the step that they wait.
    """

    def __init__(self, load: Load, cost: Coefficients, bounds: Bounds, overhead_ms: float) -> None:
        count = len(load.prompts)
        self.features = Features()
        self.unfinished = count
        self._load = load
        self._cost = cost
        self._bounds = bounds
        self._overhead = overhead_ms
        self._batch_ms = [
            cost.step + cost.per_seq * running**cost.exponent for running in range(load.users + 1)
        ]
        self._gap_weight = [
            weight / max(output - 1, 1)
            for weight, output in zip(load.weights, load.outputs, strict=True)
        ]
        self._issued = min(load.users, count)
        self._arrivals = deque((overhead_ms, i) for i in range(self._issued))
        self._queue: deque[int] = deque()
        self._prefilling: deque[int] = deque()
        self._to_prefill = [0] * count
        self._got = [0] * count
        self._base_step = [0] * count
        self._version = [0] * count  # counts preemptions; -1 once finished
        self._admitted: list[int] = []
        self._ends: list[tuple[int, int, int]] = []
        self._running = self._decoding = self._step = 0
        self._kv = 0.0
        self._now = 0.0
        self._waiting_weight = 0.0
        self._decoding_weight = 0.0
        self._stands = False
        self._limited = bounds.kv_tokens < math.inf

    def boundary(self) -> None:
        """What changes at one boundary, then the steps up to the next."""
        arrivals, weights = self._arrivals, self._load.weights
        while arrivals and arrivals[0][0] <= self._now + _EPSILON_MS:
            i = arrivals.popleft()[1]
            self._queue.append(i)
            self._waiting_weight += weights[i]
            if self._stands:
                # An idle engine starts with the first that comes; the others join a step later.
                self._stands = False
                break
        if self._queue:
            self._admit()
        if self._limited:
            self._make_room()
        if not self._running:
            self._now = arrivals[0][0]
            self._stands = True
            return
        if self._prefilling:
            self._prefill_step()
        else:
            self._decode_run()
        if self._kv + self._decoding > self.features.peak_kv:
            self.features.peak_kv = self._kv + self._decoding
        if self._ends and self._ends[0][0] <= self._step:
            self._finish()

    def _admit(self) -> None:
        queue, prompts = self._queue, self._load.prompts
        while queue and self._running < self._bounds.slots:
            i = queue[0]
            tokens = prompts[i] + self._got[i]
            if self._running and self._kv + tokens + self._decoding + 1 > self._bounds.kv_tokens:
                return
            queue.popleft()
            self._prefilling.append(i)
            self._to_prefill[i] = tokens
            self._kv += tokens
            self._running += 1
            if self._limited:
                self._admitted.append(i)

    def _make_room(self) -> None:
        """Preempt, last admitted first, as vLLM does: what a sequence had is prefilled again."""
        while self._kv + self._decoding > self._bounds.kv_tokens and self._running > 1:
            i = self._admitted.pop()
            if self._version[i] < 0:
                continue
            if self._to_prefill[i]:
                self._prefilling.remove(i)
                self._kv -= self._load.prompts[i] + self._got[i]
            else:
                self._got[i] += self._step - self._base_step[i]
                self._decoding -= 1
                self._kv -= self._load.prompts[i] + self._got[i] - 1
            self._version[i] += 1
            self._to_prefill[i] = 0
            self._running -= 1
            self._queue.appendleft(i)

    def _prefill_step(self) -> None:
        """One step with prefill in it, first come first served, at most a chunk of tokens."""
        cost, features, to_prefill = self._cost, self.features, self._to_prefill
        left = self._bounds.chunk
        done = 0
        for i in self._prefilling:
            if to_prefill[i] > left:
                to_prefill[i] -= left
                left = 0
                break
            left -= to_prefill[i]
            to_prefill[i] = 0
            done += 1
            if not left:
                break
        tokens = self._bounds.chunk - left
        ms = self._batch_ms[self._running] + cost.per_kv_token * self._kv
        ms += cost.per_prefill_token * tokens + cost.prefill_step
        in_tpot, in_ttft = self._decoding_weight, self._weight_of_waiting(1.0, ms, ms)
        self._note(in_tpot, in_ttft, self._kv)
        features.prefill[0] += in_tpot * tokens
        features.prefill[1] += in_ttft * tokens
        features.prefill_steps[0] += in_tpot
        features.prefill_steps[1] += in_ttft
        self._now += ms
        self._step += 1
        self._kv += self._decoding
        for _ in range(done):
            self._begin_decode(self._prefilling.popleft())

    def _begin_decode(self, i: int) -> None:
        if not self._got[i]:
            self._waiting_weight -= self._load.weights[i]
            self._decoding_weight += self._gap_weight[i]
        self._got[i] += 1
        self._base_step[i] = self._step
        self._decoding += 1
        end = self._step + self._load.outputs[i] - self._got[i]
        heappush(self._ends, (end, self._version[i], i))

    def _decode_run(self) -> None:
        """Steps without prefill, up to the next end, arrival with a slot, or lack of room."""
        cost, ends = self._cost, self._ends
        while ends[0][1] != self._version[ends[0][2]]:
            heappop(ends)
        steps = ends[0][0] - self._step
        first = self._batch_ms[self._running] + cost.per_kv_token * self._kv
        growth = cost.per_kv_token * self._decoding
        if self._limited:
            room = int((self._bounds.kv_tokens - self._kv) // self._decoding)
            steps = max(1, min(steps, room))
        if self._arrivals and self._running < self._bounds.slots:
            until = self._arrivals[0][0] - self._now
            half = first - growth / 2
            needed = 2 * until / (half + math.sqrt(half * half + 2 * growth * until))
            steps = max(1, min(steps, math.ceil(needed - _EPSILON_MS)))
        mean_kv = self._kv + self._decoding * (steps - 1) / 2
        ms = steps * (self._batch_ms[self._running] + cost.per_kv_token * mean_kv)
        last = first + growth * (steps - 1)
        in_ttft = self._weight_of_waiting(steps, ms, last)
        self._note(self._decoding_weight * steps, in_ttft, mean_kv)
        self._now += ms
        self._step += steps
        self._kv += steps * self._decoding

    def _weight_of_waiting(self, steps: float, ms: float, step_ms: float) -> float:
        """Of `steps` steps in `ms`: those who wait all along, and those who come on the way."""
        weight = self._waiting_weight * steps
        end = self._now + ms
        for at, i in self._arrivals:
            if at >= end:
                break
            weight += (end - at) / step_ms * self._load.weights[i]
        return weight

    def _note(self, in_tpot: float, in_ttft: float, kv: float) -> None:
        features = self.features
        row = features.batch.get(self._running)
        if row is None:
            row = features.batch[self._running] = [0.0, 0.0]
        row[0] += in_tpot
        row[1] += in_ttft
        features.kv[0] += in_tpot * kv
        features.kv[1] += in_ttft * kv

    def _finish(self) -> None:
        load, ends = self._load, self._ends
        count = len(load.prompts)
        while ends and ends[0][0] <= self._step:
            _, version, i = heappop(ends)
            if version != self._version[i]:
                continue
            self._version[i] = -1
            self.unfinished -= 1
            self._decoding -= 1
            self._running -= 1
            self._kv -= load.prompts[i] + load.outputs[i] - 1
            self._decoding_weight -= self._gap_weight[i]
            if not self._running:
                self._kv = 0.0
            if self._issued < count:
                self._arrivals.append((self._now + self._overhead, self._issued))
                self._issued += 1
