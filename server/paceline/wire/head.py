"""What every object of one answer says of itself, whatever the dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paceline.core.logprobs import TokenLogprob
from paceline.core.plan import ChoicePlan

CHAT_ID_PREFIX = "chatcmpl-"
COMPLETION_ID_PREFIX = "cmpl-"

LogprobsFn = Callable[[ChoicePlan, int, int], list[TokenLogprob]]
"""Log probabilities of the visible tokens start..stop of a choice, one a token.

The indices are those of `choice.pieces`: hidden reasoning is not counted. How many alternatives
each token lists is the function's own affair (it knows the request).
"""


@dataclass(frozen=True, slots=True)
class Head:
    """An answer's identity, the same in each of its chunks.

    `created` is in Unix seconds. `model` is the name that the caller used. `service_tier` is the
    tier that really served.
    """

    id: str
    created: int
    model: str
    service_tier: str = "default"
    system_fingerprint: str = "fp_paceline"
