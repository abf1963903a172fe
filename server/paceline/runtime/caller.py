"""Who sends a request, and what its key may do: the word that all the parts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, get_args

from paceline.core.ledger import NO_TERMS, Terms
from paceline.runtime.limits import NO_OWN_SIZES, OwnSizes

KEY_ID_DIGITS = 12

WhenFull = Literal["queue", "default", "refuse"]
"""What becomes of a request for a tier that has no room: it waits, is served by the default tier,
or is refused."""
WHEN_FULL: tuple[WhenFull, ...] = get_args(WhenFull)

WhenNotEntitled = Literal["default", "refuse"]
"""What becomes of a request for a tier that its key may not use: the default tier serves it, or it
is refused."""
WHEN_NOT_ENTITLED: tuple[WhenNotEntitled, ...] = get_args(WhenNotEntitled)


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sends a request, as far as its API key says. None is the server's setting.

    It is of one reading of the keys file: a request keeps the one that it came with.
    """

    key_id: str = ""
    """The first 12 hex digits of the key's SHA-256; "" without a key."""
    name: str = ""
    """From the keys file; "" for keys that aren't in it."""
    terms: Terms = NO_TERMS
    """What it may spend."""
    tiers: frozenset[str] | None = None
    """The tiers beside `default` that it is entitled to, as an answer calls them; None is all."""
    default_tier: str = "default"
    """What `auto` means for it, and a request that names no tier; as a request calls it."""
    limits: OwnSizes = NO_OWN_SIZES
    tier_limits: Mapping[str, OwnSizes] = field(default_factory=dict, hash=False)
    """Limits of tiers that differ, complete with those of the key; by the name in an answer."""
    plan_type: str | None = None
    """The subscription as Codex names it: `plus`, `pro`."""
    admin: bool = False
    """Whether it may see other callers' doings, and change the server."""
    when_full: WhenFull | None = None
    when_not_entitled: WhenNotEntitled | None = None

    def sizes(self, tier: str) -> OwnSizes:
        """Its own limits at a tier, as an answer calls it."""
        return self.tier_limits.get(tier, self.limits) if self.tier_limits else self.limits

    def entitled(self, tier: str) -> bool:
        """Whether it may have a tier, as an answer calls it."""
        return self.tiers is None or tier == "default" or tier in self.tiers


NOBODY = Caller(admin=True)
"""A caller without a key, on a server that asks for none."""


def key_id(key: bytes) -> str:
    """A key's short id."""
    return sha256(key).hexdigest()[:KEY_ID_DIGITS]
