"""The questions as SQL: entries, newest first, and sums by time, key, model and tier.

Every sum comes from the rollups where they have it, so that a million rows aren't walked: a span
of time is cut into whole days, hours and minutes, and the entries before and after those.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from paceline.runtime.ledger.questions import (
    ANY,
    DIMENSIONS,
    FOREVER_US,
    Cursor,
    Dimension,
    Filter,
    Group,
    Line,
    Sums,
    cover,
)
from paceline.runtime.ledger.schema import ROLLED_SUMS, SUMS

_MOST_MERGED = 32
"""Series whose rows are looked up one by one; more of them are told apart along the way."""

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
    on_series, more = _on_series(which)
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


def _on_series(which: Filter) -> tuple[str, list[Any]]:
    """The condition on `series`, "" for none, and its parameters."""
    parts, values = list[str](), list[Any]()
    for name, wanted in (
        ("key_id IN", which.key_ids),
        ("tier_served IN", which.tiers),
        ("state IN", which.states),
        ("endpoint IN", which.endpoints),
        ("endpoint NOT IN", which.but_endpoints),
    ):
        if wanted is not None:
            parts.append(f"{name} (SELECT value FROM json_each(?))")
            values.append(json.dumps(wanted))
    if which.models is not None:
        models = json.dumps(which.models)
        parts.append(
            "(model IN (SELECT value FROM json_each(?))"
            " OR billed_as IN (SELECT value FROM json_each(?)))"
        )
        values += [models, models]
    return " AND ".join(parts), values


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
    condition, values = _on_series(which)
    if not condition:
        return None, []
    found = connection.execute(f"SELECT id FROM series WHERE {condition}", values)
    return [number for (number,) in found], []


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""
