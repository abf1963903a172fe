from __future__ import annotations

from typing import Any

import pytest

from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.wire.chat import parse_chat
from paceline.wire.errors import ApiError

USER = [{"role": "user", "content": "hi"}]


def parse(headers: dict[str, str] | None = None, **body: Any) -> GenerationRequest:
    return parse_chat({"model": "flat-40", "messages": USER, **body}, headers or {})


def refused(**body: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(**body)
    assert caught.value.status == 400
    assert caught.value.type == "invalid_request_error"
    return caught.value


def messages(*items: Any) -> tuple[Message, ...]:
    prompt = parse(messages=list(items)).prompts[0]
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


def test_the_least_body_means_the_defaults() -> None:
    assert parse() == GenerationRequest("flat-40", (ChatPrompt((Message("user", "hi"),)),))


def test_every_field_arrives() -> None:
    got = parse(
        n=2,
        max_tokens=5,
        min_tokens=1,
        ignore_eos=True,
        stop=["a", "b"],
        seed=-7,
        logprobs=True,
        top_logprobs=3,
        reasoning_effort="xhigh",
        include_reasoning=True,
        service_tier="fast",
        prompt_cache_key="k",
        stream=True,
        stream_options={"include_usage": True, "continuous_usage_stats": True},
    )
    assert got == GenerationRequest(
        "flat-40",
        (ChatPrompt((Message("user", "hi"),)),),
        n=2,
        max_tokens=5,
        min_tokens=1,
        ignore_eos=True,
        stop=("a", "b"),
        seed=-7,
        top_logprobs=3,
        reasoning_effort="xhigh",
        show_reasoning=True,
        service_tier="fast",
        cache_key="k",
        stream=True,
        include_usage=True,
        continuous_usage=True,
    )


def test_null_is_unset_for_every_optional_field() -> None:
    from paceline.wire import chat

    body = {key: None for key in chat._TABLE if key not in ("model", "messages")}
    assert parse(**body) == parse()


def test_the_newer_name_of_the_limit_wins() -> None:
    assert parse(max_tokens=9, max_completion_tokens=4).max_tokens == 4
    assert parse(max_completion_tokens=4).max_tokens == 4
    assert parse(max_completion_tokens=None, max_tokens=9).max_tokens == 9


def test_logprobs_without_alternatives_list_none() -> None:
    assert parse(logprobs=True).top_logprobs == 0
    assert parse(logprobs=False).top_logprobs is None
    assert parse(top_logprobs=0).top_logprobs is None


def test_one_stop_string_and_none() -> None:
    assert parse(stop="END").stop == ("END",)
    assert parse(stop=[]).stop == ()


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"model": None}, "model", "missing_required_parameter"),
        ({"model": ""}, "model", "empty_string"),
        ({"model": 3}, "model", "invalid_type"),
        ({"messages": None}, "messages", "missing_required_parameter"),
        ({"messages": {}}, "messages", "invalid_type"),
        ({"messages": []}, "messages", "empty_array"),
        ({"messages": ["hi"]}, "messages[0]", "invalid_type"),
        ({"temperature": -1}, "temperature", "decimal_below_min_value"),
        ({"temperature": 2.1}, "temperature", "decimal_above_max_value"),
        ({"temperature": 10**400}, "temperature", "decimal_above_max_value"),
        ({"temperature": "warm"}, "temperature", "invalid_type"),
        ({"temperature": True}, "temperature", "invalid_type"),
        ({"temperature": float("nan")}, "temperature", "invalid_value"),
        ({"top_p": float("inf")}, "top_p", "invalid_value"),
        ({"top_p": 1.5}, "top_p", "decimal_above_max_value"),
        ({"presence_penalty": -2.5}, "presence_penalty", "decimal_below_min_value"),
        ({"frequency_penalty": 3}, "frequency_penalty", "decimal_above_max_value"),
        ({"n": 0}, "n", "integer_below_min_value"),
        ({"n": 129}, "n", "integer_above_max_value"),
        ({"n": 1.0}, "n", "invalid_type"),
        ({"n": True}, "n", "invalid_type"),
        ({"max_tokens": 0}, "max_tokens", "integer_below_min_value"),
        ({"max_completion_tokens": "4"}, "max_completion_tokens", "invalid_type"),
        ({"min_tokens": 9, "max_tokens": 4}, "min_tokens", "invalid_value"),
        ({"stop": 3}, "stop", "invalid_type"),
        ({"stop": ""}, "stop", "empty_string"),
        ({"stop": ["a", ""]}, "stop[1]", "empty_string"),
        ({"stop": ["a", None]}, "stop[1]", "invalid_type"),
        ({"stop": list("abcde")}, "stop", "array_above_max_length"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"logprobs": False, "top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "integer_above_max_value"),
        ({"logprobs": 1}, "logprobs", "invalid_type"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "invalid_value"),
        ({"logit_bias": {"50256": 101}}, "logit_bias.50256", "decimal_above_max_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        ({"stream": False, "stream_options": {}}, "stream_options", "invalid_value"),
        (
            {"stream": True, "stream_options": {"include_usage": 1}},
            "stream_options.include_usage",
            "invalid_type",
        ),
        ({"stream": True, "stream_options": []}, "stream_options", "invalid_type"),
        ({"reasoning_effort": "huge"}, "reasoning_effort", "invalid_value"),
        ({"service_tier": "warp"}, "service_tier", "invalid_value"),
        ({"verbosity": "silent"}, "verbosity", "invalid_value"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "invalid_value"),
        ({"response_format": {}}, "response_format.type", "missing_required_parameter"),
        (
            {"tools": [{"type": "function"}]},
            "tools[0].function",
            "missing_required_parameter",
        ),
        ({"tools": {}}, "tools", "invalid_type"),
        ({"functions": [{}]}, "functions[0].name", "missing_required_parameter"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        (
            {"tool_choice": {"type": "function"}},
            "tool_choice.function",
            "missing_required_parameter",
        ),
        ({"modalities": ["text", "audio"]}, "modalities", "unsupported_parameter"),
        ({"modalities": ["smell"]}, "modalities[0]", "invalid_value"),
        ({"audio": {"voice": "alloy"}}, "audio", "unsupported_parameter"),
        ({"guided_json": {}}, "guided_json", "unsupported_parameter"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a", "invalid_value"),
        ({"metadata": {"k" * 65: "v"}}, "metadata", "invalid_value"),
        (
            {"metadata": {str(i): "" for i in range(17)}},
            "metadata",
            "object_above_max_properties",
        ),
        ({"prompt_cache_options": {"mode": "x"}}, "prompt_cache_options.mode", "invalid_value"),
        ({"prediction": {"type": "content"}}, "prediction.content", "missing_required_parameter"),
        ({"safety_identifier": "x" * 129}, "safety_identifier", "string_above_max_length"),
        ({"seed": 1 << 63}, "seed", "integer_above_max_value"),
        ({"seed": 1.5}, "seed", "invalid_type"),
        ({"user": 7}, "user", "invalid_type"),
    ],
)
def test_a_wrong_value_is_refused_by_name(body: dict[str, Any], param: str, code: str) -> None:
    error = refused(**body)
    assert (error.param, error.code) == (param, code)
    assert param in error.message or code == "unsupported_parameter"


@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "text"}},
        {"tools": []},
        {"tool_choice": "auto"},
        {"tool_choice": "none", "parallel_tool_calls": False},
        {"modalities": ["text"]},
        {"prediction": {"type": "content", "content": "x"}},
        {"metadata": {"a": "b"}, "user": "u", "store": True, "safety_identifier": "s"},
        {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}, "verbosity": "low"},
        {"prompt_cache_retention": "24h", "moderation": {"model": "m"}},
        {"web_search_options": {}},
        {"temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1.1},
        {"logit_bias": {"50256": -100}},
        {"skip_special_tokens": False, "stop_token_ids": [1, 2], "chat_template_kwargs": {}},
        {"service_tier": "ultrafast"},
        {"stream": True, "stream_options": {"include_obfuscation": False}},
    ],
)
def test_what_changes_nothing_is_accepted_silently(body: dict[str, Any]) -> None:
    assert parse(**body).unknown == ()


def test_unknown_fields_are_accepted_and_named() -> None:
    got = parse(frobnicate=1, zzz=None, messages=[{**USER[0], "mood": "fine"}] * 2)
    assert got.unknown == ("frobnicate", "zzz", "messages[].mood")


def test_content_parts_are_joined_and_counted() -> None:
    (message,) = messages(
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                {"type": "text", "text": "b"},
                {"type": "file", "file": {"file_id": "f"}},
                {"type": "input_audio", "input_audio": {"data": "", "format": "mp3"}},
            ],
        }
    )
    assert message == Message("user", "a\nb", 85 + 765 + 1000 + 1, "ann")


def test_every_role_is_taken_in_any_order() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    custom = {"id": "d", "type": "custom", "custom": {"name": "g", "input": "in"}}
    found = messages(
        {"role": "developer", "content": "d"},
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": None, "tool_calls": [call, custom]},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
        {"role": "user", "content": "again"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "refusal": "never"},
        {"role": "assistant", "content": "x", "function_call": {"name": "f", "arguments": "1"}},
        {"role": "function", "name": "f", "content": None},
        {"role": "assistant", "content": "done", "tool_calls": []},
    )
    assert [(m.role, m.text) for m in found] == [
        ("developer", "d"),
        ("system", "s"),
        ("user", "u"),
        ("assistant", "f\n{}\ng\nin"),
        ("tool", "42"),
        ("user", "again"),
        ("assistant", "f\n{}"),
        ("assistant", "no"),
        ("assistant", "never"),
        ("assistant", "x\nf\n1"),
        ("function", ""),
        ("assistant", "done"),
    ]
    assert found[10].name == "f"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "bot", "content": "x"}, "messages[0].role"),
        ({"role": 1, "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "assistant", "content": None}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": []}, "messages[0].content"),
        ({"role": "user", "content": ["x"]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "smell"}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": []}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": [{"type": "text", "text": 1}]}, "messages[0].content[0].text"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": "https://x"}]},
            "messages[0].content[0].image_url",
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "ftp://x"}}]},
            "messages[0].content[0].image_url.url",
        ),
        (
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:,", "detail": "fine"}}
                ],
            },
            "messages[0].content[0].image_url.detail",
        ),
        (
            {
                "role": "user",
                "content": [{"type": "input_audio", "input_audio": {"data": "x", "format": "ogg"}}],
            },
            "messages[0].content[0].input_audio.format",
        ),
        (
            {"role": "user", "content": [{"type": "file", "file": {"filename": "x"}}]},
            "messages[0].content[0].file.file_id",
        ),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "function", "content": "x"}, "messages[0].name"),
        ({"role": "user", "content": "x", "name": 4}, "messages[0].name"),
        ({"role": "user", "content": "x", "name": "n" * 65}, "messages[0].name"),
        ({"role": "assistant", "tool_calls": {}}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].id"),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "magic"}]},
            "messages[0].tool_calls[0].type",
        ),
    ],
)
def test_a_wrong_message_is_refused_by_path(message: Any, param: str) -> None:
    assert refused(messages=[message]).param == param
    later = refused(messages=[*USER, *USER, message])
    assert later.param == param.replace("messages[0]", "messages[2]")


@pytest.mark.parametrize("body", [None, [], "x", 3, True])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    with pytest.raises(ApiError) as caught:
        parse_chat(body, {})
    assert caught.value.status == 400
    assert caught.value.param is None
