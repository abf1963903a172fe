"""What every object of one answer says of itself, whatever the dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.core.logprobs import TokenLogprob
from paceline.core.plan import ChoicePlan
from paceline.core.usage import Usage

CHAT_ID_PREFIX = "chatcmpl-"
COMPLETION_ID_PREFIX = "cmpl-"

LogprobsFn = Callable[[ChoicePlan, int, int], list[TokenLogprob]]
"""Log probabilities of the visible tokens start..stop of a choice, one a token.

The indices are those of `choice.pieces`: hidden reasoning is not counted. How many alternatives
each token lists is the function's own affair (it knows the request).
"""


BillFn = Callable[[Usage], bytes]
"""What a usage costs, as the JSON object that stands beside it under `paceline`."""


@dataclass(frozen=True, slots=True)
class Head:
    """An answer's identity, the same in each of its chunks.

    `created` is in Unix seconds. `model` is the name that the caller used. `service_tier` is the
    tier that really served. Without `bill` nothing is said of the cost.
    """

    id: str
    created: int
    model: str
    service_tier: str = "default"
    system_fingerprint: str = "fp_paceline"
    bill: BillFn | None = field(default=None, compare=False)

    def cost(self, usage: Usage) -> bytes:
        """The member `paceline` behind a usage, with the comma before it; empty without a bill."""
        return b"" if self.bill is None else b',"paceline":%b' % self.bill(usage)
