"""What an engine step costs: the formula of `paceline.core.profile.Engine`, in nanoseconds."""

from __future__ import annotations

from paceline.core.profile import Profile
from paceline.core.steps import NS_PER_MS


class StepCost:
    """The length of a step by what is in it.

    `kv_token_ns` and `prefill_token_ns` are the parts of one token.
    """

    __slots__ = (
        "_exponent",
        "_prefill_step_ns",
        "_ranks",
        "_seq_ns",
        "_step_ns",
        "_tenants",
        "kv_token_ns",
        "prefill_token_ns",
    )

    def __init__(self, profile: Profile) -> None:
        engine = profile.engine
        ranks = engine.data_parallel_size
        self._step_ns = engine.step_ms * NS_PER_MS
        self._seq_ns = engine.step_ms_per_seq * NS_PER_MS
        self._exponent = engine.seq_exponent
        self._prefill_step_ns = engine.prefill_step_ms * NS_PER_MS
        self._tenants = profile.tenants.running
        self._ranks = ranks
        self.kv_token_ns = engine.step_ms_per_kv_token * NS_PER_MS / ranks
        self.prefill_token_ns = engine.step_ms_per_prefill_token * NS_PER_MS / ranks

    def step_ns(self, batch: int, kv_tokens: float, prefill_tokens: int) -> float:
        """How long a step with `batch` sequences of ours lasts, beside the tenants' share (ns)."""
        step_ns = self._step_ns + kv_tokens * self.kv_token_ns
        if self._seq_ns:
            share = (batch + self._tenants) / self._ranks
            step_ns += self._seq_ns * (share if self._exponent == 1.0 else share**self._exponent)
        if prefill_tokens:
            step_ns += self._prefill_step_ns + prefill_tokens * self.prefill_token_ns
        return step_ns

    @property
    def shortest_ns(self) -> float:
        """What no step can be shorter than (ns)."""
        return self.step_ns(0, 0.0, 0)
