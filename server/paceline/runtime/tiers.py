"""Which deployment serves a request: by its model, its tier, what its key may use, and its load.

A tier that can't be had is downgraded to the default one or refused, as the key or the server
says. A request is billed at what serves it in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from paceline.core.profile import SERVED_AS, Profile
from paceline.core.rates import Tier
from paceline.runtime.keys import NOBODY, Caller, WhenFull, WhenNotEntitled
from paceline.runtime.price_book import PriceBook, Sale
from paceline.runtime.profile_files import ProfileRegistry

Room = Callable[[Profile, int], bool]
"""Whether so many sequences would find a slot in a profile's deployment at once."""


class UnknownModelError(Exception):
    """No profile has the name."""


class TierRefusedError(Exception):
    """A tier that can't be had, where that isn't to be passed over; `tier` is as in an answer."""

    def __init__(self, why: Literal["full", "not_entitled"], tier: str, profile: str) -> None:
        super().__init__(f"{tier}: {why}")
        self.why = why
        self.tier = tier
        self.profile = profile


@dataclass(frozen=True, slots=True)
class Service:
    """What serves a request, in the words of an answer, and what for."""

    profile: Profile
    sale: Sale
    asked: str = "auto"
    """The tier as the request has it; `auto` where it names none."""
    served: str = "default"


@dataclass(frozen=True, slots=True)
class _Choice:
    profile: Profile
    served: str
    priced: Tier | None
    """The tier whose price it has; None: what the profile sells."""


class Tiers:
    """The choice; it changes nothing."""

    def __init__(
        self,
        registry: ProfileRegistry,
        book: PriceBook,
        *,
        accept_any_model: str = "",
        when_full: WhenFull = "queue",
        when_not_entitled: WhenNotEntitled = "default",
        room: Room = lambda profile, sequences: True,
    ) -> None:
        """`accept_any_model` serves names that nobody knows; "" refuses them."""
        self.book = book
        self._registry = registry
        self._any = accept_any_model
        self._when_full = when_full
        self._when_not_entitled = when_not_entitled
        self._room = room

    def standard(self, model: str) -> Profile:
        """The profile of a model name. Raises UnknownModelError."""
        found = self._registry.get(model)
        if found is None and self._any:
            found = self._registry.get(self._any)
        if found is None:
            raise UnknownModelError(model)
        return found

    def patient(self, caller: Caller) -> bool:
        """Whether a caller's requests wait where there is no room, so that nobody need look."""
        return (caller.when_full or self._when_full) == "queue"

    def choose(
        self, model: str, asked: str | None = None, caller: Caller = NOBODY, sequences: int = 1
    ) -> Service:
        """What serves a request for `sequences` choices at a tier, `asked` as it asks for it.

        Raises UnknownModelError and TierRefusedError.
        """
        standard = self.standard(model)
        tier = asked
        if asked is None or asked == "auto":
            asked, tier = "auto", caller.default_tier
        choice = self._at(standard, tier)
        if choice.served != "default" and not caller.entitled(choice.served):
            lesser = self._default_of(standard, choice)
            policy = caller.when_not_entitled or self._when_not_entitled
            if policy == "refuse" or lesser is None:
                raise TierRefusedError("not_entitled", choice.served, choice.profile.name)
            choice = lesser
        if not self.patient(caller) and not self._room(choice.profile, sequences):
            if (caller.when_full or self._when_full) == "refuse":
                raise TierRefusedError("full", choice.served, choice.profile.name)
            # What has no lesser waits.
            choice = self._default_of(standard, choice) or choice
        sale = self.book.sale(choice.profile.name, standard.name, choice.priced)
        return Service(choice.profile, sale, asked, choice.served)

    def _at(self, standard: Profile, tier: str | None) -> _Choice:
        if tier is not None and tier in standard.tiers:
            # The registry has seen to it that the name leads somewhere.
            profile = self._registry.get(standard.tiers[tier]) or standard
            return _Choice(profile, SERVED_AS[tier], cast("Tier", tier))
        offer = self.book.offer(standard.name)
        served = "default" if offer is None else SERVED_AS.get(offer.tier, "default")
        return _Choice(standard, served, None)

    def _default_of(self, standard: Profile, choice: _Choice) -> _Choice | None:
        """What the default tier has in a choice's place; None where it is that already."""
        if choice.served == "default":
            return None
        if choice.priced is not None:
            return _Choice(standard, "default", None)
        # The request named the tier's own profile: what is it a tier of?
        for profile in self._registry.profiles():
            if standard.name in profile.tiers.values():
                return _Choice(profile, "default", None)
        return None
