"""Responses, the request: a JSON object -> GenerationRequest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from paceline.core.request import EFFORTS, ChatPrompt, GenerationRequest, Message, Overrides
from paceline.core.tools import OutputFormat, Tool
from paceline.core.usage import Usage
from paceline.wire.errors import ApiError, invalid, unsupported
from paceline.wire.fields import (
    Check,
    an_array,
    an_object,
    any_text,
    anything,
    array_of,
    body_object,
    flag,
    missing,
    name_text,
    number,
    one_of,
    read,
    required,
    required_text,
    table,
    text,
    unknown_fields,
    whole,
    wrong_type,
)
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.overrides import parse_overrides
from paceline.wire.responses.items import TRIGGER, Item, is_reference, parse_input
from paceline.wire.responses.tools import parse_format, parse_tool_choice, parse_tools, shown_tools
from paceline.wire.sampling import MAX_TOKENS_LIMIT, check_model, metadata

RESPONSE_NAMES = {
    "prompt": "input",
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "tools[].schema": "tools[].parameters",
    "output_format.schema": "text.format.schema",
}
"""The dialect's words for the core's, to name a field in a refusal."""

INCLUDE = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
MAX_TOP_LOGPROBS = 20

CHECKPOINT = "You are performing a CONTEXT CHECKPOINT COMPACTION"
"""How Codex begins the message that asks for a summary of all that went before."""

SUMMARY_TOKENS = 256
"""Length of such a summary, and of a compaction's content."""


class Recall(Protocol):
    """What is remembered of earlier responses and conversations."""

    def response(self, response_id: str) -> Sequence[Item]:
        """All items up to and with a response's own output. Raises ApiError."""
        ...

    def conversation(self, conversation_id: str) -> Sequence[Item]:
        """A conversation's items. Raises ApiError."""
        ...

    def item(self, item_id: str) -> Item | None:
        """An item by its id, None if it isn't known."""
        ...


@dataclass(slots=True)
class ResponseContext:
    """What a response's encoder and its keeper need of the request.

    `shown` is the part of the response object that only the request decides. `items` are the
    request's own, `history` those before them.
    """

    shown: Mapping[str, Any]
    items: Sequence[Item] = ()
    history: Sequence[Item] = ()
    store: bool = True
    background: bool = False
    previous: str | None = None
    conversation: str | None = None
    summary: str | None = None
    sealed: bool = False
    """Whether reasoning's `encrypted_content` is sent."""
    logprobs: bool = False
    obfuscate: bool = True
    generate: bool = True
    compaction: bool = False
    stream_id: str | None = None
    now: Callable[[], int] | None = None
    """Tells the time of a response's completion (Unix seconds)."""
    ended: Callable[[str, bytes, Sequence[Mapping[str, Any]], Usage | None], None] | None = None
    """Told of a response's end: its status, its final object and its output items."""


def parse_response(body: Any, headers: Mapping[str, str], recall: Recall) -> GenerationRequest:
    """The request that a body of POST /v1/responses makes; raises ApiError."""
    body = body_object(body)
    found = read(body, _TABLE)
    model = check_model(found)
    get = found.get
    items = _items(found, recall)
    history = _history(found, recall)
    stream = get("stream", False)
    if "stream_options" in found and not stream:
        raise invalid("stream_options", "stream_options is only allowed when stream is true.")
    compaction = bool(items) and items[-1].kind == TRIGGER
    tools: tuple[Tool, ...] = () if compaction else get("tools", ())
    choice = parse_tool_choice(body.get("tool_choice"), "tool_choice", tools)
    include = get("include", ())
    form, _verbosity = get("text", (None, None))
    reasoning = get("reasoning", {})
    generate = get("generate", True) and not get("prompt_cache_options", {}).get("prewarm", False)
    context = ResponseContext(
        shown=_shown(body, found),
        items=[item for item in items if item.kind != TRIGGER],
        history=history,
        store=get("store", True),
        background=get("background", False),
        previous=get("previous_response_id"),
        conversation=get("conversation"),
        summary=reasoning.get("summary") or reasoning.get("generate_summary"),
        sealed="reasoning.encrypted_content" in include,
        logprobs="message.output_text.logprobs" in include or bool(get("top_logprobs")),
        obfuscate=get("stream_options", {}).get("include_obfuscation", True),
        generate=generate,
        compaction=compaction,
        stream_id=get("stream_id"),
    )
    if context.background and not context.store:
        raise invalid("store", "A background response has to be stored.")
    messages = _messages(found, context)
    overrides = _overrides(headers, found, context, messages)
    return GenerationRequest(
        model=model,
        prompts=(ChatPrompt(messages),),
        max_tokens=get("max_output_tokens"),
        top_logprobs=get("top_logprobs", 0) if context.logprobs else None,
        reasoning_effort="none" if compaction else reasoning.get("effort"),
        show_reasoning=context.summary is not None,
        service_tier=get("service_tier"),
        cache_key=get("prompt_cache_key"),
        stream=stream,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=get("parallel_tool_calls", True),
        max_tool_calls=get("max_tool_calls"),
        output_format=None if compaction else form,
        headers=headers,
        overrides=overrides,
        unknown=unknown_fields(body, _TABLE),
        drop_oldest=get("truncation") == "auto",
        context=context,
    )


def _items(found: Mapping[str, Any], recall: Recall) -> list[Item]:
    items: list[Item] = found.get("input", [])
    if "input" not in found and not any(
        key in found for key in ("previous_response_id", "conversation", "instructions")
    ):
        raise missing("input")
    for i, item in enumerate(items):
        if is_reference(item):
            named = recall.item(item.data["id"])
            if named is None:
                path = f"input[{i}]"
                message = f"Item with id {item.data['id']!r} not found."
                raise ApiError(404, message, param=path, code="item_not_found")
            items[i] = named
        elif item.kind == "reasoning" and item.message is None and item.data.get("id"):
            items[i] = recall.item(str(item.data["id"])) or item
    return items


def _history(found: Mapping[str, Any], recall: Recall) -> Sequence[Item]:
    previous, conversation = found.get("previous_response_id"), found.get("conversation")
    if previous is not None and conversation is not None:
        raise invalid(
            "previous_response_id",
            "previous_response_id and conversation exclude each other.",
            "mutually_exclusive_parameters",
        )
    if previous is not None:
        return recall.response(previous)
    if conversation is not None:
        return recall.conversation(conversation)
    return ()


def _messages(found: Mapping[str, Any], context: ResponseContext) -> tuple[Message, ...]:
    """The prompt, what changes least first, as a prompt cache wants it."""
    messages: list[Message] = []
    # What the model reads of the tools isn't published; their JSON stands for it.
    tools = context.shown.get("tools")
    if tools:
        messages.append(Message("developer", json_bytes(tools).decode()))
    form: OutputFormat | None = found.get("text", (None, None))[0]
    if form is not None and form.schema is not None:
        messages.append(Message("developer", json_bytes(form.schema).decode()))
    instructions = found.get("instructions")
    if instructions:
        messages.append(Message("developer", instructions))
    items = (*context.history, *context.items)
    return (*messages, *[item.message for item in items if item.message is not None])


def _overrides(
    headers: Mapping[str, str],
    found: Mapping[str, Any],
    context: ResponseContext,
    messages: Sequence[Message],
) -> Overrides:
    """What is fixed about the answer's length: by the caller, or by what it is."""
    given = parse_overrides(headers, found.get("paceline"))
    if not context.generate:
        return replace(given, output_tokens=0, reasoning_tokens=0)
    summary = context.compaction or (
        not found.get("tools") and messages and messages[-1].text.startswith(CHECKPOINT)
    )
    if not summary:
        return given
    length = given.output_tokens
    if length is None:
        # An answer that is cut short would be fatal to the agent that asked for it.
        length = min(SUMMARY_TOKENS, found.get("max_output_tokens", SUMMARY_TOKENS))
    return replace(given, output_tokens=length, reasoning_tokens=0)


def _shown(body: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a response object that repeat the request, defaults filled in."""
    get = found.get
    form, reasoning = body.get("text") or {}, body.get("reasoning") or {}
    verbosity = form.get("verbosity") or "medium"
    shown: dict[str, Any] = {
        "background": get("background", False),
        "conversation": {"id": get("conversation")} if get("conversation") else None,
        "instructions": get("instructions"),
        "max_output_tokens": get("max_output_tokens"),
        "max_tool_calls": get("max_tool_calls"),
        "metadata": get("metadata", {}),
        "parallel_tool_calls": get("parallel_tool_calls", True),
        "presence_penalty": get("presence_penalty", 0.0),
        "frequency_penalty": get("frequency_penalty", 0.0),
        "previous_response_id": get("previous_response_id"),
        "prompt_cache_key": get("prompt_cache_key"),
        "prompt_cache_retention": get("prompt_cache_retention"),
        "reasoning": {
            "effort": reasoning.get("effort"),
            "summary": reasoning.get("summary") or reasoning.get("generate_summary"),
        },
        "safety_identifier": get("safety_identifier"),
        "store": get("store", True),
        "temperature": get("temperature", 1.0),
        "text": {"format": form.get("format") or {"type": "text"}, "verbosity": verbosity},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": shown_tools(body.get("tools")),
        "top_logprobs": get("top_logprobs", 0),
        "top_p": get("top_p", 1.0),
        "truncation": get("truncation", "disabled"),
        "user": get("user"),
    }
    options = get("prompt_cache_options")
    if options is not None:
        mode, ttl = options.get("mode", "implicit"), options.get("ttl", "30m")
        shown["prompt_cache_options"] = {"mode": mode, "ttl": ttl}
    return shown


def _conversation(value: Any, path: str) -> str:
    if isinstance(value, str):
        return name_text(value, path)
    return name_text(required(an_object(value, path), "id", path), f"{path}.id")


def _text(value: Any, path: str) -> tuple[OutputFormat | None, str | None]:
    given = an_object(value, path)
    form, verbosity = given.get("format"), given.get("verbosity")
    if verbosity is not None:
        verbosity = _verbosity(verbosity, f"{path}.verbosity")
    return (None if form is None else parse_format(form, f"{path}.format")), verbosity


def _no_prompt(value: Any, path: str) -> None:
    an_object(value, path)
    raise unsupported(
        path, "No prompt templates are kept here: send their text as instructions or input."
    )


def _choice(value: Any, path: str) -> Any:
    if not isinstance(value, str | Mapping):
        raise wrong_type(path, "a string or an object", value)
    return value


def _management(value: Any, path: str) -> None:
    for i, item in enumerate(an_array(value, path)):
        where = f"{path}[{i}]"
        required_text(an_object(item, where), "type", where)


_verbosity = one_of("low", "medium", "high")
_penalty = number(-2.0, 2.0)
_summary = one_of("auto", "concise", "detailed")

_TABLE: dict[str, Check] = {
    "model": name_text,
    "input": parse_input,
    "instructions": any_text,
    "previous_response_id": name_text,
    "conversation": _conversation,
    "store": flag,
    "background": flag,
    "background_options": an_object,
    "include": array_of(one_of(*INCLUDE)),
    "max_output_tokens": whole(1, MAX_TOKENS_LIMIT),
    "max_tool_calls": whole(0, MAX_TOKENS_LIMIT),
    "parallel_tool_calls": flag,
    "reasoning": table(
        {
            "effort": one_of(*EFFORTS),
            "summary": _summary,
            "generate_summary": _summary,
            "context": one_of("auto", "current_turn", "all_turns"),
            "mode": any_text,
        }
    ),
    "text": _text,
    "truncation": one_of("auto", "disabled"),
    "prompt_cache_key": any_text,
    "prompt_cache_options": table(
        {
            "mode": one_of("implicit", "explicit"),
            "ttl": one_of("30m", "12h"),
            "prewarm": flag,
            "comparison_response_id": any_text,
        }
    ),
    "prompt_cache_retention": one_of("in_memory", "24h"),
    "safety_identifier": text(0, 128),
    "service_tier": one_of("auto", "default", "flex", "scale", "priority", "fast", "ultrafast"),
    "tools": parse_tools,
    "tool_choice": _choice,
    "top_logprobs": whole(0, MAX_TOP_LOGPROBS),
    "temperature": number(0.0, 2.0),
    "top_p": number(0.0, 1.0),
    "presence_penalty": _penalty,
    "frequency_penalty": _penalty,
    "metadata": metadata,
    "user": any_text,
    "stream": flag,
    "stream_options": table({"include_obfuscation": flag, "include_usage": flag}),
    "prompt": _no_prompt,
    "context_management": _management,
    "moderation": an_object,
    "image": an_object,
    "access_programs": an_object,
    "client_metadata": an_object,
    "paceline": anything,  # overrides.py reads it, together with the headers
    "generate": flag,
    "stream_id": name_text,
}
