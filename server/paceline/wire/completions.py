"""Text completions, the request: a JSON object -> GenerationRequest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.core.request import GenerationRequest
from paceline.wire.errors import invalid
from paceline.wire.fields import (
    Check,
    any_text,
    body_object,
    flag,
    read,
    unknown_fields,
    whole,
)
from paceline.wire.overrides import parse_overrides
from paceline.wire.prompts import EMPTY, parse_prompts
from paceline.wire.sampling import (
    MAX_CHOICES,
    MAX_TOKENS_LIMIT,
    SHARED,
    check_model,
    check_together,
)

DEFAULT_MAX_TOKENS = 16
"""OpenAI's default for this endpoint."""

MAX_LOGPROBS = 5

MAX_ANSWERS = 4096
"""Choices of one request, those of all its prompts: twice as many as it may have prompts."""


def parse_completion(body: Any, headers: Mapping[str, str]) -> GenerationRequest:
    """The request that a body of POST /v1/completions makes; raises ApiError.

    A request without a prompt continues an empty text.
    """
    body = body_object(body)
    found = read(body, _TABLE)
    model = check_model(found)
    get = found.get
    max_tokens = get("max_tokens", DEFAULT_MAX_TOKENS)
    check_together(found, max_tokens, "max_tokens")
    stream, n = get("stream", False), get("n", 1)
    best_of = get("best_of", n)
    if best_of < n:
        raise invalid("best_of", f"best_of ({best_of}) must not be below n ({n}).")
    if stream and best_of > n:
        raise invalid("best_of", "best_of above n can't be streamed.")
    prompts = get("prompt", EMPTY)
    if n * len(prompts) > MAX_ANSWERS:
        raise invalid(
            "n",
            f"n ({n}) for each of {len(prompts)} prompts makes {n * len(prompts)} choices; a "
            f"request has at most {MAX_ANSWERS}.",
        )
    options = get("stream_options") or {}
    return GenerationRequest(
        model=model,
        prompts=prompts,
        n=n,
        max_tokens=max_tokens,
        min_tokens=get("min_tokens", 0),
        ignore_eos=get("ignore_eos", False),
        stop=get("stop", ()),
        seed=get("seed"),
        top_logprobs=get("logprobs"),
        echo_prompt=get("echo", False),
        # A text is continued, not thought about: nothing of it would be left in 16 tokens.
        reasoning_effort="none",
        service_tier=get("service_tier"),
        stream=stream,
        include_usage=options.get("include_usage", False),
        continuous_usage=options.get("continuous_usage_stats", False),
        output_format=get("response_format"),
        headers=headers,
        overrides=parse_overrides(headers, get("paceline")),
        unknown=unknown_fields(body, _TABLE),
    )


_TABLE: dict[str, Check] = {
    **SHARED,
    "prompt": parse_prompts,
    "suffix": any_text,
    "max_tokens": whole(0, MAX_TOKENS_LIMIT),
    "echo": flag,
    "best_of": whole(1, MAX_CHOICES),
    "logprobs": whole(0, MAX_LOGPROBS),
}
