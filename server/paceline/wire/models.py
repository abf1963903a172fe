"""The models endpoints: profiles as OpenAI's model objects."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from paceline.core.profile import Profile
from paceline.wire.jsonbytes import json_bytes


def model_object(name: str, profile: Profile, created: int) -> dict[str, Any]:
    """One model; `name` is the profile's or an alias of it, `created` in Unix seconds.

    `max_model_len` is where vLLM's clients look for the context; `paceline` says what stands
    behind the name, its ceiling in tokens a second (null: none).
    """
    ceiling = profile.limits.ceiling_tok_s or profile.ceiling_tok_s
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": profile.owned_by,
        "max_model_len": profile.limits.context_tokens,
        "paceline": {
            "profile": profile.name,
            "title": profile.title,
            "kind": profile.kind,
            "ceiling_tokens_per_second": round(ceiling, 3) if math.isfinite(ceiling) else None,
            "context_tokens": profile.limits.context_tokens,
            "max_output_tokens": profile.limits.max_output_tokens,
        },
    }


def encode_model(name: str, profile: Profile, created: int) -> bytes:
    """The answer of GET /v1/models/{name}."""
    return json_bytes(model_object(name, profile, created))


def encode_models(models: Iterable[tuple[str, Profile]], created: int) -> bytes:
    """The answer of GET /v1/models."""
    return json_bytes(
        {
            "object": "list",
            "data": [model_object(name, profile, created) for name, profile in models],
        }
    )
