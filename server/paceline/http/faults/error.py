"""An error in place of an answer."""

from __future__ import annotations

import time
from math import ceil

from paceline.core.request import Fault
from paceline.wire.errors import ApiError
from paceline.wire.retry import retry_headers, wait_text


class AskedForError(ApiError):
    """An error that the request itself wants."""


def error_of(fault: Fault) -> ApiError:
    """The error that a request asks for, with a wait in its headers where one was asked for."""
    message = fault.message
    headers: dict[str, str] = {}
    if fault.retry_after_s is not None:
        wait_ns = ceil(fault.retry_after_s * 1e9)
        headers = retry_headers(wait_ns)
        message += f" Please try again in {wait_text(wait_ns)}."
    extra: dict[str, object] = {}
    if fault.type == "usage_limit_reached":
        # What Codex reads of a plan that is used up.
        seconds = ceil(fault.resets_in_s)
        extra = {
            "plan_type": "pro",
            "resets_at": int(time.time()) + seconds,
            "resets_in_seconds": seconds,
        }
    return AskedForError(
        fault.status, message, type=fault.type, code=fault.code, headers=headers, extra=extra
    )
