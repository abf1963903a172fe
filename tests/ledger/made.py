"""Holds and entries for tests, and a look into a ledger's file from outside."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.core.ledger import Amount, Entry, EntryState, Hold, Times
from paceline.core.usage import Usage
from paceline.runtime.ledger.questions import Cursor, Line

NOON_US = 1_790_000_000_000_000
"""21 September 2026, 14:13:20 UTC."""

USAGE = Usage(10, 5, 4, 2, 1)

_ids = itertools.count(1)


def hold(
    key_id: str = "k", usd: int | None = 0, credit: int | None = 0, at: int = NOON_US, **other: Any
) -> Hold:
    number = next(_ids)
    made = Hold(
        id=f"hold-{number}",
        request_id=f"req-{number}",
        key_id=key_id,
        model="sol",
        billed_as="gpt-5.6-sol",
        profile="gpt-5.6-sol",
        tier_asked="auto",
        tier_served="default",
        endpoint="/v1/chat/completions",
        stream=True,
        created_us=at,
        most=Amount(usd, credit),
    )
    return replace(made, **other)


def entry(
    held: Hold,
    usd: int | None = 0,
    credit: int | None = 0,
    state: EntryState = "finished",
    usage: Usage = USAGE,
) -> Entry:
    return Entry(
        held,
        state,
        held.created_us + 1_000_000,
        usage,
        Amount(usd, credit),
        "stop",
        Times(1, 2, 3, 4, 5),
    )


def rows(path: Path, sql: str) -> list[Any]:
    """What another connection sees, that is, what is committed."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def cursor(line: Line) -> Cursor:
    """The place in the list after an entry."""
    return Cursor(line.created_us, line.seq)
