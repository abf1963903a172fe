"""Messages, the request: a JSON object -> GenerationRequest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.core.tools import AUTO, OutputFormat
from paceline.wire.anthropic.content import parse_messages, parse_system, unknown_in_messages
from paceline.wire.anthropic.tools import check_choice, parse_choice, parse_tools
from paceline.wire.errors import invalid
from paceline.wire.fields import (
    Check,
    an_array,
    an_object,
    any_text,
    anything,
    body_object,
    flag,
    missing,
    name_text,
    number,
    one_of,
    read,
    table,
    text,
    unknown_fields,
    whole,
    wrong_type,
)
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.overrides import parse_overrides
from paceline.wire.sampling import MAX_STOP_LENGTH, MAX_TOKENS_LIMIT

NAMES = {
    "prompt": "messages",
    "tools[].schema": "tools[].input_schema",
    "output_format.schema": "output_config.format.schema",
}
"""The dialect's words for the core's fields."""

LEAST_THINKING_BUDGET = 1024


def parse_message(body: Any, headers: Mapping[str, str]) -> GenerationRequest:
    """The request that a body of POST /v1/messages makes; raises ApiError."""
    body = body_object(body)
    if body.get("max_tokens") is None:
        raise missing("max_tokens")
    return _parse(body, headers)


def parse_count(body: Any, headers: Mapping[str, str]) -> GenerationRequest:
    """The request whose prompt POST /v1/messages/count_tokens counts; raises ApiError."""
    return _parse(body_object(body), headers)


def _parse(body: Mapping[str, Any], headers: Mapping[str, str]) -> GenerationRequest:
    found = read(body, _TABLE)
    get = found.get
    for name in ("model", "messages"):
        if name not in found:
            raise missing(name)
    choice, parallel = get("tool_choice", (AUTO, True))
    tools = get("tools", ())
    check_choice(choice, tools)
    effort, budget, shown = _thinking(found)
    form = (get("output_config") or {}).get("format") or get("output_format")
    return GenerationRequest(
        model=found["model"],
        prompts=(ChatPrompt((*_definitions(body, form), *get("system", ()), *found["messages"])),),
        max_tokens=get("max_tokens"),
        stop=get("stop_sequences", ()),
        reasoning_effort=effort,
        max_reasoning_tokens=budget,
        show_reasoning=shown,
        service_tier=_SPEEDS.get(get("speed", "")),
        cached=_bears_cache_control(body),
        stream=get("stream", False),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        output_format=form,
        headers=headers,
        overrides=parse_overrides(headers, get("paceline")),
        unknown=unknown_fields(body, _TABLE) + unknown_in_messages(body["messages"]),
    )


_SPEEDS = {"fast": "fast", "standard": "default"}
"""What each speed is as a tier; a request that names none leaves it to its key."""


def _definitions(body: Mapping[str, Any], form: OutputFormat | None) -> tuple[Message, ...]:
    """The tools and the form that is wanted: the model reads both, so they count as prompt.

    What it reads of them isn't published; their JSON stands for it, without the marks that say
    how far the prompt is to be cached, since a client moves those from turn to turn.
    """
    found = []
    if body.get("tools"):
        shown = [{k: v for k, v in t.items() if k != "cache_control"} for t in body["tools"]]
        found.append(Message("system", json_bytes(shown).decode()))
    if form is not None:
        found.append(Message("system", json_bytes(form.schema).decode()))
    return tuple(found)


def _thinking(found: Mapping[str, Any]) -> tuple[str | None, int | None, bool]:
    """How hard to think, the most tokens for it, and whether the thoughts are told."""
    config = found.get("thinking") or {"type": "disabled"}
    if config["type"] == "disabled":
        return "none", None, False
    budget = None
    if config["type"] == "enabled":
        budget = config.get("budget_tokens")
        if budget is None:
            raise missing("thinking.budget_tokens")
        if budget >= found.get("max_tokens", MAX_TOKENS_LIMIT + 1):
            raise invalid(
                "thinking.budget_tokens",
                "`max_tokens` must be greater than `thinking.budget_tokens`",
            )
    effort = (found.get("output_config") or {}).get("effort")
    return effort, budget, config.get("display") != "omitted"


def _bears_cache_control(value: Any) -> bool:
    """Whether a part of the body is marked to be cached."""
    if value.get("cache_control") is not None:
        return True
    parts = [*_objects(value.get("tools")), *_objects(value.get("system"))]
    for message in _objects(value.get("messages")):
        parts += _objects(message.get("content"))
    for part in list(parts):
        parts += _objects(part.get("content"))
    return any(part.get("cache_control") is not None for part in parts)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


_stop = text(1, MAX_STOP_LENGTH)


def _stops(value: Any, path: str) -> tuple[str, ...]:
    stops = [_stop(item, f"{path}[{i}]") for i, item in enumerate(an_array(value, path))]
    for i, stop in enumerate(stops):
        if not stop.strip():
            raise invalid(f"{path}[{i}]", f"{path}: each stop sequence must contain non-whitespace")
    return tuple(stops)


def _format(value: Any, path: str) -> OutputFormat:
    given = _format_table(value, path)
    return OutputFormat("json_schema", given["schema"], strict=True)


def _container(value: Any, path: str) -> Any:
    if not isinstance(value, str | Mapping):
        raise wrong_type(path, "a string or an object", value)
    return value


_format_table = table({"type": one_of("json_schema"), "schema": an_object}, "type", "schema")

_TABLE: dict[str, Check] = {
    "model": name_text,
    "messages": parse_messages,
    "system": parse_system,
    "max_tokens": whole(0, MAX_TOKENS_LIMIT),
    "stop_sequences": _stops,
    "stream": flag,
    "temperature": number(0.0, 1.0),
    "top_p": number(0.0, 1.0),
    "top_k": whole(0),
    "metadata": table({"user_id": any_text}),
    "thinking": table(
        {
            "type": one_of("enabled", "disabled", "adaptive", "between_tools"),
            "budget_tokens": whole(LEAST_THINKING_BUDGET, MAX_TOKENS_LIMIT),
            # Betas know more words than these two that mean something here.
            "display": any_text,
        },
        "type",
    ),
    "output_config": table(
        {"effort": one_of("low", "medium", "high", "xhigh", "max"), "format": _format}
    ),
    "output_format": _format,
    "service_tier": one_of("auto", "standard_only"),
    "speed": one_of("standard", "fast"),
    "tools": parse_tools,
    "tool_choice": parse_choice,
    "paceline": anything,  # overrides.py reads it, together with the headers
    # What changes nothing here
    "cache_control": an_object,
    "context_management": an_object,
    "compaction": an_object,
    "diagnostics": an_object,
    "container": _container,
    "mcp_servers": an_array,
    "betas": an_array,
    "inference_geo": any_text,
    "user_profile_id": any_text,
    "billing_policy": anything,
    "fallbacks": anything,
    "fallback_credit_token": anything,
    "thread": anything,
}
