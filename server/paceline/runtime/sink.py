"""Where an answer's bytes go, and what is said of its times on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from paceline.core.usage import Usage


@dataclass(frozen=True, slots=True)
class Timing:
    """Where an answer's time went so far, in seconds; `decode_s` is 0 before its end."""

    overhead_s: float
    queue_s: float
    prefill_s: float
    decode_s: float
    ttft_s: float
    total_s: float


class Sink(Protocol):
    """An answer's way out; `drained` is called when a blocked one can take more again."""

    drained: Callable[[], None] | None

    @property
    def blocked(self) -> bool:
        """Whether the reader can't take more."""
        ...

    def begin(self, timing: Timing | None) -> None:
        """Send the headers of a stream; None where they leave before its first token."""
        ...

    def write(self, data: bytes) -> None:
        """Send a part of the body; never called while blocked, but for an end."""
        ...

    def end(self, data: bytes) -> None:
        """Send the body's last part."""
        ...

    def refuse(self, status: int, message: str, code: str) -> None:
        """Nothing has left yet and nothing will: send an error."""
        ...

    def whole(self, usage: Usage, timing: Timing) -> None:
        """All tokens are there: send an answer that isn't streamed."""
        ...
