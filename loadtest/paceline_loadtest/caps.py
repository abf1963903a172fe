"""What a load test may spend at an endpoint that costs money.

Before each call its most expensive end is set aside; after it, what it really came to. So a run
stops before it passes a cap, whatever its answers turn out to be.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline_loadtest.errors import LoadTestError
from paceline_loadtest.model import Call

_MILLION = 1e6
_DOUBT = 1.25
"""Another tokenizer may count a prompt differently; so much more is set aside."""


@dataclass(frozen=True, slots=True)
class Price:
    """What tokens cost, in dollars a million; cached ones count as any others."""

    input_usd: float
    output_usd: float

    def usd(self, prompt_tokens: float, output_tokens: float) -> float:
        """The most that a call of so many tokens costs."""
        return (prompt_tokens * self.input_usd + output_tokens * self.output_usd) / _MILLION


def parse_price(text: str) -> Price:
    """Read `2.50,10`: dollars a million tokens of input and of output. Raises LoadTestError."""
    try:
        given, taken = (float(part) for part in text.split(","))
    except ValueError:
        given = taken = -1.0
    if not (0 <= given < 1e9 and 0 <= taken < 1e9):
        raise LoadTestError(
            f"--price: {text!r} is not dollars a million tokens of input and output, as in 2.50,10"
        )
    return Price(given, taken)


class Caps:
    """How much may be spent in all, over all targets; tokens are prompts and answers together."""

    def __init__(self, max_tokens: int, max_usd: float, price: Price) -> None:
        self._max_tokens = max_tokens
        self._max_usd = max_usd
        self._price = price
        self.tokens = 0.0
        self.usd = 0.0

    def take(self, prompt_tokens: int, output_tokens: int) -> Share:
        """Set a call's most expensive end aside. Raises CapError where that would pass a cap."""
        prompt = prompt_tokens * _DOUBT
        share = Share(prompt + output_tokens, self._price.usd(prompt, output_tokens))
        if self.tokens + share.tokens > self._max_tokens:
            raise CapError(
                f"the next call could pass --max-tokens-total {self._max_tokens:,}: "
                f"{self.tokens:,.0f} are spent or set aside"
            )
        if self.usd + share.usd > self._max_usd:
            raise CapError(
                f"the next call could pass --max-cost-usd {self._max_usd:g}: "
                f"{self.usd:.4f} are spent or set aside"
            )
        self.tokens += share.tokens
        self.usd += share.usd
        return share

    def settle(self, share: Share, call: Call) -> None:
        """Put in what a call came to. One that told no usage is taken at its worst.

        A call that was retried may have cost something each time, so it too.
        """
        if call.prompt_tokens is None or call.output_tokens is None or call.retries:
            return
        self.tokens += call.prompt_tokens + call.output_tokens - share.tokens
        self.usd += self._price.usd(call.prompt_tokens, call.output_tokens) - share.usd


@dataclass(frozen=True, slots=True)
class Share:
    """What is set aside for one call."""

    tokens: float
    usd: float


class CapError(Exception):
    """A cap is reached; the message says which."""
