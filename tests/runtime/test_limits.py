"""The buckets, held against a count of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.runtime.limits import MINUTE_NS, Account, Admission, Bucket, Limits

REQUESTS = st.lists(
    st.tuples(st.integers(0, 40_000_000_000), st.integers(1, 120)), min_size=1, max_size=80
)
"""Nanoseconds since the one before, and tokens."""


@given(st.integers(1, 200), REQUESTS)
def test_no_minute_sees_more_than_the_burst_and_the_limit(
    limit: int, requests: list[tuple[int, int]]
) -> None:
    bucket = Bucket(limit, 0)
    now_ns = 0
    let_in: list[tuple[int, int]] = []
    for gap_ns, units in requests:
        now_ns += gap_ns
        if units <= limit and not bucket.wait_ns(units, now_ns):
            bucket.take(units, now_ns)
            let_in.append((now_ns, units))
    for i, (begin_ns, _) in enumerate(let_in):
        seen = 0
        for at_ns, units in let_in[i:]:
            seen += units
            # A full bucket, and what has flowed in since; exactly, in whole numbers.
            assert seen * MINUTE_NS <= limit * MINUTE_NS + (at_ns - begin_ns) * limit


@given(st.integers(1, 10**9), REQUESTS)
def test_a_told_wait_is_exact(limit: int, requests: list[tuple[int, int]]) -> None:
    bucket = Bucket(limit, 0)
    now_ns = 0
    for gap_ns, units in requests:
        now_ns += gap_ns % 1_000_000_000
        if units > limit:
            continue
        wait_ns = bucket.wait_ns(units, now_ns)
        if wait_ns:
            assert bucket.wait_ns(units, now_ns + wait_ns - 1) == 1
            now_ns += wait_ns
        assert bucket.wait_ns(units, now_ns) == 0
        before = bucket.remaining(now_ns)
        bucket.take(units, now_ns)
        assert bucket.remaining(now_ns) == before - units


def test_a_bucket_is_refilled_continuously() -> None:
    bucket = Bucket(60, 0)
    bucket.take(60, 0)
    second = MINUTE_NS // 60
    assert [bucket.remaining(n * second // 2) for n in range(5)] == [0, 0, 1, 1, 2]
    assert bucket.full_in_ns(2 * second) == 58 * second
    assert bucket.remaining(1000 * second) == 60
    assert bucket.remaining(0) == 60, "time doesn't run backwards"


def test_what_was_refused_pays_nothing() -> None:
    account = Account(2, 100, 0, 0)
    account.take(90, 0)
    refused = account.refusal(20, 0)
    assert refused is not None
    assert (refused.limit_name, refused.limit, refused.used, refused.requested) == (
        "tokens",
        100,
        90,
        20,
    )
    assert refused.wait_ns == MINUTE_NS // 10
    assert account.refusal(10, 0) is None
    account.take(10, 0)
    # Now both stand against it, and the longer wait is told.
    refused = account.refusal(10, 0)
    assert refused is not None
    assert (refused.limit_name, refused.wait_ns) == ("requests", MINUTE_NS // 2)
    refused = account.refusal(100, 0)
    assert refused is not None
    assert (refused.limit_name, refused.wait_ns) == ("tokens", MINUTE_NS)


def test_a_request_above_the_limit_never_gets_in() -> None:
    refused = Account(0, 100, 0, 0).refusal(101, 0)
    assert refused is not None
    assert (refused.requested, refused.wait_ns) == (101, None)


def test_streams_at_once() -> None:
    account = Account(0, 0, 2, 0)
    admissions = []
    for _ in range(2):
        assert account.refusal(1, 0) is None
        account.take(1, 0)
        admissions.append(Admission(account))
    refused = account.refusal(1, 0)
    assert refused is not None
    assert (refused.limit_name, refused.used, refused.wait_ns) == ("streams", 2, None)
    admissions[0].end()
    admissions[0].end()
    assert account.streams == 1
    assert account.refusal(1, 0) is None


def test_accounts_of_their_own_and_those_that_are_idle_forgotten() -> None:
    assert not Limits()
    limits = Limits(rpm=10)
    assert limits
    first = limits.account("a", "m", 0)
    assert limits.account("a", "m", 5) is first
    assert limits.account("a", "other", 0) is not first
    assert limits.account("b", "m", 0) is not first
    first.take(0, 0)
    for i in range(5000):
        limits.account(f"key{i}", "m", 0)
    assert len(limits) < 3000
    assert limits.account("a", "m", 0) is first, "it isn't full, so it is kept"
    Admission(first).end()
    for i in range(5000):
        limits.account(f"later{i}", "m", MINUTE_NS)
    assert limits.account("a", "m", MINUTE_NS) is not first


@pytest.mark.parametrize("sizes", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_any_one_limit_is_a_limit(sizes: tuple[int, int, int]) -> None:
    limits = Limits(*sizes)
    account = limits.account("", "m", 0)
    assert account.refusal(1, 0) is None
    account.take(1, 0)
    assert account.refusal(1, 0) is not None
