"""The fields that chat and text completions share, and what they mean together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.wire.chat_tools import response_format
from paceline.wire.errors import invalid, unsupported
from paceline.wire.fields import (
    Check,
    an_array,
    an_object,
    any_text,
    anything,
    flag,
    missing,
    name_text,
    number,
    one_of,
    table,
    text,
    whole,
    wrong_type,
    wrong_value,
)

MAX_STOPS = 4
"""OpenAI's limit of stop sequences."""

MAX_STOP_LENGTH = 4096
"""Characters of one; OpenAI's limit isn't documented. What may be its beginning is held back."""

MAX_TOKENS_LIMIT = 1 << 31
MAX_CHOICES = 128


def logit_bias(value: Any, path: str) -> Mapping[str, Any]:
    """Token ids, as strings, to biases from -100 to 100."""
    biases = an_object(value, path)
    for key, bias in biases.items():
        if not (key.isascii() and key.isdigit()):
            raise wrong_value(path, "token ids as keys", key)
        _bias(bias, f"{path}.{key[:20]}")
    return biases


_stop = text(1, MAX_STOP_LENGTH)
_bias = number(-100.0, 100.0)


def stop_strings(value: Any, path: str) -> tuple[str, ...]:
    """A string, or up to four of them, none empty."""
    if isinstance(value, str):
        return (_stop(value, path),)
    if not isinstance(value, list):
        raise wrong_type(path, "a string or an array of strings", value)
    if len(value) > MAX_STOPS:
        raise invalid(
            path,
            f"Invalid value for {path}: expected at most {MAX_STOPS} strings, got {len(value)}.",
            "array_above_max_length",
        )
    return tuple([_stop(item, f"{path}[{i}]") for i, item in enumerate(value)])


def metadata(value: Any, path: str) -> Mapping[str, str]:
    """At most 16 pairs of strings, keys up to 64 characters and values up to 512."""
    pairs = an_object(value, path)
    if len(pairs) > 16:
        raise wrong_value(path, "at most 16 pairs", len(pairs), "object_above_max_properties")
    for key, item in pairs.items():
        if len(key) > 64:
            raise wrong_value(path, "keys of at most 64 characters", key)
        if not isinstance(item, str):
            raise wrong_type(f"{path}.{key}", "a string", item)
        if len(item) > 512:
            raise wrong_value(f"{path}.{key}", "at most 512 characters", len(item))
    return pairs


def _stop_ids(value: Any, path: str) -> list[int]:
    return [_token_id(item, f"{path}[{i}]") for i, item in enumerate(an_array(value, path))]


_token_id = whole(0, MAX_TOKENS_LIMIT)


def never(value: Any, path: str) -> None:
    """Refused whatever it holds: to accept it would be to answer wrongly."""
    raise unsupported(path, f"{path} is not supported.")


STREAM_OPTIONS = table(
    {"include_usage": flag, "continuous_usage_stats": flag, "include_obfuscation": flag}
)

SHARED: dict[str, Check] = {
    "model": name_text,
    "n": whole(1, MAX_CHOICES),
    "stop": stop_strings,
    "temperature": number(0.0, 2.0),
    "top_p": number(0.0, 1.0),
    "presence_penalty": number(-2.0, 2.0),
    "frequency_penalty": number(-2.0, 2.0),
    "logit_bias": logit_bias,
    "seed": whole(),
    "stream": flag,
    "stream_options": STREAM_OPTIONS,
    "user": any_text,
    "service_tier": one_of("auto", "default", "flex", "scale", "priority", "fast", "ultrafast"),
    "paceline": anything,  # overrides.py reads it, together with the headers
    # vLLM's, honoured
    "min_tokens": whole(0, MAX_TOKENS_LIMIT),
    "ignore_eos": flag,
    # vLLM's sampling, which changes nothing where nothing is sampled
    "top_k": whole(-1),
    "min_p": number(0.0, 1.0),
    "repetition_penalty": number(0.0, 1e6, above=True),
    "length_penalty": number(-1e6, 1e6),
    "use_beam_search": flag,
    "stop_token_ids": _stop_ids,
    "include_stop_str_in_output": flag,
    "skip_special_tokens": flag,
    "spaces_between_special_tokens": flag,
    "add_special_tokens": flag,
    "priority": whole(),
    "request_id": any_text,
    "cache_salt": any_text,
    "response_format": response_format,
    # vLLM's ways to shape the output
    "guided_json": never,
    "guided_regex": never,
    "guided_choice": never,
    "guided_grammar": never,
    "structured_outputs": never,
}


def check_model(found: Mapping[str, Any]) -> str:
    """The model's name, which every request has."""
    model: str | None = found.get("model")
    if model is None:
        raise missing("model")
    return model


def check_together(found: Mapping[str, Any], max_tokens: int | None, max_name: str) -> None:
    """Fields that exclude or need one another."""
    if "stream_options" in found and not found.get("stream"):
        raise invalid(
            "stream_options",
            "stream_options is only allowed when stream is true.",
            "invalid_value",
        )
    least = found.get("min_tokens", 0)
    if max_tokens is not None and least > max_tokens:
        raise invalid(
            "min_tokens", f"min_tokens ({least}) must not be above {max_name} ({max_tokens})."
        )
