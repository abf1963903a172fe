"""A profile: one deployment's numbers, each with its source.

Every section is a frozen dataclass whose fields are the TOML keys. `parse_profile` is the only
way in from a file; it refuses unknown keys and impossible values with the dotted key's name, so
that a profile that loads is a profile that makes sense.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, get_args

from paceline.core.overhead import Site

_STRONGEST_SITE = 20.0

SourceClass = Literal["official", "measured", "estimate", "hypothesis"]
SOURCE_CLASSES: tuple[SourceClass, ...] = get_args(SourceClass)

SERVED_AS = {
    "fast": "priority",
    "priority": "priority",
    "ultrafast": "ultrafast",
    "flex": "flex",
}
"""The tiers that a caller can ask for beside the default one, and what an answer calls each."""

_ROUNDING = 1e-5
"""How far a rate made of rounded numbers may lie above the one it stands for."""


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
class Source:
    """Where a number comes from and how certain it is."""

    kind: SourceClass
    text: str


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

_TOP = {"name", "title", "owned_by", "models", "notes", "sources", "tiers"}


def parse_profile(data: Mapping[str, Any]) -> Profile:
    """Make a profile from a parsed TOML document.

    Raises ProfileError for an unknown key, a value out of range, a percentile below its median, a
    number without a source, or a source of no number.
    """
    for key in data:
        if key not in _TOP and key not in SECTIONS:
            raise ProfileError(key, "unknown key")
    name = _text(data, "name")
    if not name or any(c.isspace() or c == "/" for c in name):
        raise ProfileError("name", "must be a word without spaces or slashes")
    models = data.get("models", [])
    if not isinstance(models, list) or not all(isinstance(m, str) and m for m in models):
        raise ProfileError("models", "must be a list of names")
    if "engine" not in data:
        raise ProfileError("engine", "missing section")
    parts = {key: _section(key, cls, data[key]) for key, cls in SECTIONS.items() if key in data}
    profile = Profile(
        name=name,
        title=_text(data, "title"),
        owned_by=_text(data, "owned_by", "paceline"),
        notes=_text(data, "notes", ""),
        models=tuple(models),
        tiers=_tiers(data.get("tiers", {})),
        sources=_spread(_sources(data.get("sources", {})), data),
        **parts,
    )
    _check_pairs(profile)
    _check_sources(profile, data)
    return profile


def _text(data: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise ProfileError(key, "missing" if value is None else "must be a string")
    return value


def _tiers(data: Any) -> dict[str, str]:
    if not isinstance(data, Mapping):
        raise ProfileError("tiers", "must be a table")
    for tier, name in data.items():
        if tier not in SERVED_AS:
            raise ProfileError(f"tiers.{tier}", f"unknown tier; known are {', '.join(SERVED_AS)}")
        if not isinstance(name, str) or not name:
            raise ProfileError(f"tiers.{tier}", "must be the name of a profile")
    return dict(data)


def _section(section: str, cls: type[Any], data: Any) -> Any:
    if not isinstance(data, Mapping):
        raise ProfileError(section, "must be a table")
    known = {item.name: item for item in fields(cls)}
    for key in data:
        if key not in known:
            raise ProfileError(f"{section}.{key}", "unknown key")
    values = {}
    for name, item in known.items():
        if name in data:
            values[name] = _value(f"{section}.{name}", item.metadata, data[name])
        elif item.default is MISSING:
            raise ProfileError(f"{section}.{name}", "missing")
    return cls(**values)


def _value(key: str, meta: Mapping[str, Any], value: Any) -> Any:
    kind = meta["kind"]
    if kind == "bool":
        if not isinstance(value, bool):
            raise ProfileError(key, "must be true or false")
        return value
    if kind == "str":
        if value not in meta["allowed"]:
            raise ProfileError(key, f"must be one of {', '.join(meta['allowed'])}")
        return value
    if kind == "sites":
        return _sites(key, value)
    wanted = int if kind == "int" else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise ProfileError(key, "must be a whole number" if kind == "int" else "must be a number")
    low, high = meta["low"], meta["high"]
    if not math.isfinite(value) or value < low or value > high or (meta["above"] and value <= low):
        span = f"above {low:g}" if meta["above"] else f"at least {low:g}"
        upper = "" if high == math.inf else f" and at most {high:g}"
        raise ProfileError(key, f"must be {span}{upper}, not {value!r}")
    return value if kind == "int" else float(value)


def _sites(key: str, value: Any) -> tuple[Site, ...]:
    sites: list[Site] = []
    for row in value if isinstance(value, list) else [None]:
        if (
            not isinstance(row, list)
            or len(row) != 4
            or not all(isinstance(x, int | float) and math.isfinite(x) for x in row)
            or min(row[:3]) < 1
            or abs(row[3]) > _STRONGEST_SITE
        ):
            raise ProfileError(
                key,
                "must be a list of [in flight, prompt tokens, output tokens, weight], "
                f"the first three at least 1, the weight from -{_STRONGEST_SITE:g} to "
                f"{_STRONGEST_SITE:g}",
            )
        sites.append((float(row[0]), float(row[1]), float(row[2]), float(row[3])))
    return tuple(sites)


def _sources(data: Any) -> dict[str, Source]:
    if not isinstance(data, Mapping):
        raise ProfileError("sources", "must be a table")
    found: dict[str, Source] = {}
    for key, entry in data.items():
        where = f"sources.{key}"
        if not isinstance(entry, Mapping) or set(entry) != {"class", "from"}:
            raise ProfileError(where, 'must be { class = "…", from = "…" }')
        kind, text = entry["class"], entry["from"]
        if kind not in SOURCE_CLASSES:
            raise ProfileError(where, f"class must be one of {', '.join(SOURCE_CLASSES)}")
        if not isinstance(text, str) or not text.strip():
            raise ProfileError(where, "from must say where the number comes from")
        found[key] = Source(kind, text)
    return found


def _spread(sources: dict[str, Source], data: Mapping[str, Any]) -> dict[str, Source]:
    """A section's source, on each number that the file gives in it and that has none of its own.

    What the file leaves at its default is nobody's word, and gets no source.
    """
    spread = {key: source for key, source in sources.items() if key not in SECTIONS}
    for section in SECTIONS.keys() & sources.keys():
        for key in data.get(section, {}):
            spread.setdefault(f"{section}.{key}", sources[section])
        if section not in data:
            spread[section] = sources[section]
    return spread


def _check_pairs(profile: Profile) -> None:
    """Values that make sense only together."""
    for section, low, high in (
        ("overhead", "api_ms_p50", "api_ms_p90"),
        ("tenants", "queue_ms_p50", "queue_ms_p90"),
        ("output", "tokens_p50", "tokens_p90"),
    ):
        part = getattr(profile, section)
        if getattr(part, high) < getattr(part, low):
            raise ProfileError(f"{section}.{high}", f"must not be below {low}")
    engine = profile.engine
    if engine.tokens_per_step > 1.0 and engine.tokens_per_step > engine.draft_tokens + 1:
        raise ProfileError("engine.tokens_per_step", "must not be above draft_tokens + 1")
    fastest_ms = engine.step_ms / engine.tokens_per_step
    if profile.overhead.per_token_ms > fastest_ms:
        raise ProfileError(
            "overhead.per_token_ms", f"must not be above the engine's {fastest_ms:g} ms a token"
        )
    slots = engine.max_num_seqs
    if slots and profile.tenants.running >= slots:
        raise ProfileError("tenants.running", "must leave a slot of max_num_seqs free")
    if profile.limits.max_output_tokens > profile.limits.context_tokens:
        raise ProfileError("limits.max_output_tokens", "must not be above context_tokens")
    stated = profile.limits.ceiling_tok_s
    if stated and profile.ceiling_tok_s > stated * (1 + _ROUNDING):
        raise ProfileError(
            "limits.ceiling_tok_s", f"must not be below the engine's {profile.ceiling_tok_s:.6g}"
        )
    if profile.variation.stall_every_steps and not profile.variation.stall_ms:
        raise ProfileError("variation.stall_ms", "must be above 0 where stalls happen")


def _check_sources(profile: Profile, data: Mapping[str, Any]) -> None:
    """Every number that the file gives has a source, and every source has a number."""
    given = {f"{section}.{key}" for section in SECTIONS if section in data for key in data[section]}
    for key in sorted(given):
        if profile.source(key) is None:
            raise ProfileError(f"sources.{key}", "missing: every number needs a source")
    for key in profile.sources:
        if key not in given and key not in data and not key.startswith("fit"):
            raise ProfileError(f"sources.{key}", "names no number of this profile")
