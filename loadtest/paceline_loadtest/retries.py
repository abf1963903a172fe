"""When a call is made again: as the server says, never earlier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from paceline_loadtest.clock import sleep_until
from paceline_loadtest.endpoint import retry_after_s
from paceline_loadtest.model import Call

_RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a refused call is made again, and how long is waited where nobody says.

    Only what was refused before a byte of the answer is made again. Without a word of the
    server's the wait is `first_s`, doubled each time up to `most_s`, as the SDKs have it, without
    their chance. A longer wait than `longest_s` is not waited for: the call fails.
    """

    most: int = 2
    first_s: float = 0.5
    most_s: float = 8.0
    longest_s: float = 120.0

    def wait_s(self, made: int, status: int | None, headers: Mapping[str, str]) -> float | None:
        """Seconds until the call may be made again after `made` retries; None: it may not."""
        if made >= self.most or status not in _RETRIED:
            return None
        if headers.get("x-should-retry") == "false":
            return None
        told = retry_after_s(headers)
        wait = min(self.first_s * 2.0**made, self.most_s) if told is None else told
        return wait if wait <= self.longest_s else None


async def wait_again(call: Call, wait_s: float) -> None:
    """Wait before a call is made again, and note it."""
    began = perf_counter()
    made_again(call, await sleep_until(began + wait_s) - began)


def made_again(call: Call, waited_s: float) -> None:
    """Note that a call is made again after so long a wait; the marks of the refusal go."""
    call.retries += 1
    call.waited_s += waited_s
    call.error = call.status = call.headers_at = call.end_at = None
