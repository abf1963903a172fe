"""One replica: a queue, slots, KV room, chunked prefill and decode, in engine steps.

It is told the time and never asks for it. What happens at a boundary happens at the boundary's
own time, however late `advance` is called and however often; only `arrive` and `abort` bring in
anything new. Each boundary at which something changes costs O(log n), and no token costs
anything.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from paceline.core.acceptance import Acceptance, acceptance
from paceline.core.cost import StepCost
from paceline.core.prefix_cache import PrefixCache
from paceline.core.profile import Profile
from paceline.core.rng import mix64
from paceline.core.sequence import Sequence, State
from paceline.core.steps import FOREVER, NS_PER_MS, StepClock, jitter_table


class Replica:
    """An engine at work. `started` and `ended` are outboxes that the driver empties.

    `running` and `waiting` count sequences as vLLM's gauges do: admitted ones, prefill included,
    and those in the queue. `next_ns` is when something happens next.
    """

    def __init__(
        self,
        profile: Profile,
        index: int = 0,
        *,
        cache: PrefixCache | None = None,
        keep_history: bool = False,
    ) -> None:
        """`keep_history` lets the clock tell the due times of boundaries long past."""
        engine, variation = profile.engine, profile.variation
        self.profile = profile
        self.index = index
        self.cache = PrefixCache(profile.prefix_cache) if cache is None else cache
        tenants = profile.tenants.running
        self._cost = StepCost(profile)
        self._tokens_per_step = engine.tokens_per_step
        self._slots = int(engine.max_num_seqs - tenants) if engine.max_num_seqs else FOREVER
        self._chunk = engine.max_num_batched_tokens
        self._kv_room = engine.kv_cache_tokens or FOREVER
        self._disaggregated = engine.disaggregated_prefill
        self._stall_ns = variation.stall_ms * NS_PER_MS
        self._stall_every = variation.stall_every_steps
        self._stall_step = -1
        jitter = None
        if variation.jitter:
            jitter = jitter_table(variation.jitter, self._cost.shortest_ns)
        self.clock = StepClock(jitter, mix64(index), keep_history=keep_history)
        self.acceptance: Acceptance | None = None
        if engine.tokens_per_step > 1.0:
            self.acceptance = acceptance(engine.tokens_per_step, engine.draft_tokens)
        self.started: list[Sequence] = []
        self.ended: list[Sequence] = []
        self.running = 0
        self.waiting = 0
        self.preemptions = 0
        self.next_ns = FOREVER
        self._queue: deque[Sequence] = deque()
        self._prefilling: deque[Sequence] = deque()
        self._backlog = 0
        """Prompt tokens of `_prefilling` that no step has taken yet."""
        self._prefilled: deque[tuple[int, Sequence]] = deque()
        """With disaggregated prefill: when each prompt will be done, in order."""
        self._prefill_free_ns = 0
        self._joining: list[Sequence] = []
        self._admitted: list[Sequence] = []
        """Where KV is limited: sequences in the order of their admission, the ended too."""
        self._decoding = 0
        self._ends: list[tuple[int, int, Sequence]] = []
        self._dropped: list[Sequence] = []
        self._kv = 0.0
        self._run_step = 0
        self._run_prefill = 0
        self._next_step = FOREVER
        self._order = 0

    @property
    def load(self) -> int:
        """Sequences that are here, for a router that sends to the least loaded."""
        return self.running + self.waiting

    @property
    def free_slots(self) -> int:
        """Sequences that could come in now and wait for nobody's end; at least 0.

        Those that wait have a slot each already; none is free while the first of them waits for
        KV room.
        """
        if self.waiting and self._kv_room < FOREVER:
            first = next(seq for seq in self._queue if seq.state is State.WAITING)
            if not self._fits(first):
                return 0
        return max(self._slots - self.running - self.waiting, 0)

    def kv_used(self, now_ns: int) -> float:
        """Tokens of this replica's requests in the KV cache at `now_ns`."""
        steps = self.clock.steps_by(now_ns) - self._run_step if self.clock.running else 0
        return self._kv + max(steps, 0) * self._decoding * self._tokens_per_step

    # -- what comes in -------------------------------------------------------------------------

    def arrive(self, seq: Sequence, now_ns: int) -> None:
        """Put a sequence in the queue: it joins at the next boundary, or at once when idle."""
        self.advance(now_ns)
        seq.state = State.WAITING
        seq.engine_ns = now_ns
        self._order += 1
        seq.order = self._order
        seq.replica_index = self.index
        seq.clock = self.clock
        seq.acceptance = self.acceptance
        if self.acceptance is not None:
            seq.phase = self.acceptance.phase(seq.key)
        self._queue.append(seq)
        self.waiting += 1
        self._reconsider(now_ns)

    def abort(self, seq: Sequence, now_ns: int) -> None:
        """End a sequence whose reader has gone; what it held is free at the next boundary.

        One that has ended already stays as it is.
        """
        self.advance(now_ns)
        if seq.ended:
            return
        held, seq.state = seq.state, State.ABORTED
        seq.end_ns = now_ns
        self.ended.append(seq)
        if held is State.WAITING:
            self.waiting -= 1
        else:
            self._dropped.append(seq)
            if not self.clock.running:
                self._drop(self.clock.base_step)
            else:
                self._look_at(self.clock.steps_by(now_ns) + 1)
        self._reconsider(now_ns)

    def _reconsider(self, now_ns: int) -> None:
        """Let the head of the queue in: now, or at the next boundary, if there's room."""
        if self._disaggregated:
            self._admit(now_ns)
        elif not self.clock.running:
            if self._queue:
                self._boundary(self.clock.after_standstill(), now_ns)
        elif self._queue and self._fits(self._queue[0]):
            self._look_at(self.clock.steps_by(now_ns) + 1)
        self._schedule()

    # -- time ----------------------------------------------------------------------------------

    def advance(self, now_ns: int) -> None:
        """Let everything happen that is due by `now_ns`, each thing at its own time."""
        while self.next_ns <= now_ns:
            if self._prefilled and self._prefilled[0][0] == self.next_ns:
                self._join_prefilled()
            else:
                self._boundary(self._next_step, self.next_ns)
            self._schedule()

    def _schedule(self) -> None:
        """Find what happens next; at equal times a finished prefill comes before a boundary."""
        next_ns = self.clock.at(self._next_step) if self._next_step < FOREVER else FOREVER
        if self._prefilled and self._prefilled[0][0] <= next_ns:
            next_ns = self._prefilled[0][0]
        self.next_ns = next_ns

    def _look_at(self, step: int) -> None:
        """Make sure that boundary `step` is looked at."""
        if step < self._next_step:
            self._next_step = step

    def _boundary(self, step: int, now_ns: int) -> None:
        """Everything that changes at one boundary, then the run of steps up to the next."""
        if self.clock.running:
            steps = step - self._run_step
            self._kv += steps * self._decoding * self._tokens_per_step
            if self._run_prefill:
                self._joining += self._consume(steps * self._run_prefill)
        if self._dropped:
            self._drop(step)
        if self._joining:
            self._begin_decode(step, now_ns)
        if self._ends and self._ends[0][0] <= step:
            self._finish(step, now_ns)
        if self._queue:
            self._admit(now_ns)
        if self._kv_room < FOREVER:
            self._make_room(step)
        self._run(step, now_ns)

    def _run(self, step: int, now_ns: int) -> None:
        """Begin the run of equal steps that lasts until something changes."""
        self._run_step = step
        self._run_prefill = 0
        if not self._decoding and not self._prefilling:
            self.clock.stop(step, now_ns)
            self._next_step = FOREVER
            return
        last = self._ends[0][0] if self._ends else FOREVER
        prefill = 0
        if self._prefilling:
            head = self._prefilling[0].to_prefill
            whole = (head - 1) // self._chunk
            prefill = self._backlog if self._backlog < self._chunk else self._chunk
            until = step + (whole or 1)
            if until < last:
                last = until
        batch = self._decoding if self._disaggregated else self.running
        step_ns = self._cost.step_ns(batch, self._kv, prefill)
        grown = self._decoding * self._tokens_per_step
        if self._kv_room < FOREVER and grown:
            until = step + max(int((self._kv_room - self._kv) / grown), 1)
            if until < last:
                last = until
        if self._stall_every:
            if self._stall_step < step:
                self._stall_step = self._next_stall(step)
            if self._stall_step == step:
                step_ns += self._stall_ns
                last = step + 1
            elif self._stall_step < last:
                last = self._stall_step
        self._run_prefill = prefill
        self._next_step = last
        self.clock.restart(step, now_ns, step_ns, grown * self._cost.kv_token_ns)

    def _next_stall(self, step: int) -> int:
        """The first stalled step at or after `step`: one somewhere in every so many steps."""
        window = step // self._stall_every
        while True:
            offset = mix64((self.index << 40) + window) % self._stall_every
            stalled = window * self._stall_every + offset
            if stalled >= step:
                return stalled
            window += 1

    # -- changes at a boundary -----------------------------------------------------------------

    def _fits(self, seq: Sequence) -> bool:
        """Whether there's a slot, and KV room for the prompt and a step of everybody's growth.

        An empty replica takes anything, so that nothing can wait for ever.
        """
        if not self.running:
            return True
        if self.running >= self._slots:
            return False
        needed = seq.prompt_tokens + seq.base_token + (self._decoding + 1) * self._tokens_per_step
        return self._kv + needed <= self._kv_room

    def _admit(self, now_ns: int) -> None:
        """Take sequences from the queue, first come first served, while they fit."""
        queue = self._queue
        while queue:
            seq = queue[0]
            if seq.state is not State.WAITING:
                queue.popleft()
                continue
            if not self._fits(seq):
                return
            queue.popleft()
            self.waiting -= 1
            self.running += 1
            seq.state = State.PREFILL
            self._prepare(seq, now_ns)
            if self._kv_room < FOREVER:
                self._remember(seq)
            if self._disaggregated:
                free_ns = max(self._prefill_free_ns, now_ns)
                self._prefill_free_ns = free_ns + round(
                    seq.to_prefill * self._cost.prefill_token_ns
                )
                self._prefilled.append((self._prefill_free_ns, seq))
            else:
                self._prefilling.append(seq)
                self._backlog += seq.to_prefill

    def _remember(self, seq: Sequence) -> None:
        """Note the order of admission; forget the ended once they are most of the list."""
        self._admitted.append(seq)
        if len(self._admitted) > 2 * self.running + 256:
            self._admitted = [s for s in self._admitted if not s.ended]

    def _prepare(self, seq: Sequence, now_ns: int) -> None:
        """Find what a sequence's prefill has to do: all of it but what the cache holds."""
        tokens = seq.prompt_tokens + seq.base_token
        cached = self.cache.hit_tokens(seq.blocks, seq.prompt_tokens, now_ns)
        if seq.admitted_ns < 0:
            seq.admitted_ns = now_ns
            seq.cached_tokens = cached
        seq.to_prefill = 1 if seq.follows else max(tokens - cached, 1)
        seq.kv_tokens = tokens
        self._kv += tokens

    def _join_prefilled(self) -> None:
        """A prompt is done on the prefill hardware: it decodes from the next boundary on."""
        ready_ns, seq = self._prefilled.popleft()
        if seq.state is not State.PREFILL:
            return
        seq.to_prefill = 0
        self._joining.append(seq)
        if self.clock.running:
            self._look_at(self.clock.steps_by(ready_ns - 1) + 1)
        else:
            self._boundary(self.clock.after_standstill(), ready_ns)

    def _consume(self, tokens: int) -> list[Sequence]:
        """Prefill `tokens` tokens, first come first served; returns those whose prompt is done."""
        self._backlog -= tokens
        done = []
        while tokens:
            head = self._prefilling[0]
            if head.to_prefill > tokens:
                head.to_prefill -= tokens
                break
            tokens -= head.to_prefill
            head.to_prefill = 0
            done.append(self._prefilling.popleft())
        return done

    def _begin_decode(self, step: int, now_ns: int) -> None:
        for seq in self._joining:
            if seq.state is not State.PREFILL:
                continue
            self.cache.store(seq.blocks, seq.prompt_tokens, now_ns)
            seq.state = State.DECODE
            seq.base_step = step
            if seq.first_ns < 0:
                seq.first_ns = now_ns + self.clock.jitter_ns(step)
                self.started.append(seq)
            seq.end_step = seq.step_of(max(seq.output_tokens - 1, seq.base_token))
            heappush(self._ends, (seq.end_step, seq.order, seq))
            self._decoding += 1
        self._joining = []

    def _finish(self, step: int, now_ns: int) -> None:
        ends = self._ends
        while ends and ends[0][0] <= step:
            end_step, _, seq = heappop(ends)
            if seq.state is State.DECODE and seq.end_step == end_step:
                seq.state = State.FINISHED
                seq.end_ns = now_ns + self.clock.jitter_ns(step)
                self._leave(seq, step)
                self.ended.append(seq)

    def _drop(self, step: int) -> None:
        """Let go of the aborted, wherever they were."""
        for seq in self._dropped:
            self._backlog -= self._leave(seq, step)
        self._dropped = []
        self._prefilling = deque(s for s in self._prefilling if s.state is State.PREFILL)

    def _leave(self, seq: Sequence, step: int) -> int:
        """Give back a sequence's slot and KV; returns the tokens it leaves in the backlog."""
        self.running -= 1
        self._kv -= seq.kv_tokens
        if seq.base_step < FOREVER:
            self._decoding -= 1
            self._kv -= (step - seq.base_step) * self._tokens_per_step
        if not self.running:
            self._kv = 0.0
        return 0 if self._disaggregated else seq.to_prefill

    def _make_room(self, step: int) -> None:
        """Preempt, last admitted first, until everybody's next step has KV room.

        As vLLM does it by default: a preempted sequence goes to the head of the queue and has its
        prompt and all that it had generated prefilled again.
        """
        while self._kv + self._decoding * self._tokens_per_step > self._kv_room:
            victim = self._last_admitted()
            if victim is None:
                return
            held = victim.tokens_by(step)
            left = self._leave(victim, step)
            if left:
                self._backlog -= left
                self._prefilling.remove(victim)
            if victim.acceptance is not None and victim.base_step < FOREVER:
                victim.phase += step - victim.base_step
            victim.base_token, victim.held_step = held, step
            victim.base_step = FOREVER
            victim.state = State.WAITING
            victim.preemptions += 1
            self.preemptions += 1
            self.waiting += 1
            self._queue.appendleft(victim)

    def _last_admitted(self) -> Sequence | None:
        """Take out the youngest sequence that may be preempted: never the only one left."""
        if self.running <= 1:
            return None
        admitted = self._admitted
        while admitted:
            seq = admitted.pop()
            if seq.state is State.DECODE or (seq.state is State.PREFILL and seq.to_prefill):
                if self._disaggregated and seq.state is State.PREFILL:
                    continue
                return seq
        return None
