"""Answers against a plain walk over all entries, in Python."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.core.ledger import ENTRY_STATES, Amount, Entry, Terms
from paceline.core.usage import Usage
from paceline.runtime.ledger import queries, questions
from paceline.runtime.ledger.interface import Books, Ledger
from paceline.runtime.ledger.questions import DIMENSIONS, Cursor, Dimension, Filter, Sums
from paceline.runtime.ledger.sqlite import SqliteLedger
from tests.ledger import made

NOW_S = made.NOON_US // 10**6
KEYS, MODELS, CARDS = ["", "a", "b"], ["m1", "m2", "both"], ["m1", "", "card"]
TIERS, ENDPOINTS = ["default", "flex"], ["/v1/responses", "/v1/embeddings"]
MOMENTS = st.one_of(
    st.integers(made.NOON_US, made.NOON_US + 3 * 86_400_000_000),
    # On and beside the edges of minutes, hours and days.
    st.builds(
        lambda unit, off: (made.NOON_US // unit + 1) * unit + off,
        st.sampled_from([60_000_000, 3_600_000_000, 86_400_000_000]),
        st.integers(-1, 1),
    ),
)
ENTRIES = st.builds(
    lambda held, state, usd, credit, n: Entry(
        held, state, held.created_us + 5, Usage(3 * n, n, n, n, n // 2), _amount(usd, credit)
    ),
    st.builds(
        lambda key, model, card, tier, endpoint, request, at: made.hold(
            key_id=key,
            model=model,
            billed_as=card,
            tier_served=tier,
            endpoint=endpoint,
            request_id=request,
            at=at,
        ),
        st.sampled_from(KEYS),
        st.sampled_from(MODELS),
        st.sampled_from(CARDS),
        st.sampled_from(TIERS),
        st.sampled_from(ENDPOINTS),
        st.sampled_from(["r1", "r2"]),
        MOMENTS,
    ),
    st.sampled_from(ENTRY_STATES),
    st.one_of(st.none(), st.integers(0, 10**13)),
    st.one_of(st.none(), st.integers(0, 10**13)),
    st.integers(0, 1000),
)


def _amount(usd: int | None, credit: int | None) -> Amount:
    return Amount(usd, credit)


def some(values: Sequence[str]) -> st.SearchStrategy[tuple[str, ...] | None]:
    chosen = st.lists(st.sampled_from([*values, "nobody"]), max_size=3).map(tuple)
    return st.one_of(st.none(), st.none(), chosen)


FILTERS = st.builds(
    Filter,
    key_ids=some(KEYS),
    models=some([*MODELS, "card"]),
    tiers=some(TIERS),
    states=some(ENTRY_STATES),
    endpoints=some(ENDPOINTS),
    but_endpoints=some(ENDPOINTS),
    request_id=st.one_of(st.none(), st.none(), st.sampled_from(["r1", "r3"])),
    since_us=st.one_of(st.none(), MOMENTS),
    until_us=st.one_of(st.none(), st.just(0), MOMENTS),
)


def matches(which: Filter, entry: Entry) -> bool:
    held = entry.hold
    return (
        (which.key_ids is None or held.key_id in which.key_ids)
        and (which.models is None or {held.model, held.billed_as} & set(which.models) != set())
        and (which.tiers is None or held.tier_served in which.tiers)
        and (which.states is None or entry.state in which.states)
        and (which.endpoints is None or held.endpoint in which.endpoints)
        and (which.but_endpoints is None or held.endpoint not in which.but_endpoints)
        and (which.request_id is None or held.request_id == which.request_id)
        and (which.since_us is None or held.created_us >= which.since_us)
        and (which.until_us is None or held.created_us < which.until_us)
    )


def value(entry: Entry, name: Dimension) -> str:
    return str(entry.state if name == "state" else getattr(entry.hold, name))


def summed(entries: Sequence[Entry]) -> Sums:
    return Sums(
        len(entries),
        sum(each.usage.prompt_tokens for each in entries),
        sum(each.usage.cached_tokens for each in entries),
        sum(each.usage.cache_write_tokens for each in entries),
        sum(each.usage.completion_tokens for each in entries),
        sum(each.usage.reasoning_tokens for each in entries),
        sum(each.cost.usd or 0 for each in entries),
        sum(each.cost.usd is None for each in entries),
        sum(each.cost.credits or 0 for each in entries),
        sum(each.cost.credits is None for each in entries),
    )


@dataclass
class Asked:
    which: Filter
    group: list[Dimension]
    width: int
    since: int
    until: int
    limit: int


ASKED = st.builds(
    Asked,
    FILTERS,
    st.lists(st.sampled_from(DIMENSIONS), unique=True, max_size=3),
    st.sampled_from([60, 3600, 86_400]),
    st.integers(NOW_S - 10**5, NOW_S + 3 * 10**5),
    st.integers(NOW_S - 10**5, NOW_S + 3 * 10**5),
    st.integers(1, 5),
)


@pytest.mark.parametrize("merged", [0, 32], ids=["walked", "merged"])
@settings(max_examples=60)
@given(entries=st.lists(ENTRIES, max_size=25), questions=st.lists(ASKED, min_size=3, max_size=6))
def test_answers_are_those_of_a_walk(
    merged: int, entries: list[Entry], questions: list[Asked]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "_MOST_MERGED", merged)
        asyncio.run(_answers_are_right(entries, questions))


async def _answers_are_right(entries: list[Entry], questions: list[Asked]) -> None:
    ledger = SqliteLedger()
    await answers_are_right(ledger, ledger, entries, questions)
    await ledger.close()


async def answers_are_right(
    ledger: Ledger, books: Books, entries: list[Entry], questions: list[Asked]
) -> None:
    """Both are the same ledger, empty."""
    for entry in entries:
        await ledger.hold(entry.hold, Terms())
        ledger.settle(entry)
    for asked in questions:
        which = asked.which
        found = [entry for entry in entries if matches(which, entry)]

        lines, after = [], None
        while page := await books.entries(which, asked.limit, after):
            assert len(page) <= asked.limit
            lines += page
            after = Cursor(page[-1].created_us, page[-1].seq)
        # Of one moment, the one settled last comes first.
        order = {entry.hold.id: i for i, entry in enumerate(entries)}
        newest = sorted(found, key=lambda entry: (-entry.hold.created_us, -order[entry.hold.id]))
        assert [line.id for line in lines] == [entry.hold.id for entry in newest]
        assert [line.usd for line in lines] == [entry.cost.usd for entry in newest]

        groups: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
        for entry in found:
            groups[tuple(value(entry, name) for name in asked.group)].append(entry)
        totals = await books.totals(which, asked.group)
        assert [(group.values, group.sums) for group in totals] == [
            (values, summed(groups[values])) for values in sorted(groups)
        ]

        spans: dict[tuple[int, tuple[str, ...]], list[Entry]] = defaultdict(list)
        timeless = Filter(which.key_ids, which.models, which.tiers, which.states, which.endpoints)
        for entry in entries:
            start = entry.hold.created_us // 10**6 // asked.width * asked.width
            if matches(timeless, entry) and asked.since <= start < asked.until:
                spans[start, tuple(value(entry, name) for name in asked.group)].append(entry)
        buckets = await books.buckets(
            asked.width, asked.since, asked.until, which=timeless, group=asked.group
        )
        assert [(group.start_s, group.values, group.sums) for group in buckets] == [
            (*key, summed(spans[key])) for key in sorted(spans)
        ]


@given(st.integers(0, 10**16), st.integers(0, 10**16))
def test_a_span_is_covered_once_in_order(since: int, until: int) -> None:
    at = since
    for width, first, last in questions.cover(since, until):
        unit = 10**6 if width else 1
        assert first * unit == at
        assert last > first
        if width:
            assert first % width == last % width == 0
        at = last * unit
    assert at == max(since, until) if until > since else at == since
