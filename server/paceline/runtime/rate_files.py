"""Rate cards on disk. Shipped ones lie in the package (`_rates`) or a checkout's `rates/`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from paceline.core.rates import Offer, RateCard, RateError, parse_rate_card
from paceline.runtime.toml_files import FileError, files_of, read_toml, shipped


class RateFileError(FileError):
    """A rate card's file that can't be used: which file, which key, and why."""


def load_rate_file(path: Path) -> RateCard:
    """Read one rate card. Raises RateFileError."""
    data = read_toml(path, RateFileError, parse_float=Decimal)
    try:
        return parse_rate_card(_with_days(data))
    except RateError as error:
        raise RateFileError(path, error.key, error.reason) from error


def load_rates(paths: Iterable[Path]) -> RateBook:
    """Read files, and every `*.toml` of folders; a later card replaces one of the same model.

    Raises RateFileError.
    """
    cards: dict[str, RateCard] = {}
    for path in paths:
        for file in files_of(path, RateFileError):
            card = load_rate_file(file)
            cards[card.model] = card
    return RateBook(cards.values())


def shipped_rates_folder() -> Path:
    """Where the rate cards that come with this program lie."""
    return shipped("rates")


class RateBook:
    """Rate cards by model, and by the profiles that sell them."""

    def __init__(self, cards: Iterable[RateCard]) -> None:
        self.cards = {card.model: card for card in cards}
        self._offers = {
            profile: (card, offer)
            for card in self.cards.values()
            for profile, offer in card.offers.items()
        }

    def of_profile(self, name: str) -> tuple[RateCard, Offer] | None:
        """The card under which a profile's tokens are sold, and as what; None without one."""
        return self._offers.get(name)


def _with_days(data: dict[str, Any]) -> dict[str, Any]:
    """The document with each card's `from` as text; what is no plain date is left to fail."""
    cards = data.get("cards")
    for card in cards if isinstance(cards, list) else []:
        if not isinstance(card, dict) or not isinstance(card.get("from"), date):
            continue
        if not isinstance(card["from"], datetime):
            card["from"] = card["from"].isoformat()
    return data
