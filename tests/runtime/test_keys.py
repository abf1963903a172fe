"""Keys files and who is let in."""

from __future__ import annotations

import time
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.ledger import PICO, Terms, Window
from paceline.runtime.caller import Caller, key_id
from paceline.runtime.key_files import AMOUNTS, LIMITS, Entry, KeyFileError, keys_of, load_keys
from paceline.runtime.keys import Keys
from paceline.runtime.limits import OwnSizes

KEY = "sk-paceline-one"
DIGEST = sha256(KEY.encode()).hexdigest()


def one(lines: str, *, name: str = "a") -> str:
    return f'[[keys]]\nname = "{name}"\nsha256 = "{DIGEST}"\n{lines}\n'


def caller(lines: str) -> Caller:
    (entry,) = keys_of(one(lines))
    return entry.caller


def test_a_key_may_do_what_its_table_says() -> None:
    found = caller("""
        budget_usd = 10
        budget_credits = 0.000000000001
        budget_period = "day"
        prepaid_usd = 2.50
        prepaid_credits = 0
        window_5h_credits = 100
        window_week_credits = 1e3
        tiers = ["fast", "ultrafast"]
        default_tier = "fast"
        rpm = 60
        tpm = 0
        plan_type = "plus"
        admin = true
        when_full = "refuse"
        when_not_entitled = "default"
        expires = 2027-01-31T01:00:00+01:00
        [keys.limits.ultrafast]
        rpm = 6
        max_streams = 1
        [keys.limits.fast]
        rpd = 100
    """)
    assert found == Caller(
        key_id=DIGEST[:12],
        name="a",
        terms=Terms(
            budget_usd=10 * PICO,
            budget_credits=1,
            budget_period="day",
            prepaid_usd=25 * PICO // 10,
            prepaid_credits=0,
            primary=Window(300, 100 * PICO),
            secondary=Window(10_080, 1000 * PICO),
        ),
        tiers=frozenset({"priority", "ultrafast"}),
        default_tier="fast",
        limits=OwnSizes(rpm=60, tpm=0),
        tier_limits={
            "ultrafast": OwnSizes(rpm=6, tpm=0, max_streams=1),
            "priority": OwnSizes(rpm=60, tpm=0, rpd=100),
        },
        plan_type="plus",
        admin=True,
        when_full="refuse",
        when_not_entitled="default",
    )
    assert found.entitled("priority")
    assert found.entitled("default")
    assert not found.entitled("flex")
    assert found.sizes("default") == OwnSizes(rpm=60, tpm=0)
    assert found.sizes("ultrafast").rpm == 6


def test_a_key_that_says_nothing_may_do_everything_but_change_the_server() -> None:
    found = caller("")
    assert not found.terms
    assert found == Caller(key_id=DIGEST[:12], name="a")
    assert all(found.entitled(tier) for tier in ("default", "flex", "priority", "ultrafast"))
    assert not caller("tiers = []").entitled("flex")


REFUSED = [
    ("rpm = -1", "rpm: must be a whole number from 0"),
    ("rpm = 1.5", "rpm: must be a whole number"),
    ("rpm = true", "rpm: must be a whole number"),
    ("max_streams = 1000001", "max_streams: must be a whole number from 0 to 1000000"),
    ("rpn = 3", "rpn: unknown key; did you mean rpm?"),
    ("budget_usd = -1", "budget_usd: must be from 0 to 1000000"),
    ("budget_usd = 1e7", "budget_usd: must be from 0 to 1000000"),
    ("budget_usd = 0.0000000000001", "budget_usd: must have at most 12 digits"),
    ("budget_usd = nan", "budget_usd: must be a number, not NaN"),
    ("budget_usd = inf", "budget_usd: must be a number, not Infinity"),
    ('budget_usd = "10"', "budget_usd: must be a number"),
    ("budget_usd = false", "budget_usd: must be a number"),
    ('budget_period = "day"', "budget_period: is of no use without a budget"),
    ('budget_usd = 1\nbudget_period = "week"', "budget_period: must be one of total, day, month"),
    ('tiers = ["hyper"]', "tiers: must be a list of some of default, fast"),
    ("tiers = [1]", "tiers: must be a list"),
    ("tiers = [[]]", "tiers: must be a list"),
    ('tiers = "fast"', "tiers: must be a list"),
    ('default_tier = "auto"', "default_tier: must be one of default, fast"),
    ("default_tier = []", "default_tier: must be one of"),
    ('tiers = ["flex"]\ndefault_tier = "fast"', "default_tier: must be one of its tiers"),
    ("admin = 1", "admin: must be true or false"),
    ('plan_type = "Plus!"', "plan_type: must be a word"),
    ('when_full = "wait"', "when_full: must be one of queue, default, refuse"),
    ('when_not_entitled = "queue"', "when_not_entitled: must be one of default, refuse"),
    ("expires = 2027-01-31", "expires: must be a moment with its zone"),
    ("expires = 2027-01-31T00:00:00", "expires: must be a moment with its zone"),
    ("expires = 1", "expires: must be a moment"),
    ("limits = 3", "limits: must be tables"),
    ("[keys.limits]\nhyper = {}", "limits.hyper: unknown tier"),
    ("[keys.limits]\nfast = 3", "limits.fast: must be a table"),
    ("[keys.limits.fast]\nrpx = 3", "limits.fast.rpx: unknown key"),
    ("[keys.limits.fast]\nrpm = -3", "limits.fast.rpm: must be a whole number"),
    ("[keys.limits.fast]\n[keys.limits.priority]", "limits.priority: is another name of priority"),
]


@pytest.mark.parametrize(("lines", "reason"), REFUSED)
def test_what_can_t_be_is_refused_with_file_key_and_reason(
    tmp_path: Path, lines: str, reason: str
) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(one(lines))
    with pytest.raises(KeyFileError) as caught:
        load_keys(path)
    assert str(caught.value).startswith(f"{path}: keys[0].{reason}")
    assert DIGEST not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("keys = 3", "keys: must be tables: [[keys]]"),
        ("keys = [3]", "keys[0]: must be a table"),
        ("key = []", "key: unknown key; did you mean keys?"),
        ("[[keys]]", "keys[0].sha256: missing"),
        ('[[keys]]\nsha256 = "abc"', "keys[0].sha256: must be the 64 hex digits"),
        (f'[[keys]]\nsha256 = "{DIGEST.upper()}"', "keys[0].sha256: must be the 64 hex digits"),
        (f'[[keys]]\nsha256 = "{DIGEST}"', "keys[0].name: missing"),
        (one("", name="a b"), "keys[0].name: must be a word"),
        (one("", name="a") + one("", name="b"), "keys[1].sha256: is that of keys[0] too"),
        ("[[keys", "can't be read: "),
        ("a = " + "9" * 5000, "can't be read: "),
        ("a = " + "[" * 5000, "can't be read: "),
        ("a = 1e99999999999999999999", "can't be read: "),
    ],
)
def test_a_file_that_can_t_be_used(text: str, reason: str) -> None:
    with pytest.raises(KeyFileError) as caught:
        keys_of(text)
    assert str(caught.value).startswith(reason)


def test_two_keys_can_t_have_one_name() -> None:
    other = one("").replace(DIGEST, "0" * 64)
    with pytest.raises(KeyFileError, match=r"keys\[1\].name: is that of keys\[0\] too"):
        keys_of(one("") + other)


VALUES: st.SearchStrategy[str] = st.one_of(
    st.integers().map(str),
    st.decimals(allow_nan=True, allow_infinity=True).map(lambda d: f"{d:f}".lower()),
    st.floats().map(repr),
    st.sampled_from(["true", "[]", "{}", "[[]]", "{a = 1}", "1979-05-27", "07:32:00"]),
    st.datetimes().map(lambda d: d.isoformat() + "Z"),
    st.datetimes().map(lambda d: d.isoformat() + "+23:59"),
    st.text(st.characters(codec="utf-8", exclude_characters="'\n\r")).map(lambda t: f"'{t}'"),
)
NAMES = st.sampled_from(
    [
        "name",
        "sha256",
        *AMOUNTS,
        *LIMITS,
        "budget_period",
        "tiers",
        "default_tier",
        "limits",
        "plan_type",
        "admin",
        "when_full",
        "expires",
        "other",
    ]
)


def read_or_refused(text: str) -> tuple[Entry, ...] | str:
    try:
        return keys_of(text)
    except KeyFileError as error:
        return error.reason


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_whatever_a_file_says_it_is_read_or_refused(said: dict[str, str]) -> None:
    table = {"name": '"a"', "sha256": f'"{DIGEST}"', **said}
    text = "[[keys]]\n" + "\n".join(f"{name} = {value}" for name, value in table.items())
    found = read_or_refused(text)
    if isinstance(found, str):
        assert found
        return
    (entry,) = found
    assert len(entry.digest) == 32
    terms = entry.caller.terms
    amounts = (terms.budget_usd, terms.budget_credits, terms.prepaid_usd, terms.prepaid_credits)
    assert all(amount is None or 0 <= amount <= 10**6 * PICO for amount in amounts)


@given(st.one_of(st.text(), st.binary().map(lambda b: b.decode("latin-1"))))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = read_or_refused(text)
    assert found == () or (isinstance(found, str) and found)


@given(st.decimals(0, 10**6, places=12))
def test_amounts_are_exact(amount: Decimal) -> None:
    assert caller(f"budget_usd = {amount:f}").terms.budget_usd == int(amount * PICO)


# -- who is let in ------------------------------------------------------------------------------


def test_without_a_list_everybody_is_let_in_and_told_apart() -> None:
    keys = Keys()
    assert not keys.required
    found = keys.find(b"anything")
    assert found == Caller(key_id=key_id(b"anything"), admin=True)
    assert keys.find(b"anything") is found
    assert keys.find(b"other") != found


def test_with_a_list_nobody_else_is(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(one("rpm = 3"))
    keys = Keys(path, ["sk-own"])
    assert keys.required
    assert len(keys) == 2
    found = keys.find(KEY.encode())
    assert found is not None
    assert (found.name, found.admin) == ("a", False)
    own = keys.find(b"sk-own")
    assert own is not None
    assert (own.name, own.admin, own.key_id) == ("", True, key_id(b"sk-own"))
    for wrong in (b"", b"sk-paceline-on", b"sk-paceline-one ", KEY.upper().encode(), b"\xff\x00"):
        assert keys.find(wrong) is None
    assert {c.name for c in keys.callers()} == {"a", ""}


def test_a_digest_is_compared_whole() -> None:
    half = DIGEST[:12] + "0" * 52
    keys = Keys()
    keys.required = True
    keys.take(keys_of(one("").replace(DIGEST, half)))
    assert keys.find(KEY.encode()) is None


def test_a_key_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(one("expires = 2027-01-31T00:00:00Z"))
    keys = Keys(path)
    now_s = 1_801_353_600.0
    for at_s, let_in in ((now_s - 1, True), (now_s, False), (now_s - 1, True)):
        monkeypatch.setattr(time, "time", lambda at_s=at_s: at_s)
        assert (keys.find(KEY.encode()) is not None) is let_in


def test_reading_again_changes_nothing_until_it_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(one("rpm = 3"))
    keys = Keys(path, ["sk-own"])
    before = keys.find(KEY.encode())
    path.write_text(one("rpm = 4"))
    read = keys.read()
    assert keys.find(KEY.encode()) is before
    keys.take(read)
    after = keys.find(KEY.encode())
    assert after is not None
    assert after.limits.rpm == 4
    path.write_text("[[keys]]\n")
    with pytest.raises(KeyFileError):
        keys.read()
    path.write_text("")
    keys.take(keys.read())
    assert keys.find(KEY.encode()) is None
    assert keys.find(b"sk-own") is not None
    path.unlink()
    with pytest.raises(KeyFileError, match="No such file"):
        keys.read()


def test_a_caller_of_earlier_is_the_one_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(one("rpm = 3"))
    keys = Keys(path)
    before = keys.find(KEY.encode())
    assert before is not None
    assert keys.current(before) is before
    path.write_text(one("rpm = 4\nexpires = 2027-01-31T00:00:00Z"))
    keys.take(keys.read())
    after = keys.current(before)
    assert after is not None
    assert after.limits.rpm == 4
    monkeypatch.setattr(time, "time", lambda: 1_801_353_600.0)
    assert keys.current(before) is None, "it has expired"
    keys.take(())
    assert keys.current(before) is None
    assert Keys().current(before) is before, "an open server lets everybody in"


def test_the_memory_of_keys_is_bounded() -> None:
    keys = Keys()
    for i in range(10_000):
        keys.find(b"key%d" % i)
    long = b"x" * 100_000
    assert keys.find(long) == Caller(key_id=key_id(long), admin=True)
    kept: Any = keys._seen
    assert 0 < len(kept) <= 4096
    assert long not in kept
