"""What a call costs beyond the server's waiting: measured on a server that doesn't wait."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from time import perf_counter

from paceline_loadtest.caller import Caller
from paceline_loadtest.conversation import Conversation
from paceline_loadtest.model import Call, Dialect, Loop, Target, Turn

_CALLS = 21
_WARM = 3
"""The first calls make connections, and import what an SDK imports late."""

INSTANT = "instant"
"""Paceline's profile without any delay."""


async def calibrate(
    caller: Caller, target: Target, dialect: Dialect, *, salt: str, stream: bool
) -> float | None:
    """Seconds from a call's being due to its end on the target's server, one call at a time.

    The median of several of 32 tokens; None where the server has no such profile. It holds the
    client, the connection and the server's own work, and nothing that a profile says.
    """
    turn = Turn(new_tokens=64, reasoning_tokens=0, output_tokens=32)
    loop = Loop("calibration", 0, 0, 0, (turn,) * (_CALLS + _WARM))
    instant = replace(target, model=INSTANT, service_tier=None)
    found = []
    for number in range(_CALLS + _WARM):
        # A conversation each: the prompt doesn't grow.
        conversation = Conversation(
            loop, instant, dialect, salt=f"{salt}/{number}", stream=stream, thread=loop.id
        )
        call = Call(perf_counter())
        await caller.call(conversation.ask(), call)
        if call.error is not None or call.end_at is None:
            await caller.end_thread(loop.id)
            return None
        if number >= _WARM:
            found.append(call.end_at - call.scheduled_at)
    await caller.end_thread(loop.id)
    return median(found)
