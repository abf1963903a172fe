"""What a listing says of a profile: no number without how certain it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from paceline.core.profile import Profile
from paceline.core.sources import SOURCE_CLASSES, SourceClass

Certainty = SourceClass | Literal["default"]
"""A source's class, or `default` where the profile says nothing and Paceline's default holds."""

_STEP_KEYS = ("engine.step_ms", "engine.tokens_per_step")
_BATCH_KEYS = ("engine.step_ms_per_seq", "engine.data_parallel_size", "tenants.running")
_TTFT_KEYS = (
    "overhead.round_trip_ms",
    "overhead.api_ms_p50",
    "overhead.per_token_ms",
    "overhead.pipeline_stages",
    "overhead.stage_ms",
    "tenants.queue_ms_p50",
)


@dataclass(frozen=True, slots=True)
class NumberRow:
    """One number of a profile, with its class and source."""

    key: str
    value: float | int | bool | str
    certainty: Certainty
    source: str

    def to_json(self) -> dict[str, Any]:
        """The row as a JSON object."""
        return {
            "key": self.key,
            "value": self.value,
            "class": self.certainty,
            "from": self.source,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """A profile in one line of a listing; `..._class` is the least certain class involved."""

    name: str
    title: str
    models: tuple[str, ...]
    owned_by: str
    ceiling_tok_s: float
    ceiling_class: Certainty
    first_token_ms: float
    """What a lone request without a prompt waits besides its first step, at the median."""
    first_token_class: Certainty
    context_tokens: int
    context_class: Certainty
    max_output_tokens: int
    max_output_class: Certainty

    def to_json(self) -> dict[str, Any]:
        """The line as a JSON object; a ceiling without end is null."""
        return {
            "name": self.name,
            "title": self.title,
            "models": list(self.models),
            "owned_by": self.owned_by,
            "tokens_per_second": {
                "value": None if self.ceiling_tok_s == float("inf") else self.ceiling_tok_s,
                "class": self.ceiling_class,
            },
            "first_token_ms": {"value": self.first_token_ms, "class": self.first_token_class},
            "context_tokens": {"value": self.context_tokens, "class": self.context_class},
            "max_output_tokens": {
                "value": self.max_output_tokens,
                "class": self.max_output_class,
            },
        }


def rows(profile: Profile) -> list[NumberRow]:
    """All numbers of a profile, those left at a default included, in the order of the file."""
    found = []
    for key, value in profile.numbers().items():
        source = profile.source(key)
        found.append(
            NumberRow(key, value, source.kind, source.text)
            if source is not None
            else NumberRow(key, value, "default", "not stated; Paceline's default")
        )
    return found


def summary(profile: Profile) -> Summary:
    """The profile's line in a listing; a stated ceiling goes before a computed one."""
    limits = profile.limits
    step_keys = _STEP_KEYS + (_BATCH_KEYS if profile.engine.step_ms_per_seq else ())
    overhead, tenants = profile.overhead, profile.tenants
    return Summary(
        name=profile.name,
        title=profile.title,
        models=profile.models,
        owned_by=profile.owned_by,
        ceiling_tok_s=limits.ceiling_tok_s or profile.ceiling_tok_s,
        ceiling_class=_least(
            profile, ("limits.ceiling_tok_s",) if limits.ceiling_tok_s else step_keys
        ),
        first_token_ms=profile.flat_ttft_ms
        + overhead.round_trip_ms
        + overhead.api_ms_p50
        + overhead.per_token_ms
        + overhead.pipeline_stages * overhead.stage_ms
        + tenants.queue_ms_p50,
        first_token_class=_least(profile, _TTFT_KEYS),
        context_tokens=limits.context_tokens,
        context_class=_least(profile, ("limits.context_tokens",)),
        max_output_tokens=limits.max_output_tokens,
        max_output_class=_least(profile, ("limits.max_output_tokens",)),
    )


def _least(profile: Profile, keys: tuple[str, ...]) -> Certainty:
    """The least certain class among the numbers that have a source."""
    classes = [source.kind for key in keys if (source := profile.source(key)) is not None]
    return max(classes, key=SOURCE_CLASSES.index, default="default")
