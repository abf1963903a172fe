"""The models endpoints: profiles as OpenAI's model objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paceline.core.profile import Profile


def model_object(name: str, profile: Profile, created: int) -> dict[str, Any]:
    """One model; `name` is the profile's or an alias of it, `created` in Unix seconds."""
    raise NotImplementedError


def encode_model(name: str, profile: Profile, created: int) -> bytes:
    """The answer of GET /v1/models/{name}."""
    raise NotImplementedError


def encode_models(models: Iterable[tuple[str, Profile]], created: int) -> bytes:
    """The answer of GET /v1/models."""
    raise NotImplementedError
