"""A deployment: a profile at work, on one or more replicas, least loaded first.

Before a request reaches an engine it waits for what no engine decides: the API layer, other
people's queue, the pipeline's fill. Each such wait is drawn by the request's own key.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seqs
from heapq import heappop, heappush
from typing import Literal, Protocol

from paceline.core.overhead import OverheadSurface
from paceline.core.prefix_cache import PrefixCache
from paceline.core.profile import Profile
from paceline.core.replica import Replica
from paceline.core.rng import lognormal, mix64
from paceline.core.sequence import Sequence, State
from paceline.core.steps import FOREVER, NS_PER_MS, StepClock

Transport = Literal["http", "websocket"]
"""How a request came."""


class Deployment(Protocol):
    """What a driver, live or simulated, needs of a deployment."""

    profile: Profile
    cache: PrefixCache
    next_ns: int
    """When something happens next (ns); FOREVER when nothing will."""

    def submit(self, seqs: Seqs[Sequence], now_ns: int, *, received_ns: int | None = None) -> None:
        """Take one request's sequences at `now_ns`; they go to one replica.

        `received_ns` is when the request came, where that was earlier: waits count from then.
        """
        ...

    def abort(self, seq: Sequence, now_ns: int) -> None:
        """End a sequence early."""
        ...

    def advance(self, now_ns: int) -> None:
        """Let everything happen that is due by `now_ns`."""
        ...

    def drain(self) -> tuple[list[Sequence], list[Sequence]]:
        """Sequences that got their first token, and those that ended, since the last call."""
        ...

    @property
    def replicas(self) -> Seqs[Replica]:
        """The engines, for gauges; empty where there are none."""
        ...

    @property
    def unfinished(self) -> int:
        """Sequences submitted and not yet ended."""
        ...


class EngineDeployment:
    """A deployment of engines."""

    def __init__(self, profile: Profile, *, keep_history: bool = False) -> None:
        self.profile = profile
        self.next_ns = FOREVER
        self.cache = PrefixCache(profile.prefix_cache)
        self.replicas: list[Replica] = [
            Replica(profile, i, cache=self.cache, keep_history=keep_history)
            for i in range(profile.engine.replicas)
        ]
        self.unfinished = 0
        self._arrivals: list[tuple[int, int, list[Sequence]]] = []
        self._order = 0
        self._ended: list[Sequence] = []
        self._waiting_outside = 0
        self._sharing = False
        """Whether replicas can find in their cache what another one stored."""
        sites = profile.overhead.sites
        self._surface = OverheadSurface(sites) if sites else None

    @property
    def on_the_way(self) -> int:
        """Sequences received that no engine has seen yet: the API layer has them."""
        return self._waiting_outside

    @property
    def in_flight(self) -> int:
        """Sequences that are here and not over, as of the last moment advanced to."""
        return self._waiting_outside + sum(replica.load for replica in self.replicas)

    @property
    def free_slots(self) -> int:
        """Sequences that could come now and would find a slot, as of the last moment advanced to.

        Those on their way have a slot each already, so it may be below 0.
        """
        return sum(replica.free_slots for replica in self.replicas) - self._waiting_outside

    def overhead_ns(
        self, key: int, transport: Transport = "http", seq: Sequence | None = None
    ) -> int:
        """What a request with this key waits before the engine sees it (ns).

        The API layer's work on a token delays every token alike, so it is counted here too.
        Without `seq` the surface of a fit is left out.
        """
        overhead, tenants = self.profile.overhead, self.profile.tenants
        api = lognormal(key ^ 0xA91, overhead.api_ms_p50, overhead.api_ms_p90)
        if self._surface is not None and seq is not None:
            api *= self._surface.factor(self.in_flight + 1, seq.prompt_tokens, seq.output_tokens)
        queue = lognormal(key ^ 0x7E4A, tenants.queue_ms_p50, tenants.queue_ms_p90)
        rest = api + overhead.pipeline_stages * overhead.stage_ms
        round_trip, per_token = overhead.round_trip_ms, overhead.per_token_ms
        if transport == "websocket":
            left = self.profile.websocket
            round_trip *= left.round_trip
            per_token *= left.per_token
            rest *= left.ttft
        return round((round_trip + rest + queue + per_token) * NS_PER_MS)

    def submit(
        self,
        seqs: Seqs[Sequence],
        now_ns: int,
        *,
        received_ns: int | None = None,
        transport: Transport = "http",
    ) -> None:
        """Take one request's sequences at `now_ns`; they go to one replica together.

        Its overhead counts from `received_ns`, where that was earlier.
        """
        self.advance(now_ns)
        began_ns = now_ns if received_ns is None else received_ns
        for seq in seqs:
            seq.received_ns = began_ns
        if seqs[0].blocks and len(self.replicas) > 1:
            self._sharing = True
        self.unfinished += len(seqs)
        self._order += 1
        at_ns = max(began_ns + self.overhead_ns(seqs[0].key, transport, seqs[0]), now_ns)
        self._waiting_outside += len(seqs)
        heappush(self._arrivals, (at_ns, self._order, list(seqs)))
        self.next_ns = min(self.next_ns, at_ns)
        self.advance(now_ns)

    def abort(self, seq: Sequence, now_ns: int) -> None:
        """End a sequence early; one that has ended stays as it is."""
        self.advance(now_ns)
        if seq.state is State.OVERHEAD:
            seq.state = State.ABORTED
            seq.end_ns = now_ns
            self._ended.append(seq)
            self._waiting_outside -= 1
            return
        replica = self.replicas[seq.replica_index]
        replica.abort(seq, now_ns)
        self._schedule()

    def advance(self, now_ns: int) -> None:
        """Let everything happen that is due by `now_ns`, in the order of its own times."""
        if self.next_ns > now_ns:
            return
        arrivals = self._arrivals
        while arrivals and arrivals[0][0] <= now_ns:
            at_ns, _, seqs = heappop(arrivals)
            self._advance_replicas(at_ns)
            replica = self._least_loaded()
            for seq in seqs:
                if seq.state is State.OVERHEAD:
                    self._waiting_outside -= 1
                    replica.arrive(seq, at_ns)
        self._advance_replicas(now_ns)
        self._schedule()

    def drain(self) -> tuple[list[Sequence], list[Sequence]]:
        """Sequences that got their first token, and those that ended, since the last call."""
        started: list[Sequence] = []
        ended, self._ended = self._ended, []
        for replica in self.replicas:
            if replica.started:
                started += replica.started
                replica.started = []
            if replica.ended:
                ended += replica.ended
                replica.ended = []
        self.unfinished -= len(ended)
        return started, ended

    def _least_loaded(self) -> Replica:
        """The first of those with the fewest sequences."""
        replicas = self.replicas
        chosen, least = replicas[0], FOREVER
        if len(replicas) > 1:
            for replica in replicas:
                load = replica.running + replica.waiting
                if load < least:
                    chosen, least = replica, load
        return chosen

    def _advance_replicas(self, now_ns: int) -> None:
        """In the order of their events: what one stores in their cache, another may find."""
        if not self._sharing:
            for replica in self.replicas:
                if replica.next_ns <= now_ns:
                    replica.advance(now_ns)
            return
        due = [replica for replica in self.replicas if replica.next_ns <= now_ns]
        while len(due) > 1:
            first = min(due, key=_next_ns)
            first.advance(first.next_ns)
            if first.next_ns > now_ns:
                due.remove(first)
        if due:
            due[0].advance(now_ns)

    def _schedule(self) -> None:
        next_ns = self._arrivals[0][0] if self._arrivals else FOREVER
        for replica in self.replicas:
            if replica.next_ns < next_ns:
                next_ns = replica.next_ns
        self.next_ns = next_ns


def _next_ns(replica: Replica) -> int:
    return replica.next_ns


class FlatDeployment:
    """No engine: each sequence has a clock of its own from the moment it arrives.

    Token j is due `ttft_ms` + j * `step_ms` after the request: no queue, no prefill, no limit.
    """

    def __init__(self, profile: Profile, *, cache: PrefixCache | None = None) -> None:
        self.profile = profile
        self.next_ns = FOREVER
        self.replicas: list[Replica] = []
        self.unfinished = 0
        self.cache = PrefixCache(profile.prefix_cache) if cache is None else cache
        self._step_ns = profile.engine.step_ms * NS_PER_MS
        self._ttft_ns = round(profile.flat_ttft_ms * NS_PER_MS)
        self._events: list[tuple[int, int, Sequence]] = []
        self._order = 0
        self._started: list[Sequence] = []
        self._ended: list[Sequence] = []

    def submit(
        self,
        seqs: Seqs[Sequence],
        now_ns: int,
        *,
        received_ns: int | None = None,
        ttft_ns: int | None = None,
        step_ns: float | None = None,
    ) -> None:
        """Take a request's sequences; `ttft_ns` and `step_ns` replace the profile's for it.

        `ttft_ns` counts from `received_ns` and may be 0; `step_ns` must be above 0.
        """
        self.advance(now_ns)
        began_ns = now_ns if received_ns is None else received_ns
        first_ns = max(began_ns + (self._ttft_ns if ttft_ns is None else ttft_ns), now_ns)
        for seq in seqs:
            self._order += 1
            seq.order = self._order
            seq.received_ns = seq.engine_ns = seq.admitted_ns = began_ns
            seq.cached_tokens = self.cache.hit_tokens(seq.blocks, seq.prompt_tokens, now_ns)
            seq.state = State.PREFILL
            clock = StepClock()
            clock.restart(0, first_ns, self._step_ns if step_ns is None else step_ns, 0.0)
            seq.clock = clock
            heappush(self._events, (first_ns, seq.order, seq))
        for seq in seqs:
            self.cache.store(seq.blocks, seq.prompt_tokens, now_ns)
        self.unfinished += len(seqs)
        self.next_ns = self._events[0][0]
        self.advance(now_ns)

    def abort(self, seq: Sequence, now_ns: int) -> None:
        """End a sequence early; one that has ended stays as it is."""
        self.advance(now_ns)
        if seq.ended:
            return
        seq.state = State.ABORTED
        seq.end_ns = now_ns
        self._ended.append(seq)
        if len(self._events) > 2 * self.unfinished + 1024:
            self._forget_ended()

    def advance(self, now_ns: int) -> None:
        """Let first tokens and ends happen that are due by `now_ns`."""
        events = self._events
        while events and events[0][0] <= now_ns:
            at_ns, order, seq = heappop(events)
            if seq.state is State.PREFILL:
                seq.state = State.DECODE
                seq.base_step = 0
                seq.first_ns = at_ns
                seq.end_step = max(seq.output_tokens - 1, 0)
                self._started.append(seq)
                assert seq.clock is not None
                heappush(events, (seq.clock.at(seq.end_step), order, seq))
            elif seq.state is State.DECODE:
                seq.state = State.FINISHED
                seq.end_ns = at_ns
                self._ended.append(seq)
        self.next_ns = events[0][0] if events else FOREVER

    def drain(self) -> tuple[list[Sequence], list[Sequence]]:
        """Sequences that got their first token, and those that ended, since the last call."""
        started, ended = self._started, self._ended
        self._started, self._ended = [], []
        self.unfinished -= len(ended)
        return started, ended

    def _forget_ended(self) -> None:
        """Rebuild the heap without what was aborted, so that cut streams leave nothing behind."""
        live: Iterable[tuple[int, int, Sequence]] = (e for e in self._events if not e[2].ended)
        self._events = sorted(live)
        self.next_ns = self._events[0][0] if self._events else FOREVER


def deploy(profile: Profile, *, keep_history: bool = False) -> EngineDeployment | FlatDeployment:
    """Put a profile to work. An `instant` one is a flat one whose clock hardly ticks."""
    if profile.kind == "engine":
        return EngineDeployment(profile, keep_history=keep_history)
    return FlatDeployment(profile)


def request_key(seed: int, number: int) -> int:
    """The key that a request's random waits hang on: its seed, and which repetition it is."""
    return mix64(seed ^ mix64(number))
