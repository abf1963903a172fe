"""What predicted calls cost, exactly: the same bill that the server writes, of the same tokens.

Measured calls bring the server's own. What the amounts come to a task, and what a second saved
costs, is worked out from either kind alike (`paceline_loadtest.report.gains`).
"""

from __future__ import annotations

from collections.abc import Iterable

from paceline.core.prefix_cache import PrefixCache
from paceline.core.pricing import Bill, bill, plain
from paceline.core.profile import Profile
from paceline.core.rates import Day, Offer, RateCard
from paceline.core.usage import Usage
from paceline_loadtest.model import Call, LoopRun
from paceline_loadtest.statistics import calls_of


def price(
    runs: Iterable[LoopRun], profile: Profile, sold: tuple[RateCard, Offer] | None, day: Day
) -> None:
    """Note in each call that succeeded what it costs on a day, as `profile` is sold.

    Amounts stay unknown where the profile has no rate card, or the card no rate (`sold` is what
    `RateBook.of_profile` gives).
    """
    if sold is None:
        return
    card, offer = sold
    cache = PrefixCache(profile.prefix_cache)
    for call in calls_of(runs):
        if not call.ok:
            continue
        billed = bill(card, usage_of(call, cache), offer.tier, day)
        _note(call, billed, offer)


def usage_of(call: Call, cache: PrefixCache) -> Usage:
    """A predicted call's tokens as they are billed, by the rules of its profile's cache."""
    prompt, cached = call.prompt_tokens or 0, call.cached_tokens or 0
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=call.output_tokens or 0,
        cached_tokens=cached,
        cache_write_tokens=cache.write_tokens(prompt, cached),
        reasoning_tokens=call.reasoning_tokens or 0,
    )


def _note(call: Call, billed: Bill, offer: Offer) -> None:
    if billed.usd is not None and offer.sold_in != "credits":
        call.server.cost_usd = plain(billed.usd)
    if billed.credits is not None and offer.sold_in != "usd":
        call.server.credits = plain(billed.credits)
