from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paceline.runtime.schema import SchemaError
from paceline.runtime.schema.from_pattern import string_from
from paceline.runtime.schema.patterns import compile_pattern, translate

# Each kind of node that Python's parser makes of a pattern is in one of these.
PATTERNS = [
    "",
    "abc",
    "a.c",
    "^abc$",
    "[a-f]",
    "[^a-z]",
    "[^\\w\\s]",
    "[\\d.]+",
    "a|b|cd",
    "(ab)+c",
    "(?:ab){2,4}",
    "x*",
    "x+?",
    "x{3}",
    "\\d{4}-\\d\\d",
    "\\D\\S\\W",
    "\\w+@\\w+\\.com",
    "(a|b)\\1",
    "(?P<n>ab)-(?P=n)",
    "(a)?(?(1)b|c)",
    "(?=ab)a",
    "(?!ab)a.",
    "(?<=a)b",
    "(?i)ABC",
    "(?s:.)",
    "(?>ab+)c",
    "x++y",
    "\\bword\\b",
    "^\\s*$",
    "[\\u00e0-\\u00ff]",
    "^[A-Z][a-z]+(?: [A-Z][a-z]+)*$",
    "^(?=.*[A-Z])(?=.*[0-9]).{8,}$",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("key", range(5))
def test_what_is_made_matches(pattern: str, key: int) -> None:
    made = string_from(pattern, key)
    assert made is not None
    assert re.search(pattern, made)
    assert made == string_from(pattern, key)


@settings(max_examples=400)
@given(st.text("ab01^$.*+?()[]{}|\\-dws,", max_size=10), st.integers(0, 1000))
def test_any_pattern_at_all(pattern: str, key: int) -> None:
    try:
        made = string_from(pattern, key)
    except SchemaError:
        with pytest.raises((re.error, OverflowError)):
            re.compile(pattern)
        return
    assume(made is not None)
    assert compile_pattern(pattern).search(made or "")


@pytest.mark.parametrize("pattern", ["^a+$", "^[a-z ]*$", "x", "^x", "x$", "(ab)*"])
@pytest.mark.parametrize(("low", "high"), [(30, 40), (1, 400), (200, None)])
def test_lengths_are_kept(pattern: str, low: int, high: int | None) -> None:
    made = string_from(pattern, 3, low, high)
    assert made is not None
    assert len(made) >= low
    assert high is None or len(made) <= high
    assert re.search(pattern, made)


@pytest.mark.parametrize(
    ("ecma", "yes", "no"),
    [
        (r"^\p{L}+$", "aé", "1"),
        (r"^\P{L}+$", "12", "a"),
        (r"^\p{Lu}\p{Ll}+$", "Ab", "ab"),
        (r"^[\p{L}\d]+$", "a1", "-"),
        (r"^\p{Script=Latin}?x", None, None),
        (r"^(?<y>\d+)-\k<y>$", "12-12", "12-13"),
        (r"^\u{1F600}$", "\U0001f600", "x"),
        (r"^[^]$", "\n", ""),
        (r"^\/a\-b$", "/a-b", "a"),
        (r"^\cA$", "\x01", "A"),
    ],
)
def test_ecma_in_pythons_words(ecma: str, yes: str | None, no: str | None) -> None:
    if yes is None or no is None:
        with pytest.raises(SchemaError, match="unknown property"):
            compile_pattern(ecma)
        return
    pattern = compile_pattern(ecma)
    assert pattern.search(yes)
    assert not pattern.search(no)
    assert string_from(ecma, 1) is not None


def test_what_cannot_be_read_is_refused() -> None:
    for pattern in ("(", "[a", "a{2,1}", "*", "(?P<", "\\"):
        with pytest.raises(SchemaError, match="can't be read"):
            compile_pattern(pattern)
    with pytest.raises(SchemaError, match="more than"):
        compile_pattern("a" * 5_000)


def test_repeated_nothings_end() -> None:
    for pattern in ("(?:(?:(?:){9999}){9999}){9999}x", "(?:a{999}){999}", "a{100001}"):
        with pytest.raises(SchemaError, match="asks for more than 100000"):
            compile_pattern(pattern)
    assert string_from("(?:(?:){99}){99}x", 1) == "x"
    assert string_from("(?:a?){500}", 1, 3) is not None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(a|b|ab)*c$", "ab" * 3_000),
        (r"^(\w+\s?)*\.$", "word " * 4_000 + "!"),
        (r"(x*)*(x*)*(x*)*y", "x" * 20_000),
        (r"a*b", "a" * 300_000),
        (r"^(?:(.+)+)+\1$", "ab" * 30 + "c"),
    ],
)
def test_a_search_ends_in_time(pattern: str, text: str) -> None:
    begun = time.process_time()
    try:
        found = compile_pattern(pattern).search(text)
    except SchemaError:
        found = False
    assert not found
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^a+{e}$", "aa{e}", "aab"),
        ("^x*{i<=1}$", "x{i<=1}", "xy"),
        ("^(?:[{]+){2}$", "{{", "a"),
        ("^x*\\{d}$", "x{d}", "x"),
    ],
)
def test_braces_ask_for_no_likeness(pattern: str, yes: str, no: str) -> None:
    assert bool(re.search(pattern, yes)) == compile_pattern(pattern).search(yes)
    assert bool(re.search(pattern, no)) == compile_pattern(pattern).search(no)


@pytest.mark.parametrize("pattern", ["^[[a]+$", "^[a||b]$", "^[a&&b]*$"])
def test_a_pattern_that_python_would_warn_of(pattern: str) -> None:
    made = string_from(pattern, 1)
    assert made is not None
    assert compile_pattern(pattern).search(made)


def test_a_pattern_that_nothing_matches() -> None:
    assert string_from("a^b", 1) is None
    assert string_from("^a{3}$", 1, 5) is None


def test_translation_leaves_the_rest_alone() -> None:
    assert translate(r"^[a-z\]]{2}(?:\d|x)$") == r"^[a-z\]]{2}(?:\d|x)$"
