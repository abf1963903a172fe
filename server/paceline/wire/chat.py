"""Chat completions, the request: a JSON object -> GenerationRequest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.core.request import GenerationRequest


def parse_chat(body: Any, headers: Mapping[str, str]) -> GenerationRequest:
    """The request that a body of POST /v1/chat/completions makes; raises ApiError."""
    raise NotImplementedError
