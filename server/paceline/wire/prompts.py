"""Prompts outside of a chat: a text, several, token ids, or several lists of them."""

from __future__ import annotations

from typing import Any

from paceline.core.request import TextPrompt, TokenPrompt
from paceline.wire.errors import ApiError, invalid
from paceline.wire.fields import wrong_type, wrong_value

MAX_PROMPTS = 2048
"""OpenAI's limit for arrays of inputs."""

MAX_TOKEN_ID = 199_997
END_OF_TEXT, END_OF_PROMPT = 199_999, 200_018
"""The ids of o200k_base: ranks up to MAX_TOKEN_ID, and two special tokens (tiktoken)."""

EMPTY: tuple[TextPrompt | TokenPrompt, ...] = (TextPrompt(""),)

_WANTED = "a string, an array of strings, an array of token ids or an array of such arrays"


def parse_prompts(value: Any, path: str) -> tuple[TextPrompt | TokenPrompt, ...]:
    """One or many prompts, as the completions and embeddings endpoints take them."""
    if isinstance(value, str):
        return (TextPrompt(value),)
    if not isinstance(value, list):
        raise wrong_type(path, _WANTED, value)
    if not value:
        raise empty(path)
    if type(value[0]) is int:
        return (_ids(value, path),)
    if len(value) > MAX_PROMPTS:
        raise invalid(
            path,
            f"Invalid value for {path}: expected at most {MAX_PROMPTS} items, got {len(value)}.",
            "array_above_max_length",
        )
    if isinstance(value[0], str):
        return tuple([_text(item, f"{path}[{i}]") for i, item in enumerate(value)])
    if isinstance(value[0], list):
        return tuple([_ids(item, f"{path}[{i}]") for i, item in enumerate(value)])
    raise wrong_type(f"{path}[0]", "a string, a token id or an array of token ids", value[0])


def empty(path: str) -> ApiError:
    """400: an array or text that has to hold something."""
    return invalid(path, f"Invalid value for {path}: it must not be empty.", "empty_array")


def _text(value: Any, path: str) -> TextPrompt:
    if not isinstance(value, str):
        raise wrong_type(path, "a string, as the first item is", value)
    return TextPrompt(value)


def _ids(value: Any, path: str) -> TokenPrompt:
    if not isinstance(value, list):
        raise wrong_type(path, "an array of token ids, as the first item is", value)
    if not value:
        raise empty(path)
    # A prompt may hold half a million ids: the items are looked at one by one only to say which
    # is wrong.
    if set(map(type, value)) != {int}:
        wrong = next(i for i, item in enumerate(value) if type(item) is not int)
        raise wrong_type(f"{path}[{wrong}]", "an integer", value[wrong])
    if min(value) < 0 or max(value) > MAX_TOKEN_ID:
        for i, item in enumerate(value):
            if not 0 <= item <= MAX_TOKEN_ID and item not in (END_OF_TEXT, END_OF_PROMPT):
                raise wrong_value(f"{path}[{i}]", "a token id of o200k_base", item)
    return TokenPrompt(tuple(value))
