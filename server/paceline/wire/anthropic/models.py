"""The models endpoints, for callers that send an `anthropic-version`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paceline.core.profile import Profile
from paceline.wire.jsonbytes import json_bytes

SINCE = "2026-01-01T00:00:00Z"


def model_object(name: str, profile: Profile) -> dict[str, Any]:
    """One model; `name` is the profile's or an alias of it."""
    return {
        "type": "model",
        "id": name,
        "display_name": profile.title,
        "created_at": SINCE,
        "lifecycle": "active",
        "max_input_tokens": profile.limits.context_tokens,
        "max_tokens": profile.limits.max_output_tokens,
    }


def encode_model(name: str, profile: Profile) -> bytes:
    """The answer of GET /v1/models/{name}."""
    return json_bytes(model_object(name, profile))


def encode_models(models: Iterable[tuple[str, Profile]]) -> bytes:
    """The answer of GET /v1/models: one page with all of them."""
    data = [model_object(name, profile) for name, profile in models]
    return json_bytes(
        {
            "data": data,
            "has_more": False,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
        }
    )
