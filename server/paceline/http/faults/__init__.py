"""Things that go wrong with an answer because its request asks for it, one a file.

A fault stands between an answer and its way out, and only where one was asked for: an answer
without a fault never comes here. `nothing` is the one to copy.
"""

from __future__ import annotations

from paceline.core.deployment import Transport
from paceline.core.request import Overrides
from paceline.http.faults.drop_after import DropAfter
from paceline.http.faults.error import error_of
from paceline.http.faults.fail_after import FailAfter
from paceline.http.faults.nothing import Nothing, Scene
from paceline.http.faults.slice import Slice
from paceline.http.faults.stall_after import StallAfter
from paceline.wire.errors import unsupported

FAULTS: dict[str, type[Nothing]] = {
    "none": Nothing,
    "fail_after": FailAfter,
    "drop_after": DropAfter,
    "stall_after": StallAfter,
    "slice": Slice,
}
"""Those of an answer under way; `error` comes in place of one."""

ERROR = "error"


def refuse(overrides: Overrides, *, stream: bool, transport: Transport = "http") -> None:
    """Raise the error that was asked for, or say that a fault can't happen to this answer.

    Raises ApiError.
    """
    fault = overrides.fault
    if fault is None:
        return
    if fault.name == ERROR:
        raise error_of(fault)
    if fault.name == "slice" and transport == "websocket":
        raise unsupported(fault.param, "The fault slice can't happen over a WebSocket.")
    if fault.name == "slice" and not stream:
        raise unsupported(fault.param, "The fault slice cuts a stream: set stream.")


def only_errors(overrides: Overrides, where: str) -> None:
    """Say that nothing but an error can happen somewhere ("in the background").

    Raises ApiError.
    """
    fault = overrides.fault
    if fault is not None and fault.name not in (ERROR, "none"):
        raise unsupported(fault.param, f"The fault {fault.name} can't happen {where}.")


def fault_of(scene: Scene) -> Nothing:
    """The fault that a plan asks for, put in the way of its answer."""
    fault = scene.plan.request.overrides.fault
    assert fault is not None, "looked at before"
    return FAULTS[fault.name](fault, scene)
