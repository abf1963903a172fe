"""Numbers and strings within given bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from paceline.core.rng import mix64, unit
from paceline.runtime.prose import word_lists
from paceline.runtime.schema import formats
from paceline.runtime.schema.from_pattern import MAX_STRING, string_from
from paceline.runtime.schema.patterns import compile_pattern

_LISTS = word_lists()


@dataclass(slots=True)
class NumberRules:
    """Bounds on a number; `multiples` are what it must be a multiple of."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    multiples: list[float] = field(default_factory=list)

    def hold(self, value: float) -> bool:
        """Whether a number keeps the rules."""
        return (
            (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and all(is_multiple(value, step) for step in self.multiples)
        )


def is_multiple(value: int | float, step: int | float) -> bool:
    """Whether `value` is a whole number of steps, by decimal and by binary arithmetic both.

    Validators differ there (0.3 is three times 0.1 for one and not for the other); what passes
    both passes all.
    """
    if isinstance(step, float):
        try:
            quotient = value / step
            if not math.isfinite(quotient) or int(quotient) != quotient:
                return False
        except OverflowError:
            return False
    elif value % step:
        return False
    return _fraction(value) % _fraction(step) == 0


def _fraction(value: float) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(Decimal(repr(value)))


def make_number(rules: NumberRules, key: int, *, whole: bool) -> float | None:
    """A number that keeps the rules, an integer with `whole`; None if none was found."""
    for value in _numbers(rules, key, whole=whole):
        if value not in {math.inf, -math.inf} and rules.hold(value):
            return value
    return None


def _numbers(rules: NumberRules, key: int, *, whole: bool) -> Iterator[float]:
    lows = [x for x in (rules.low, rules.above) if x is not None]
    highs = [x for x in (rules.high, rules.below) if x is not None]
    low = _fraction(max(lows)) if lows else None
    high = _fraction(min(highs)) if highs else None
    step = Fraction(1) if whole else Fraction(0)
    for multiple in rules.multiples:
        step = _common(step, _fraction(multiple))
    if low is None and high is None:
        low, high = Fraction(1), max(Fraction(20), step * 20)
    elif low is None and high is not None:
        low = Fraction(0) if high > 0 else high - max(Fraction(20), step * 20)
    elif high is None and low is not None:
        high = low + max(Fraction(20), step * 20)
    if low is None or high is None or low > high:
        return
    if step:
        yield from _steps(low, high, step, key)
    else:
        yield from _between(low, high, key)


def _common(a: Fraction, b: Fraction) -> Fraction:
    """The least number that is a multiple of both; 0 stands for no demand."""
    if not a or not b:
        return a or b
    return Fraction(
        math.lcm(a.numerator * b.denominator, b.numerator * a.denominator),
        a.denominator * b.denominator,
    )


def _steps(low: Fraction, high: Fraction, step: Fraction, key: int) -> Iterator[float]:
    first, last = math.ceil(low / step), math.floor(high / step)
    if first > last:
        return
    count = last - first + 1
    seen = set()
    drawn = [first + mix64(key + i) % min(count, 1 << 40) for i in range(6)]
    edges = [first, first + 1, first + 2, last, last - 1, 0, 1, -1, 10]
    for k in [*drawn, *edges, *range(first, min(last, first + 40) + 1)]:
        if first <= k <= last and k not in seen:
            seen.add(k)
            yield _plain(k * step)


def _between(low: Fraction, high: Fraction, key: int) -> Iterator[float]:
    for i in range(3):
        at = low + (high - low) * Fraction(unit(key + i))
        for digits in (1, 2, 4):
            rounded = Fraction(round(at, digits))
            if low < rounded < high:
                yield _plain(rounded)
        yield _plain(at)
    yield from (_plain(low), _plain(high), _plain((low + high) / 2))


def _plain(value: Fraction) -> float:
    if value.denominator == 1:
        return value.numerator
    try:
        return float(value)
    except OverflowError:
        return math.inf


@dataclass(slots=True)
class StringRules:
    """What a string must be: low to high characters, and of each format and pattern."""

    low: int = 0
    high: int | None = None
    formats: list[str] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)

    def hold(self, text: str) -> bool:
        """Whether a string keeps the rules."""
        return (
            len(text) >= self.low
            and (self.high is None or len(text) <= self.high)
            and all(formats.holds(name, text) for name in self.formats)
            and all(compile_pattern(pattern).search(text) for pattern in self.patterns)
        )


def make_string(rules: StringRules, key: int, name: str = "") -> str | None:
    """A string that keeps the rules; `name` is the property's, for a fitting word.

    None if none was found.
    """
    if rules.low > MAX_STRING or (rules.high is not None and rules.high < rules.low):
        return None
    for text in _strings(rules, key, name):
        if text is not None and rules.hold(text):
            return text
    return None


def _strings(rules: StringRules, key: int, name: str) -> Iterator[str | None]:
    for form in rules.formats:
        for attempt in range(4):
            yield formats.make(form, key + attempt)
        if rules.low:
            yield _long_form(form, rules.low, key)
    for pattern in rules.patterns:
        for attempt in range(1 if len(rules.patterns) == 1 and not rules.formats else 8):
            yield string_from(pattern, key + attempt, rules.low, rules.high)
    if not rules.patterns and not rules.formats:
        yield hinted(name, key)
        yield phrase(key, 2 + mix64(key + 3) % 4)
    yield _sized(rules.low, rules.high, key)
    yield from ("", "a", "1", "A1!a", "a" * max(rules.low, 1), "x-1")


def _long_form(form: str, low: int, key: int) -> str | None:
    """A longer value of the formats that can be long."""
    if form in ("email", "idn-email"):
        return "a" * max(low - 12, 1) + "@example.com"
    if form in ("uri", "url", "iri", "uri-reference", "iri-reference"):
        return "https://example.com/" + "a" * max(low - 20, 0)
    return formats.make(form, key)


def _sized(low: int, high: int | None, key: int) -> str:
    """Prose of a length within the bounds, the shortest that isn't silly."""
    top = max(low, 24) if high is None else high
    wanted = min(max(low, min(24, top)), top)
    text = phrase(key, 4 + wanted // 4)
    text = text[:wanted].rstrip()
    return text + "." * (low - len(text))


def phrase(key: int, words: int) -> str:
    """A few plain words."""
    made: list[str] = []
    lists: Sequence[str] = ("made", "thing", "at", "lying", "place")
    while len(made) < words:
        at = len(made)
        options = _LISTS[lists[at % len(lists)]]
        made.append(options[mix64(key + at) % len(options)])
    return " ".join(made)


# What properties of these names usually hold; nothing that does harm where a tool is real.
_HINTS: dict[str, tuple[str, ...]] = {
    "path": ("README.md", "docs/notes.md", "src/main.py"),
    "file_path": ("README.md", "docs/notes.md", "src/main.py"),
    "filename": ("notes.txt", "report.md"),
    "directory": (".", "docs", "src"),
    "dir": (".", "docs"),
    "cwd": (".",),
    "workdir": (".",),
    "glob": ("*.md", "*.py"),
    "pattern": ("lamp", "garden"),
    "url": ("https://example.com/", "https://example.org/guide"),
    "uri": ("https://example.com/", "https://example.org/guide"),
    "email": ("anna@example.com", "tom@example.org"),
    "city": ("Lisbon", "Oslo", "Kyoto", "Paris"),
    "location": ("Lisbon, Portugal", "Oslo, Norway", "Kyoto, Japan"),
    "country": ("Portugal", "Norway", "Japan"),
    "language": ("en", "de", "fr"),
    "currency": ("EUR", "USD", "JPY"),
    "timezone": ("UTC", "Europe/Lisbon"),
    "query": ("garden bench", "old stone bridge", "quiet harbor"),
    "sql": ("SELECT 1",),
    "command": ('echo "step 1"',),
    "cmd": ('echo "step 1"',),
    "date": ("2026-11-30", "2027-01-15"),
    "name": ("Anna", "Tom", "Maria", "Peter"),
    "title": ("Notes of the day", "A short report"),
    "id": ("item-42", "item-7"),
    "owner": ("anna", "tom"),
    "repo": ("garden", "harbor"),
    "branch": ("main",),
}


def hinted(name: str, key: int) -> str | None:
    """A word that fits a property's name, for the names that say what they hold."""
    if not name:
        return None
    options = _HINTS.get(name.lower())
    return None if options is None else options[mix64(key) % len(options)]
