"""A profile: one deployment's numbers, each with its source.

Every section is a frozen dataclass whose fields are the TOML keys, each with its range. The only
way in from a file is `paceline.core.profile_document`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from paceline.core.overhead import Site
from paceline.core.sources import Source

SERVED_AS = {
    "fast": "priority",
    "priority": "priority",
    "ultrafast": "ultrafast",
    "flex": "flex",
}
"""The tiers that a caller can ask for beside the default one, and what an answer calls each."""


class ProfileError(ValueError):
    """A profile that can't be used; `key` is the dotted name of what is wrong."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


def _number(
    default: float | Literal["required"], low: float, high: float = math.inf, *, above: bool = False
) -> Any:
    """A float field with its range; `above` excludes the lower end itself."""
    meta = {"kind": "float", "low": low, "high": high, "above": above}
    if default == "required":
        return field(metadata=meta)
    return field(default=default, metadata=meta)


def _whole(default: int | Literal["required"], low: int, high: int = 1 << 53) -> Any:
    """An integer field with its range."""
    meta = {"kind": "int", "low": low, "high": high, "above": False}
    if default == "required":
        return field(metadata=meta)
    return field(default=default, metadata=meta)


def _flag(default: bool) -> Any:
    return field(default=default, metadata={"kind": "bool"})


def _word(default: str, *allowed: str) -> Any:
    return field(default=default, metadata={"kind": "str", "allowed": allowed})


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may ask of the model, in tokens, and what its maker says it gets at most.

    `ceiling_tok_s` is the stated rate of one user ("up to 750"; 0: nothing is stated). It changes
    no timing; the engine's own ceiling must not be above it.
    """

    context_tokens: int = _whole(131_072, 1)
    max_output_tokens: int = _whole(32_768, 1)
    ceiling_tok_s: float = _number(0.0, 0.0, 1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One replica's step, after vLLM: what a step costs and who may be in it.

    step = step_ms + step_ms_per_seq * (running / data_parallel_size) ** seq_exponent
         + step_ms_per_kv_token * kv_tokens / data_parallel_size
         + step_ms_per_prefill_token * prefill_tokens_in_this_step / data_parallel_size
         + prefill_step_ms, where the step has prefill in it

    `seq_exponent` below 1 is a batch that gets cheaper by the sequence (the experts of a mixture
    that one more sequence touches are mostly touched already). `prefill_step_ms` is what a step
    with prefill costs by itself (it can't run as a captured graph).

    With `data_parallel_size` above 1 a replica is that many ranks in lockstep with the batch
    spread evenly over them (vLLM's data-parallel ranks of a mixture-of-experts model).
    `max_num_seqs` (0: no limit), `max_num_batched_tokens` and `kv_cache_tokens` (0: no limit) are
    for the whole replica. With `disaggregated_prefill` prompts are prefilled one after another on
    hardware of their own, at `step_ms_per_prefill_token`, and lengthen nobody's decode step.
    `tokens_per_step` above 1 is speculative decoding: the mean tokens a sequence gains a step;
    `draft_tokens` is the most drafted a step, so a step yields between 1 and draft_tokens + 1.
    """

    replicas: int = _whole(1, 1, 100_000)
    data_parallel_size: int = _whole(1, 1, 100_000)
    step_ms: float = _number("required", 0.0, 60_000.0, above=True)
    step_ms_per_seq: float = _number(0.0, 0.0, 60_000.0)
    seq_exponent: float = _number(1.0, 0.0, 2.0, above=True)
    step_ms_per_kv_token: float = _number(0.0, 0.0, 1_000.0)
    step_ms_per_prefill_token: float = _number(0.0, 0.0, 1_000.0)
    prefill_step_ms: float = _number(0.0, 0.0, 60_000.0)
    disaggregated_prefill: bool = _flag(False)
    tokens_per_step: float = _number(1.0, 1.0, 64.0)
    draft_tokens: int = _whole(0, 0, 63)
    max_num_seqs: int = _whole(0, 0)
    max_num_batched_tokens: int = _whole(8192, 1)
    kv_cache_tokens: int = _whole(0, 0)


@dataclass(frozen=True, slots=True)
class Overhead:
    """What a request waits before the engine sees it, whatever the load (milliseconds).

    `api_ms_p50` and `api_ms_p90` give a log-normal; equal values make it fixed. `round_trip_ms`
    is what each request costs on top for coming by itself: connection, headers, authentication,
    the whole history read again. The pipeline's fill, `pipeline_stages * stage_ms`, comes once,
    before the first token.

    `per_token_ms` is the API layer's work on each token on its way out. It works on one token
    while the engine makes the next, so it delays all of them by this much and changes no rate; it
    must not be longer than the engine takes for a token.

    `sites` are points of a measured surface, each `[in flight, prompt tokens, output tokens,
    weight]`; they scale the API layer's part as `paceline.core.overhead` says.
    """

    round_trip_ms: float = _number(0.0, 0.0, 3_600_000.0)
    per_token_ms: float = _number(0.0, 0.0, 60_000.0)
    api_ms_p50: float = _number(0.0, 0.0, 3_600_000.0)
    api_ms_p90: float = _number(0.0, 0.0, 3_600_000.0)
    pipeline_stages: int = _whole(0, 0, 100_000)
    stage_ms: float = _number(0.0, 0.0, 60_000.0)
    sites: tuple[Site, ...] = field(default=(), metadata={"kind": "sites"})


@dataclass(frozen=True, slots=True)
class Variation:
    """How uneven the steps are. Neither changes the order of tokens.

    `jitter` is the standard deviation of a token's delay as a fraction of a step; it moves a
    token, not those after it, so the mean rate stays. A stall lengthens one step in
    `stall_every_steps` (0: none) by `stall_ms`.
    """

    jitter: float = _number(0.0, 0.0, 0.25)
    stall_ms: float = _number(0.0, 0.0, 60_000.0)
    stall_every_steps: int = _whole(0, 0)


@dataclass(frozen=True, slots=True)
class Tenants:
    """Other people's traffic on the same hardware.

    `running` sequences of theirs (a mean, so a fraction is fine) share each replica's batch and
    its slots; `queue_ms_p50` and `queue_ms_p90` give the log-normal wait behind them.
    """

    running: float = _number(0.0, 0.0, 1e9)
    queue_ms_p50: float = _number(0.0, 0.0, 3_600_000.0)
    queue_ms_p90: float = _number(0.0, 0.0, 3_600_000.0)


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """The prompt cache: hits start at `min_tokens` and grow by `block_tokens`."""

    enabled: bool = _flag(True)
    min_tokens: int = _whole(1024, 0)
    block_tokens: int = _whole(128, 1, 65_536)
    ttl_s: float = _number(1_800.0, 0.0, 31_536_000.0, above=True)


@dataclass(frozen=True, slots=True)
class Output:
    """How long an answer is when the request doesn't say (log-normal, in visible tokens)."""

    tokens_p50: float = _number(300.0, 1.0, 10_000_000.0)
    tokens_p90: float = _number(800.0, 1.0, 10_000_000.0)
    length_factor: float = _number(1.0, 0.0, 1_000.0, above=True)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning tokens a request thinks before its first visible one, by effort."""

    default_effort: str = _word("none", "none", "minimal", "low", "medium", "high", "xhigh", "max")
    minimal: int = _whole(0, 0)
    low: int = _whole(128, 0)
    medium: int = _whole(512, 0)
    high: int = _whole(2048, 0)
    xhigh: int = _whole(4096, 0)
    max: int = _whole(16_384, 0)

    def tokens(self, effort: str | None) -> int:
        """The number for an effort, the default one's for None."""
        name = effort or self.default_effort
        return 0 if name == "none" else int(getattr(self, name))


@dataclass(frozen=True, slots=True)
class WebSocketFactors:
    """What a WebSocket does to the API layer's part, as factors of what HTTP has.

    `round_trip` scales `overhead.round_trip_ms`, `per_token` scales `overhead.per_token_ms`, and
    `ttft` the rest of what comes before prefill, the queue excepted: the API layer and the
    pipeline's fill. What the engine does takes as long over either.
    """

    round_trip: float = _number(1.0, 0.0, 10.0)
    per_token: float = _number(1.0, 0.0, 10.0)
    ttft: float = _number(1.0, 0.0, 10.0)


@dataclass(frozen=True, slots=True)
class Profile:
    """One deployment's numbers.

    `flat` profiles have no engine to share: every request gets a clock of its own that ticks once
    in `engine.step_ms`, its first token after `flat_ttft_ms`; `instant` ones have no clock at all.
    """

    name: str
    title: str
    engine: Engine
    owned_by: str = "paceline"
    models: tuple[str, ...] = ()
    notes: str = ""
    limits: Limits = Limits()
    overhead: Overhead = Overhead()
    variation: Variation = Variation()
    tenants: Tenants = Tenants()
    prefix_cache: PrefixCache = PrefixCache()
    output: Output = Output()
    reasoning: Reasoning = Reasoning()
    websocket: WebSocketFactors = WebSocketFactors()
    sources: Mapping[str, Source] = field(default_factory=dict)
    tiers: Mapping[str, str] = field(default_factory=dict)
    """The profile that serves each service tier which this one doesn't serve itself."""
    kind: Literal["engine", "flat", "instant"] = "engine"
    flat_ttft_ms: float = 0.0

    @property
    def ceiling_tok_s(self) -> float:
        """Tokens a second of one request alone with no context: what load can only lower."""
        engine = self.engine
        alone = (1.0 + self.tenants.running) / engine.data_parallel_size
        step = engine.step_ms + engine.step_ms_per_seq * alone**engine.seq_exponent
        return math.inf if self.kind == "instant" else engine.tokens_per_step * 1000.0 / step

    def numbers(self) -> dict[str, float | int | bool | str]:
        """All numbers by dotted key, as the sources name them; those equal to a default too."""
        found: dict[str, float | int | bool | str] = {}
        for section in SECTIONS:
            part = getattr(self, section)
            for item in fields(part):
                found[f"{section}.{item.name}"] = getattr(part, item.name)
        return found

    def source(self, key: str) -> Source | None:
        """The source of a dotted key; None where the profile leaves it at its default.

        A profile without a file gives its sources by section.
        """
        return self.sources.get(key) or self.sources.get(key.partition(".")[0])


SECTIONS: dict[str, type[Any]] = {
    "limits": Limits,
    "engine": Engine,
    "overhead": Overhead,
    "variation": Variation,
    "tenants": Tenants,
    "prefix_cache": PrefixCache,
    "output": Output,
    "reasoning": Reasoning,
    "websocket": WebSocketFactors,
}
