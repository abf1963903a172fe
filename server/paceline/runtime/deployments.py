"""Profiles at work: a deployment each, what it is doing, and the room that is left in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from paceline.core.deployment import EngineDeployment, FlatDeployment
from paceline.core.profile import Profile
from paceline.runtime.admission import Claim
from paceline.runtime.clock import Clock
from paceline.runtime.metrics import Load, Metrics

_IDLE_KEPT = 64


@dataclass(slots=True)
class AtWork:
    """A profile's deployments: the shared one, and the clocks of requests that set their own."""

    profile: Profile
    shared: EngineDeployment | FlatDeployment
    own: FlatDeployment
    claimed: int = 0
    """Slots of the shared one that are promised to requests on their way."""

    def claim(self, sequences: int) -> None:
        """Promise some slots, or with a number below 0 take promises back."""
        self.claimed += sequences

    @property
    def unfinished(self) -> int:
        """Sequences under way."""
        return self.shared.unfinished + self.own.unfinished


class Deployments:
    """All of them, each made when it is first needed; `clock` tells the gauges when it is."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._at_work: dict[str, AtWork] = {}
        self._retired: list[AtWork] = []

    def of(self, profile: Profile) -> AtWork:
        """A profile's; where the profile has changed, those under the old one finish their work."""
        at_work = self._at_work.get(profile.name)
        if at_work is not None and at_work.profile is profile:
            return at_work
        if at_work is not None:
            self._retired = [old for old in self._retired if old.unfinished]
            self._retired.append(at_work)
        shared: EngineDeployment | FlatDeployment
        if profile.kind == "engine":
            shared = EngineDeployment(profile, keep_history=True)
        else:
            shared = FlatDeployment(profile)
        own = FlatDeployment(profile, cache=shared.cache)
        self._at_work[profile.name] = made = AtWork(profile, shared, own)
        self._forget_idle()
        return made

    def _forget_idle(self) -> None:
        """A client can invent flat rates without end; only so many stay without work."""
        flat = [name for name, w in self._at_work.items() if w.profile.kind != "engine"]
        for name in flat[: max(len(flat) - _IDLE_KEPT, 0)]:
            if not self._at_work[name].unfinished:
                del self._at_work[name]

    # -- room ----------------------------------------------------------------------------------

    def have_room(self, profile: Profile, sequences: int) -> bool:
        """Whether so many sequences would find a slot at once; none need any."""
        if not sequences:
            return True
        work = self.of(profile)
        if isinstance(work.shared, FlatDeployment):
            return True
        return work.shared.free_slots - work.claimed >= sequences

    def claim(self, profile: Profile, sequences: int) -> Claim:
        """Promise slots of a profile's deployment to a request that is on its way there."""
        work = self.of(profile)
        work.claim(sequences)
        return Claim(work.claim, sequences)

    # -- gauges --------------------------------------------------------------------------------

    def register(self, profiles: Iterable[Profile]) -> None:
        """Export gauges for these profiles, and for no others."""
        shown = {profile.name: profile for profile in profiles}
        for gone in set(self._metrics.deployments) - set(shown):
            self._metrics.unregister_load(gone)
        for name, profile in shown.items():
            engine = profile.engine
            config = {
                "block_size": str(profile.prefix_cache.block_tokens),
                "enable_prefix_caching": str(profile.prefix_cache.enabled),
                "num_gpu_blocks": str(
                    engine.kv_cache_tokens // profile.prefix_cache.block_tokens
                    if engine.kv_cache_tokens
                    else 0
                ),
                "max_num_seqs": str(engine.max_num_seqs),
                "max_num_batched_tokens": str(engine.max_num_batched_tokens),
            }
            self._metrics.register_load(name, self._reader(name), config)

    def _reader(self, name: str) -> Callable[[], Load]:
        return lambda: self.load(name)

    def load(self, name: str) -> Load:
        """What a profile's deployments are doing now, retired ones included."""
        now_ns = self._clock.now_ns()
        running = waiting = preemptions = 0
        used = room = 0.0
        works = [w for w in self._retired if w.profile.name == name]
        if name in self._at_work:
            works.append(self._at_work[name])
        for work in works:
            running += work.own.unfinished
            if isinstance(work.shared, FlatDeployment):
                running += work.shared.unfinished
                continue
            for replica in work.shared.replicas:
                running += replica.running
                waiting += replica.waiting
                preemptions += replica.preemptions
                used += replica.kv_used(now_ns)
                room += work.profile.engine.kv_cache_tokens
            waiting += work.shared.on_the_way
        return Load(running, waiting, used / room if room else 0.0, preemptions)
