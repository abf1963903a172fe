"""A server's ledger as its pages tell it, and what it should say by the rate cards."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import httpx2

from paceline.core.pricing import bill
from paceline.core.rates import Tier, Unit
from paceline.core.usage import Usage
from paceline.runtime.rate_files import load_rates, shipped_rates_folder

DAY = "2026-11-30"
"""The day whose prices the servers of these tests use."""

_BOOK = load_rates([shipped_rates_folder()])
_SOLD_AS: dict[str, Tier] = {
    "default": "default",
    "flex": "flex",
    "priority": "fast",
    "ultrafast": "ultrafast",
}


def entries(client: httpx2.Client, **filters: str) -> list[dict[str, Any]]:
    """All entries of the ledger, a page at a time."""
    found: list[dict[str, Any]] = []
    asked: dict[str, str] = {"limit": "1000", **filters}
    while True:
        answer = client.get("/paceline/ledger", params=asked)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["data"]
        if not page["has_more"]:
            return found
        asked["cursor"] = page["next_cursor"]


def usage_of(entry: dict[str, Any]) -> Usage:
    """An entry's counts."""
    return Usage(
        entry["prompt_tokens"],
        entry["completion_tokens"],
        entry["cached_tokens"],
        entry["cache_write_tokens"],
        entry["reasoning_tokens"],
    )


def owed(entry: dict[str, Any], usage: Usage, unit: Unit) -> Decimal:
    """What counts cost by the card of an entry's model, worked out in decimals."""
    made = bill(_BOOK.cards[entry["billed_as"]], usage, _SOLD_AS[entry["tier_served"]], DAY)
    total = made.charges[unit].total
    assert total is not None, (entry["model"], unit)
    return total


def total(found: Iterable[dict[str, Any]], unit: Unit) -> Decimal:
    """The exact sum of entries; what nobody has published a rate for counts as nothing."""
    return sum((Decimal(entry[unit] or 0) for entry in found), Decimal(0))
