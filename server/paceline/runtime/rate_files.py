"""Rate cards on disk. Shipped ones lie in the package (`_rates`) or a checkout's `rates/`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from paceline.core.rates import Offer, RateCard, RateError, parse_rate_card


class RateFileError(ValueError):
    """A rate card's file that can't be used: which file, which key, and why."""

    def __init__(self, path: Path, key: str, reason: str) -> None:
        super().__init__(f"{path}: {key}: {reason}" if key else f"{path}: {reason}")
        self.path = path
        self.key = key
        self.reason = reason


def load_rate_file(path: Path) -> RateCard:
    """Read one rate card. Raises RateFileError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError as error:
        raise RateFileError(path, "", error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise RateFileError(path, "", "is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise RateFileError(path, "", f"is not TOML: {error}") from error
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
        files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        if not files:
            raise RateFileError(path, "", "the folder holds no .toml file")
        for file in files:
            card = load_rate_file(file)
            cards[card.model] = card
    return RateBook(cards.values())


def shipped_rates_folder() -> Path:
    """Where the rate cards that come with this program lie."""
    packaged = Path(__file__).parent.parent / "_rates"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "rates"


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
