"""What can be asked of a shared ledger: the same questions as `queries`, of sorted sets and hashes.

Entries are one sorted set by the moment they were let in, of which the latest are kept. Sums are
hashes, one for all time and one for each minute, hour and day, with an index of those there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from paceline.runtime.ledger.questions import (
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
from paceline.runtime.ledger.schema import WIDTHS_S
from paceline.runtime.ledger.valkey_rows import sums_of

_CHUNK = 1000
_SEQ_DIGITS = 16
_SUMS = 12

Series = tuple[str, ...]


class ValkeyBooks:
    """Reads what the scripts write."""

    def __init__(self, store: Any, tag: str) -> None:
        """`store` is a `redis.asyncio.Redis`, whose own annotations are of bytes and text both."""
        self._store = store
        self._tag = tag

    def rollups(self, created_us: int) -> tuple[list[str], list[int]]:
        """The hashes that an entry adds to, each with its index, and the starts of their spans."""
        keys, starts = [f"{self._tag}:sums", ""], [0]
        for width in WIDTHS_S:
            start = created_us // 1_000_000 // width * width
            keys += [self._rollup(width, start), self._index(width)]
            starts.append(start)
        return keys, starts

    def series(self, line: Line) -> Series:
        """What tells an entry apart in sums."""
        return tuple(getattr(line, name) for name in DIMENSIONS)

    async def entries(self, which: Filter, limit: int, after: Cursor | None) -> list[Line]:
        """At most `limit` entries that match, the latest let in first."""
        latest = str(after.created_us) if after is not None else "+inf"
        earliest = "-inf" if which.since_us is None else str(which.since_us)
        found: list[Line] = []
        offset = 0
        while len(found) < limit:
            rows = await self._store.zrevrangebyscore(
                f"{self._tag}:entries", latest, earliest, start=offset, num=_CHUNK
            )
            for line in map(_line, rows):
                place = Cursor(line.created_us, line.seq)
                if after is None or place < after:
                    # On from here, not by number: what is settled meanwhile moves all numbers.
                    after = place
                    if _matches(which, line):
                        found.append(line)
            if len(rows) < _CHUNK or after is None:
                break
            offset = offset + _CHUNK if latest == str(after.created_us) else 0
            latest = str(after.created_us)
        return found[:limit]

    async def totals(self, which: Filter, group: Sequence[Dimension]) -> list[Group]:
        """Sums of all entries that match."""
        found: dict[Series, Sums] = {}
        if which.request_id is not None:
            _add_lines(found, await self._between(which, 0, FOREVER_US), group)
        elif which.since_us is None and which.until_us is None:
            _add_hash(found, await self._hash(f"{self._tag}:sums"), which, group)
        else:
            until_us = FOREVER_US if which.until_us is None else which.until_us
            for width, since, until in cover(which.since_us or 0, until_us):
                if width is None:
                    _add_lines(found, await self._between(which, since, until), group)
                else:
                    for _, fields in await self._spans(width, since, until):
                        _add_hash(found, fields, which, group)
        return [Group(0, values, found[values]) for values in sorted(found)]

    async def buckets(
        self, span: tuple[int, int, int], which: Filter, group: Sequence[Dimension]
    ) -> list[Group]:
        """Sums by span of time; `span` is width, first start and end in seconds."""
        groups = []
        for start, fields in await self._spans(*span):
            found: dict[Series, Sums] = {}
            _add_hash(found, fields, which, group)
            groups += [Group(start, values, found[values]) for values in sorted(found)]
        return groups

    async def _between(self, which: Filter, since_us: int, until_us: int) -> list[Line]:
        rows = await self._store.zrangebyscore(f"{self._tag}:entries", since_us, f"({until_us}")
        return [line for line in map(_line, rows) if _matches(which, line)]

    async def _spans(self, width: int, since: int, until: int) -> list[tuple[int, dict[str, str]]]:
        """The hashes of the spans that begin from `since` on and before `until`."""
        index = await self._store.zrangebyscore(
            self._index(width), since, f"({until}", withscores=True
        )
        async with self._store.pipeline(transaction=False) as pipe:
            for key, _ in index:
                pipe.hgetall(key)
            hashes = await pipe.execute()
        return [(int(start), fields) for (_, start), fields in zip(index, hashes, strict=True)]

    async def _hash(self, key: str) -> dict[str, str]:
        found: dict[str, str] = await self._store.hgetall(key)
        return found

    def _rollup(self, width: int, start: int) -> str:
        return f"{self._tag}:sums:{width}:{start}"

    def _index(self, width: int) -> str:
        return f"{self._tag}:sums:{width}"


def _line(row: str) -> Line:
    return Line._make(json.loads(row[_SEQ_DIGITS:]))._replace(seq=int(row[:_SEQ_DIGITS]))


def _matches(which: Filter, line: Line) -> bool:
    return (
        which.takes(tuple(getattr(line, name) for name in DIMENSIONS))
        and (which.request_id is None or line.request_id == which.request_id)
        and (which.since_us is None or line.created_us >= which.since_us)
        and (which.until_us is None or line.created_us < which.until_us)
    )


def _add_lines(
    found: dict[Series, Sums], lines: Iterable[Line], group: Sequence[Dimension]
) -> None:
    for line in lines:
        values = tuple(getattr(line, name) for name in group)
        found[values] = found.get(values, Sums()) + Sums.of(sums_of(line))


def _add_hash(
    found: dict[Series, Sums], fields: dict[str, str], which: Filter, group: Sequence[Dimension]
) -> None:
    sums: dict[str, list[int]] = {}
    for name, value in fields.items():
        series, _, at = name.rpartition("#")
        sums.setdefault(series, [0] * _SUMS)[int(at) - 1] = int(value)
    for series, row in sums.items():
        of = tuple(json.loads(series))
        if which.takes(of):
            values = tuple(of[DIMENSIONS.index(name)] for name in group)
            found[values] = found.get(values, Sums()) + Sums.of(row)
