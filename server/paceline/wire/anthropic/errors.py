"""Errors in Anthropic's envelope."""

from __future__ import annotations

from paceline.wire import sse
from paceline.wire.errors import ApiError
from paceline.wire.jsonbytes import json_bytes

OVERLOADED = 529
"""Anthropic's own status for a server that has no room; it knows no 503."""

_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}


def error_status(status: int) -> int:
    """The status that Anthropic's API has for an error of this status."""
    return OVERLOADED if status == 503 else status


def error_type(status: int) -> str:
    """Anthropic's `type` for a status."""
    return _TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")


def error_body(error: ApiError, request_id: str | None) -> bytes:
    """The JSON body of an error."""
    return json_bytes(
        {
            "type": "error",
            "error": {"type": error_type(error_status(error.status)), "message": _message(error)},
            "request_id": request_id,
        }
    )


def error_event(error: ApiError, request_id: str | None) -> bytes:
    """The event that ends a stream which broke after it began."""
    return b"event: error\n" + sse.event(error_body(error, request_id))


def _message(error: ApiError) -> str:
    # Clients know a prompt that doesn't fit by these words.
    if error.code == "context_length_exceeded":
        return f"prompt is too long: {error.message}"
    return error.message
