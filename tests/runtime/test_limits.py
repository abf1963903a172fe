"""The buckets, held against a count of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.runtime.caller import Caller
from paceline.runtime.limits import (
    DAY_NS,
    MINUTE_NS,
    Account,
    Admission,
    Bucket,
    Limits,
    OwnSizes,
    Sizes,
)

SECOND_NS = 1_000_000_000
REQUESTS = st.lists(
    st.tuples(st.integers(0, 40 * SECOND_NS), st.integers(1, 120)), min_size=1, max_size=80
)
"""Nanoseconds since the one before, and tokens."""
PERIODS = st.sampled_from([MINUTE_NS, DAY_NS])


@given(st.integers(1, 200), REQUESTS, PERIODS)
def test_no_period_sees_more_than_the_burst_and_the_limit(
    limit: int, requests: list[tuple[int, int]], period_ns: int
) -> None:
    bucket = Bucket(limit, 0, period_ns)
    now_ns = 0
    let_in: list[tuple[int, int]] = []
    for gap_ns, units in requests:
        now_ns += gap_ns * (period_ns // MINUTE_NS)
        if units <= limit and not bucket.wait_ns(units, now_ns):
            bucket.take(units, now_ns)
            let_in.append((now_ns, units))
    for i, (begin_ns, _) in enumerate(let_in):
        seen = 0
        for at_ns, units in let_in[i:]:
            seen += units
            # A full bucket, and what has flowed in since; exactly, in whole numbers.
            assert seen * period_ns <= limit * period_ns + (at_ns - begin_ns) * limit


@given(st.integers(1, 10**9), REQUESTS, PERIODS)
def test_a_told_wait_is_exact(limit: int, requests: list[tuple[int, int]], period_ns: int) -> None:
    bucket = Bucket(limit, 0, period_ns)
    now_ns = 0
    for gap_ns, units in requests:
        now_ns += gap_ns % SECOND_NS
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


@given(
    st.integers(0, 40),
    st.integers(0, 400),
    st.integers(0, 400),
    st.lists(
        st.tuples(st.integers(0, 90 * SECOND_NS), st.integers(0, 300), st.integers(0, 300)),
        min_size=1,
        max_size=60,
    ),
)
def test_an_account_lets_through_what_all_its_limits_do_and_tells_the_real_wait(
    rpm: int, rpd: int, tpm: int, asked: list[tuple[int, int, int]]
) -> None:
    account = Account(Sizes(rpm, tpm, rpd), 0)
    now_ns = 0
    passed: list[tuple[int, int]] = []
    for gap_ns, used, more in asked:
        now_ns += gap_ns
        refusal = account.refusal(used + more, now_ns)
        if refusal is not None and refusal.wait_ns is None:
            assert refusal.requested == used + more > refusal.limit == tpm
            continue
        if refusal is not None:
            # A nanosecond before it is over something still stands against it, and then nothing.
            assert refusal.wait_ns is not None
            early = account.refusal(used + more, now_ns + refusal.wait_ns - 1)
            assert early is not None
            assert early.wait_ns == 1
            now_ns += refusal.wait_ns
            assert account.refusal(used + more, now_ns) is None
        account.take(used, now_ns)
        passed.append((now_ns, used))
    for i, (begin_ns, _) in enumerate(passed):
        for j in range(i, len(passed)):
            span_ns = passed[j][0] - begin_ns
            count = j - i + 1
            tokens = sum(used for _, used in passed[i : j + 1])
            if rpm:
                assert count * MINUTE_NS <= rpm * (MINUTE_NS + span_ns)
            if rpd:
                assert count * DAY_NS <= rpd * (DAY_NS + span_ns)
            if tpm:
                assert tokens * MINUTE_NS <= tpm * (MINUTE_NS + span_ns)


def test_a_bucket_is_refilled_continuously() -> None:
    bucket = Bucket(60, 0)
    bucket.take(60, 0)
    second = MINUTE_NS // 60
    assert [bucket.remaining(n * second // 2) for n in range(5)] == [0, 0, 1, 1, 2]
    assert bucket.full_in_ns(2 * second) == 58 * second
    assert bucket.remaining(1000 * second) == 60
    assert bucket.remaining(0) == 60, "time doesn't run backwards"


def test_a_day_s_requests_are_one_a_day_s_part() -> None:
    account = Account(Sizes(rpd=24), 0)
    for _ in range(24):
        assert account.refusal(1, 0) is None
        account.take(1, 0)
    refused = account.refusal(1, 0)
    assert refused is not None
    assert (refused.limit_name, refused.limit, refused.used) == ("requests_per_day", 24, 24)
    assert refused.wait_ns == DAY_NS // 24
    assert account.refusal(1, DAY_NS // 24) is None


def test_what_was_refused_pays_nothing() -> None:
    account = Account(Sizes(rpm=2, tpm=100), 0)
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
    refused = Account(Sizes(tpm=100), 0).refusal(101, 0)
    assert refused is not None
    assert (refused.requested, refused.wait_ns) == (101, None)


def test_streams_at_once() -> None:
    account = Account(Sizes(max_streams=2), 0)
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


@pytest.mark.parametrize(
    ("sizes", "taken", "shown"),
    [
        (Sizes(), 0, None),
        (Sizes(rpm=5), 0, 5),
        (Sizes(rpd=7), 0, 7),
        (Sizes(rpm=5, rpd=100), 0, 5),
        (Sizes(rpm=5, rpd=5), 0, 5),
        (Sizes(rpm=50, rpd=9), 2, 9),
    ],
)
def test_of_two_limits_of_requests_the_one_with_fewer_left_is_shown(
    sizes: Sizes, taken: int, shown: int | None
) -> None:
    account = Account(sizes, 0)
    for _ in range(taken):
        account.take(0, 0)
    bucket = account.requests_left(0)
    assert (bucket and bucket.limit) == shown


def test_of_two_alike_the_one_that_fills_later_is_shown() -> None:
    account = Account(Sizes(rpm=5, rpd=5), 0)
    account.take(0, 0)
    bucket = account.requests_left(0)
    assert bucket is not None
    assert bucket.period_ns == DAY_NS


def account(limits: Limits, caller: Caller, *, model: str = "m", tier: str = "default") -> Account:
    found = limits.account(caller, model, tier, 0)
    assert found is not None
    return found


def test_accounts_of_their_own() -> None:
    limits = Limits(rpm=10)
    one, other = Caller("a"), Caller("b")
    first = account(limits, one)
    assert account(limits, one) is first
    assert account(limits, one, model="other") is not first
    assert account(limits, one, tier="ultrafast") is not first
    assert account(limits, other) is not first
    assert {a.sizes for a in (first, account(limits, other))} == {Sizes(rpm=10)}


def test_a_key_s_own_sizes_and_those_of_a_tier() -> None:
    limits = Limits(rpm=10, tpm=500)
    own = Caller(
        "a", limits=OwnSizes(rpm=3, tpm=0), tier_limits={"ultrafast": OwnSizes(rpm=1, tpm=0, rpd=9)}
    )
    assert account(limits, own).sizes == Sizes(rpm=3)
    assert account(limits, own, tier="priority").sizes == Sizes(rpm=3)
    assert account(limits, own, tier="ultrafast").sizes == Sizes(rpm=1, rpd=9)
    free = Caller("b", limits=OwnSizes(0, 0, 0, 0))
    assert limits.account(free, "m", "default", 0) is None, "nothing limits it"
    assert Limits().account(Caller("c"), "m", "default", 0) is None
    assert account(Limits(), own).sizes == Sizes(rpm=3), "though the server limits nobody"


def test_new_sizes_make_a_new_account_that_knows_what_was_used() -> None:
    limits = Limits(rpm=10, max_streams=2)
    before = account(limits, Caller("a"))
    for _ in range(4):
        before.take(0, 0)
    admissions = [Admission(before) for _ in range(4)]
    larger = account(limits, Caller("a", limits=OwnSizes(rpm=20)))
    assert larger is not before
    assert larger.requests is not None
    assert (larger.requests.limit, larger.requests.remaining(0)) == (20, 16)
    smaller = account(limits, Caller("a", limits=OwnSizes(rpm=3)))
    assert smaller.requests is not None
    assert smaller.requests.remaining(0) == 0
    refused = smaller.refusal(0, MINUTE_NS)
    assert refused is not None
    assert (refused.limit_name, refused.used) == ("streams", 4), "what is under way still counts"
    for admission in admissions:
        admission.end()
    assert smaller.refusal(0, MINUTE_NS) is None


def test_those_that_are_idle_are_forgotten() -> None:
    limits = Limits(rpm=10)
    first = account(limits, Caller("a"))
    first.take(0, 0)
    for i in range(5000):
        account(limits, Caller(f"key{i}"))
    assert len(limits) < 3000
    assert account(limits, Caller("a")) is first, "it isn't full, so it is kept"
    Admission(first).end()
    for i in range(5000):
        limits.account(Caller(f"later{i}"), "m", "default", MINUTE_NS)
    assert limits.account(Caller("a"), "m", "default", MINUTE_NS) is not first


@pytest.mark.parametrize("sizes", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)])
def test_any_one_limit_is_a_limit(sizes: tuple[int, int, int, int]) -> None:
    found = account(Limits(*sizes), Caller())
    assert found.refusal(1, 0) is None
    found.take(1, 0)
    assert found.refusal(1, 0) is not None
