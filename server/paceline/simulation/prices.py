"""What a run would have cost, exactly: decimals, never floats."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from paceline.simulation.lengths import WorkloadError

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Prices:
    """US$ for a million tokens of each kind; cached ones cost as much as others unless stated."""

    input: Decimal
    cached: Decimal
    output: Decimal

    def cost(self, prompt_tokens: int, cached_tokens: int, output_tokens: int) -> Decimal:
        """US$ for so many tokens; `cached_tokens` are a part of `prompt_tokens`."""
        fresh = (prompt_tokens - cached_tokens) * self.input
        return (fresh + cached_tokens * self.cached + output_tokens * self.output) / _MILLION


def parse_prices(text: str) -> Prices:
    """Read `input:4,cached:0.4,output:20`. Raises WorkloadError."""
    found: dict[str, Decimal] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition(":")
        try:
            price = Decimal(value)
        except InvalidOperation:
            price = Decimal(-1)
        bad = not price.is_finite() or not 0 <= price <= _MILLION
        if bad or name not in {"input", "cached", "output"} or name in found:
            raise WorkloadError(
                f"prices are input:USD, cached:USD and output:USD a million tokens, not {part!r}"
            )
        found[name] = price
    if "input" not in found or "output" not in found:
        raise WorkloadError("prices need input and output")
    return Prices(found["input"], found.get("cached", found["input"]), found["output"])
