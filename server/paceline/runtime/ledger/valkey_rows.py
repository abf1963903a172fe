"""Entries as a shared ledger keeps them: whole lines, and what each adds to its sums."""

from __future__ import annotations

from paceline.core.ledger import Entry, Hold
from paceline.runtime.ledger.questions import Line
from paceline.runtime.ledger.rows import split


def hold_line(hold: Hold) -> Line:
    """The entry that a hold becomes when its process dies."""
    return Line(
        seq=0,
        id=hold.id,
        request_id=hold.request_id,
        key_id=hold.key_id,
        model=hold.model,
        billed_as=hold.billed_as,
        profile=hold.profile,
        tier_asked=hold.tier_asked,
        tier_served=hold.tier_served,
        endpoint=hold.endpoint,
        stream=int(hold.stream),
        state="lost",
        finish_reason=None,
        created_us=hold.created_us,
        ended_us=hold.created_us,
        prompt_tokens=0,
        cached_tokens=0,
        cache_write_tokens=0,
        completion_tokens=0,
        reasoning_tokens=0,
        usd_milli=0,
        usd_pico=0,
        credits_milli=0,
        credits_pico=0,
        ttft_ns=None,
        queue_ns=None,
        prefill_ns=None,
        decode_ns=None,
        total_ns=None,
    )


def sums_of(line: Line) -> list[int]:
    """What an entry adds to its sums, in the order of the schema's."""
    return [
        1,
        line.prompt_tokens,
        line.cached_tokens,
        line.cache_write_tokens,
        line.completion_tokens,
        line.reasoning_tokens,
        line.usd_milli or 0,
        line.usd_pico or 0,
        int(line.usd_milli is None),
        line.credits_milli or 0,
        line.credits_pico or 0,
        int(line.credits_milli is None),
    ]


def entry_line(entry: Entry) -> Line:
    """An entry; its number in the list is the store's to give."""
    usage, times = entry.usage, entry.times
    usd_milli, usd_pico = split(entry.cost.usd)
    credits_milli, credits_pico = split(entry.cost.credits)
    return hold_line(entry.hold)._replace(
        state=entry.state,
        ended_us=entry.ended_us,
        finish_reason=entry.finish_reason,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        completion_tokens=usage.completion_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        usd_milli=usd_milli,
        usd_pico=usd_pico,
        credits_milli=credits_milli,
        credits_pico=credits_pico,
        ttft_ns=times.ttft_ns,
        queue_ns=times.queue_ns,
        prefill_ns=times.prefill_ns,
        decode_ns=times.decode_ns,
        total_ns=times.total_ns,
    )
