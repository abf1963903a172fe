"""What can be asked of a ledger: entries, newest first, and sums by time, key, model and tier.

Every sum comes from the rollups where they have it, so that a million rows aren't walked: a span
of time is cut into whole days, hours and minutes, and the entries before and after those.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from paceline.runtime.ledger.rows import joined
from paceline.runtime.ledger.schema import ROLLED_SUMS, SUMS, WIDTHS_S

Dimension = Literal["key_id", "model", "billed_as", "profile", "tier_served", "endpoint", "state"]
"""What sums can be grouped by."""
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

_SECOND_US = 1_000_000
FOREVER_US = 10**7 * 86_400 * _SECOND_US
"""The end of a span that has none: a whole number of days, so that rollups reach it."""
_MOST_MERGED = 32
"""Series whose rows are looked up one by one; more of them are told apart along the way."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries; None is any. Moments are when a request was let in, `until_us` exclusive.

    `models` match the model as it was asked for and as it is billed; `but_endpoints` are left out.
    """

    key_ids: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    tiers: tuple[str, ...] | None = None
    states: tuple[str, ...] | None = None
    endpoints: tuple[str, ...] | None = None
    but_endpoints: tuple[str, ...] | None = None
    request_id: str | None = None
    since_us: int | None = None
    until_us: int | None = None

    def series(self) -> tuple[str, list[Any]]:
        """The condition on `series`, "" for none, and its parameters."""
        parts, values = list[str](), list[Any]()
        for name, wanted in (
            ("key_id IN", self.key_ids),
            ("tier_served IN", self.tiers),
            ("state IN", self.states),
            ("endpoint IN", self.endpoints),
            ("endpoint NOT IN", self.but_endpoints),
        ):
            if wanted is not None:
                parts.append(f"{name} (SELECT value FROM json_each(?))")
                values.append(json.dumps(wanted))
        if self.models is not None:
            models = json.dumps(self.models)
            parts.append(
                "(model IN (SELECT value FROM json_each(?))"
                " OR billed_as IN (SELECT value FROM json_each(?)))"
            )
            values += [models, models]
        return " AND ".join(parts), values

    def takes(self, series: Sequence[str]) -> bool:
        """Whether rows of a series match, by its values in the order of DIMENSIONS."""
        key_id, model, billed_as, _, tier, endpoint, state = series
        return (
            (self.key_ids is None or key_id in self.key_ids)
            and (self.models is None or model in self.models or billed_as in self.models)
            and (self.tiers is None or tier in self.tiers)
            and (self.states is None or state in self.states)
            and (self.endpoints is None or endpoint in self.endpoints)
            and (self.but_endpoints is None or endpoint not in self.but_endpoints)
        )


ANY = Filter()


class Line(NamedTuple):
    """One entry as it is kept; amounts in thousandths and the pico left, None where unpublished."""

    seq: int
    id: str
    request_id: str
    key_id: str
    model: str
    billed_as: str
    profile: str
    tier_asked: str
    tier_served: str
    endpoint: str
    stream: int
    state: str
    finish_reason: str | None
    created_us: int
    ended_us: int
    prompt_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    usd_milli: int | None
    usd_pico: int | None
    credits_milli: int | None
    credits_pico: int | None
    ttft_ns: int | None
    queue_ns: int | None
    prefill_ns: int | None
    decode_ns: int | None
    total_ns: int | None

    @property
    def usd(self) -> int | None:
        """In pico."""
        if self.usd_milli is None or self.usd_pico is None:
            return None
        return joined(self.usd_milli, self.usd_pico)

    @property
    def credits(self) -> int | None:
        """In pico."""
        if self.credits_milli is None or self.credits_pico is None:
            return None
        return joined(self.credits_milli, self.credits_pico)


@dataclass(frozen=True, slots=True)
class Sums:
    """Entries added up. Amounts are in pico, without the requests whose price isn't published."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    usd: int = 0
    usd_unknown: int = 0
    credits: int = 0
    credits_unknown: int = 0

    @property
    def tokens(self) -> int:
        """Of all kinds."""
        return self.prompt_tokens + self.completion_tokens

    @classmethod
    def of(cls, row: Sequence[int]) -> Sums:
        """From a row of the schema's sums."""
        requests, prompt, cached, written, output, reasoning = row[:6]
        usd_milli, usd_pico, usd_unknown, milli, pico, unknown = row[6:]
        usd, credit = joined(usd_milli, usd_pico), joined(milli, pico)
        return cls(
            requests, prompt, cached, written, output, reasoning, usd, usd_unknown, credit, unknown
        )

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.completion_tokens + other.completion_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.usd + other.usd,
            self.usd_unknown + other.usd_unknown,
            self.credits + other.credits,
            self.credits_unknown + other.credits_unknown,
        )


class Group(NamedTuple):
    """Sums of the entries that share the values that were grouped by, in a bucket's span."""

    start_s: int
    values: tuple[str, ...]
    sums: Sums


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in the list of entries: all that are older come after it."""

    created_us: int
    seq: int


_LINE = ", ".join(
    f"series.{name}" if name in DIMENSIONS else f"entries.{name}" for name in Line._fields
)


def entries(
    connection: sqlite3.Connection, which: Filter, limit: int, after: Cursor | None = None
) -> list[Line]:
    """At most `limit` entries, the latest let in first."""
    conditions, values = _on_entries(which)
    if after is not None:
        conditions.append("(created_us < ? OR created_us = ? AND seq < ?)")
        conditions.append("created_us <= ?")
        values += [after.created_us, after.created_us, after.seq, after.created_us]
    known, parameters = _series(connection, which)
    order = "ORDER BY created_us DESC, seq DESC LIMIT ?"
    if known is None or len(known) > _MOST_MERGED or which.request_id is not None:
        if known is not None:
            conditions.append("series IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(known))
        found = f"SELECT seq FROM entries {_where(conditions)} {order}"
        parameters = [*values, limit]
    elif known:
        # Each series' latest, by the index, then the latest of those.
        one = f"SELECT seq, created_us FROM entries {_where(['series = ?', *conditions])} {order}"
        each = " UNION ALL ".join(f"SELECT * FROM ({one})" for _ in known)
        found = f"SELECT seq FROM ({each}) {order}"
        parameters = [value for number in known for value in (number, *values, limit)]
        parameters.append(limit)
    else:
        return []
    rows = connection.execute(
        f"SELECT {_LINE} FROM entries JOIN series ON series.id = entries.series"
        f" WHERE entries.seq IN ({found}) ORDER BY created_us DESC, seq DESC",
        parameters,
    )
    return [Line._make(row) for row in rows]


def totals(
    connection: sqlite3.Connection, which: Filter, group: Sequence[Dimension] = ()
) -> list[Group]:
    """Sums of all entries that match, by what they are grouped by; none where nothing matches."""
    if which.request_id is not None:
        return _summed(connection, _Rows("entries", SUMS, *_on_entries(which)), which, group)
    found: dict[tuple[str, ...], Sums] = {}
    until_us = FOREVER_US if which.until_us is None else which.until_us
    for width, since, until in cover(which.since_us or 0, until_us):
        if width is None:
            part = _Rows("entries", SUMS, ("created_us >= ?", "created_us < ?"), [since, until])
        else:
            part = _Rows(*_ROLLUPS, [width, since, until])
        for each in _summed(connection, part, which, group):
            found[each.values] = found.get(each.values, Sums()) + each.sums
    return [Group(0, values, found[values]) for values in sorted(found)]


def buckets(
    connection: sqlite3.Connection,
    width_s: int,
    since_s: int,
    until_s: int,
    *,
    which: Filter = ANY,
    group: Sequence[Dimension] = (),
) -> list[Group]:
    """Sums by span of `width_s`, 60, 3,600 or 86,400 seconds, in order of time.

    Spans that begin from `since_s` on and before `until_s`; those without entries are left out.
    """
    span = _Rows(*_ROLLUPS, [width_s, since_s, until_s])
    return _summed(connection, span, which, group, by_start=True)


class _Rows(NamedTuple):
    """Rows to add up: entries, or rollups of them."""

    table: str
    sums: str
    conditions: Sequence[str]
    values: list[Any]


_ROLLUPS = ("rollups", ROLLED_SUMS, ("width = ?", "start >= ?", "start < ?"))


def _summed(
    connection: sqlite3.Connection,
    of: _Rows,
    which: Filter,
    group: Sequence[Dimension],
    *,
    by_start: bool = False,
) -> list[Group]:
    on_series, more = which.series()
    columns = [*(["start"] if by_start else []), *(f"series.{name}" for name in group)]
    grouped = f"GROUP BY {', '.join(columns)} ORDER BY {', '.join(columns)}" if columns else ""
    where = _where([*of.conditions, *([on_series] if on_series else [])])
    rows = connection.execute(
        f"SELECT {''.join(f'{column}, ' for column in columns)}{of.sums} FROM {of.table}"
        f" JOIN series ON series.id = {of.table}.series {where} {grouped}",
        [*of.values, *more],
    )
    at = len(columns)
    found = [
        Group(row[0] if by_start else 0, tuple(row[int(by_start) : at]), Sums.of(row[at:]))
        for row in rows
    ]
    return [each for each in found if each.sums.requests]


def _on_entries(which: Filter) -> tuple[list[str], list[Any]]:
    conditions, values = [], list[Any]()
    for condition, value in (
        ("request_id = ?", which.request_id),
        ("created_us >= ?", which.since_us),
        ("created_us < ?", which.until_us),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    return conditions, values


def _series(connection: sqlite3.Connection, which: Filter) -> tuple[list[int] | None, list[Any]]:
    """The series that match; None for all of them."""
    condition, values = which.series()
    if not condition:
        return None, []
    found = connection.execute(f"SELECT id FROM series WHERE {condition}", values)
    return [number for (number,) in found], []


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def cover(since_us: int, until_us: int) -> Iterator[tuple[int | None, int, int]]:
    """A span of time in pieces: the widest rollups that fit, and single entries at its ends.

    Each is (width, first start, end) in seconds, or (None, start, end) in microseconds.
    """
    yield from _within(since_us, until_us, [width * _SECOND_US for width in reversed(WIDTHS_S)])


def _within(
    since_us: int, until_us: int, widths_us: list[int]
) -> Iterator[tuple[int | None, int, int]]:
    if since_us >= until_us:
        return
    if not widths_us:
        yield None, since_us, until_us
        return
    width, *narrower = widths_us
    first, last = -(-since_us // width) * width, until_us // width * width
    if first >= last:
        yield from _within(since_us, until_us, narrower)
        return
    yield from _within(since_us, first, narrower)
    yield width // _SECOND_US, first // _SECOND_US, last // _SECOND_US
    yield from _within(last, until_us, narrower)
