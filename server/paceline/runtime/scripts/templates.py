"""Placeholders in a script's strings: a name in double braces, and nothing that could run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_HOLE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")

LookUp = Callable[[str], Any]
"""A placeholder's name -> its value."""


def placeholders(text: str) -> list[str]:
    """The names that a string has placeholders for."""
    return _HOLE.findall(text)


def filled(value: Any, look_up: LookUp) -> Any:
    """A JSON value with the placeholders in its strings replaced.

    A string that is one placeholder and no more becomes the value itself, of whatever type; what
    is put in is never searched for placeholders again.
    """
    if isinstance(value, str):
        whole = _HOLE.fullmatch(value)
        if whole is not None:
            return look_up(whole[1])
        return _HOLE.sub(lambda hole: _as_text(look_up(hole[1])), value)
    if isinstance(value, list):
        return [filled(item, look_up) for item in value]
    if isinstance(value, Mapping):
        return {name: filled(item, look_up) for name, item in value.items()}
    return value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
