"""Chat completions, the request: a JSON object -> GenerationRequest.

What can't be answered rightly (audio) is refused; what changes nothing here is accepted; what
nobody knows is accepted and named in `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.core.request import EFFORTS, ChatPrompt, GenerationRequest, Message
from paceline.core.tools import OutputFormat
from paceline.wire.chat_tools import (
    parse_function_call,
    parse_functions,
    parse_tool_choice,
    parse_tools,
    settle_tools,
)
from paceline.wire.errors import invalid, unsupported
from paceline.wire.fields import (
    Check,
    an_array,
    an_object,
    any_text,
    anything,
    body_object,
    flag,
    missing,
    one_of,
    read,
    table,
    text,
    unknown_fields,
    whole,
)
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.messages import parse_messages, unknown_in_messages
from paceline.wire.overrides import parse_overrides
from paceline.wire.sampling import (
    MAX_TOKENS_LIMIT,
    SHARED,
    check_model,
    check_together,
    metadata,
    never,
)

CHAT_NAMES = {
    "prompt": "messages",
    "tools[].schema": "tools[].function.parameters",
    "output_format.schema": "response_format.json_schema.schema",
}
"""Chat's words for the core's, to name a field in a refusal."""

MAX_TOP_LOGPROBS = 20


def parse_chat(body: Any, headers: Mapping[str, str]) -> GenerationRequest:
    """The request that a body of POST /v1/chat/completions makes; raises ApiError."""
    body = body_object(body)
    found = read(body, _TABLE)
    model = check_model(found)
    messages = found.get("messages")
    if messages is None:
        raise missing("messages")
    get = found.get
    newer, older = get("max_completion_tokens"), get("max_tokens")
    max_tokens, max_name = (
        (older, "max_tokens") if newer is None else (newer, "max_completion_tokens")
    )
    check_together(found, max_tokens, max_name)
    options = get("stream_options") or {}
    tools, choice = settle_tools(found)
    form = get("response_format")
    if tools or form is not None:
        messages = _definitions(body, form) + messages
    return GenerationRequest(
        model=model,
        prompts=(ChatPrompt(messages),),
        n=get("n", 1),
        max_tokens=max_tokens,
        min_tokens=get("min_tokens", 0),
        ignore_eos=get("ignore_eos", False),
        stop=get("stop", ()),
        seed=get("seed"),
        top_logprobs=_top_logprobs(found),
        reasoning_effort=get("reasoning_effort"),
        show_reasoning=get("include_reasoning"),
        service_tier=get("service_tier"),
        cache_key=get("prompt_cache_key"),
        stream=get("stream", False),
        include_usage=options.get("include_usage", False),
        continuous_usage=options.get("continuous_usage_stats", False),
        tools=tools,
        tool_choice=choice,
        # The older field has room for one call.
        parallel_tool_calls=get("parallel_tool_calls", True) and not body.get("functions"),
        output_format=form,
        headers=headers,
        overrides=parse_overrides(headers, get("paceline")),
        unknown=unknown_fields(body, _TABLE) + unknown_in_messages(body["messages"]),
    )


def _definitions(body: Mapping[str, Any], form: OutputFormat | None) -> tuple[Message, ...]:
    """What is on offer and what is wanted: the model reads both, so they count as prompt."""
    found = []
    tools = body.get("tools") or body.get("functions")
    if tools:
        found.append(Message("developer", json_bytes(tools).decode()))
    if form is not None and form.schema is not None:
        found.append(Message("developer", json_bytes(form.schema).decode()))
    return tuple(found)


def _top_logprobs(found: Mapping[str, Any]) -> int | None:
    top: int = found.get("top_logprobs", 0)
    if found.get("logprobs"):
        return top
    if top:
        raise invalid("top_logprobs", "top_logprobs is only allowed when logprobs is true.")
    return None


def _modalities(value: Any, path: str) -> None:
    for i, item in enumerate(an_array(value, path)):
        if _modality(item, f"{path}[{i}]") == "audio":
            raise unsupported(path, "Audio output is not supported.")


_modality = one_of("text", "audio")


_TABLE: dict[str, Check] = {
    **SHARED,
    "messages": parse_messages,
    "max_completion_tokens": whole(1, MAX_TOKENS_LIMIT),
    "max_tokens": whole(1, MAX_TOKENS_LIMIT),
    "logprobs": flag,
    "top_logprobs": whole(0, MAX_TOP_LOGPROBS),
    "reasoning_effort": one_of(*EFFORTS),
    "include_reasoning": flag,
    "prompt_cache_key": any_text,
    "prompt_cache_options": table(
        {"mode": one_of("implicit", "explicit"), "ttl": one_of("30m", "12h")}
    ),
    "prompt_cache_retention": one_of("in_memory", "in-memory", "24h"),
    "safety_identifier": text(0, 128),
    "metadata": metadata,
    "store": flag,
    "verbosity": one_of("low", "medium", "high"),
    "modalities": _modalities,
    "audio": never,
    "tools": parse_tools,
    "functions": parse_functions,
    "tool_choice": parse_tool_choice,
    "function_call": parse_function_call,
    "parallel_tool_calls": flag,
    "prediction": table({"type": one_of("content"), "content": anything}, "type", "content"),
    "moderation": an_object,
    "web_search_options": an_object,
    "add_generation_prompt": flag,
    "chat_template_kwargs": an_object,
}
