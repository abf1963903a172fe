"""What went wrong, in words: errors of the APIs, of the network, and of what was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

_MOST = 500
"""Characters of an error that are kept."""


class LoadTestError(Exception):
    """What was given can't be used; the message is for people."""


def error_text(value: Any) -> str:
    """What an error's JSON says: OpenAI's or Anthropic's envelope, a flat one, or itself."""
    match value:
        case {"error": {"message": str(message), **rest}}:
            return _with_code(message, rest)
        case {"error": str(message)} | {"detail": str(message)}:
            return message[:_MOST]
        case {"message": str(message), **rest}:
            return _with_code(message, rest)
        case _:
            return orjson.dumps(value, default=str).decode()[:_MOST]


def body_text(body: bytes) -> str:
    """What the body of an error says, JSON or not."""
    try:
        return error_text(orjson.loads(body))
    except ValueError:
        return body.decode("utf-8", "replace").strip()[:_MOST]


def os_text(error: BaseException) -> str:
    """What the system says."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _with_code(message: str, rest: Mapping[Any, Any]) -> str:
    code = rest.get("code") or rest.get("type")
    return f"{message} ({code})"[:_MOST] if isinstance(code, str) else message[:_MOST]
