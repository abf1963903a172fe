"""Holds and entries as the flat rows that a batch carries, in the order of the schema's columns."""

from __future__ import annotations

from paceline.core.ledger import Entry, Hold
from paceline.core.purse import Stake

Row = list[str | int | None]

_MILLI = 10**9
"""Pico in a thousandth."""


def split(pico: int | None) -> tuple[int | None, int | None]:
    """An amount as thousandths and the pico that are left."""
    return (None, None) if pico is None else divmod(pico, _MILLI)


def joined(milli: int, pico: int) -> int:
    """An amount, or a sum of amounts, from its two parts."""
    return milli * _MILLI + pico


def hold_row(hold: Hold, stake: Stake) -> Row:
    """A request that runs."""
    primary, secondary = stake.primary, stake.secondary
    return [
        hold.id,
        hold.request_id,
        hold.key_id,
        hold.model,
        hold.billed_as,
        hold.profile,
        hold.tier_asked,
        hold.tier_served,
        hold.endpoint,
        int(hold.stream),
        hold.created_us,
        stake.day,
        int(stake.prepaid_usd),
        int(stake.prepaid_credits),
        None if primary is None else primary.minutes,
        None if primary is None else primary.began_us,
        None if secondary is None else secondary.minutes,
        None if secondary is None else secondary.began_us,
    ]


def entry_row(entry: Entry, stake: Stake) -> Row:
    """A request that has ended."""
    usage, times = entry.usage, entry.times
    return [
        *hold_row(entry.hold, stake),
        entry.state,
        entry.ended_us,
        usage.prompt_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.completion_tokens,
        usage.reasoning_tokens,
        *split(entry.cost.usd),
        *split(entry.cost.credits),
        entry.finish_reason,
        times.ttft_ns,
        times.queue_ns,
        times.prefill_ns,
        times.decode_ns,
        times.total_ns,
    ]


def lost_row(hold: Row, ended_us: int) -> Row:
    """What becomes of a hold whose process died: it cost nothing."""
    return [*hold, "lost", ended_us, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, None, None, None, None, None]
