"""What a commit takes doesn't grow with the ledger."""

from __future__ import annotations

import sqlite3

from paceline.core.ledger import FREE, NO_TERMS, Entry, Hold, Shortage
from paceline.core.purse import Purse
from paceline.core.usage import Usage
from paceline.runtime.ledger.database import open_private, write_batch
from paceline.runtime.ledger.rows import Row, entry_row


def rows(first: int, count: int) -> list[Row]:
    purse = Purse()
    made = []
    for i in range(first, first + count):
        hold = Hold(
            id=f"hold-{i}",
            request_id=f"req-{i}",
            key_id="",
            model="m",
            billed_as="",
            profile="m",
            tier_asked="auto",
            tier_served="default",
            endpoint="/v1/chat/completions",
            stream=False,
            created_us=1_000_000 * i,
        )
        stake = purse.hold(FREE, NO_TERMS, hold.created_us)
        assert not isinstance(stake, Shortage)
        made.append(entry_row(Entry(hold, "finished", hold.created_us, Usage(8, 16)), stake))
    return made


def work(connection: sqlite3.Connection, batch: list[Row]) -> int:
    """The steps of SQLite's virtual machine that a batch takes, in hundreds."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(step, 100)
    write_batch(connection, batch)
    connection.set_progress_handler(None, 0)
    return steps


def test_a_commit_s_work_is_that_of_its_rows() -> None:
    connection = open_private(None)
    few = work(connection, rows(0, 16))
    for i in range(40):
        write_batch(connection, rows(1_000 + 500 * i, 500))
    many = work(connection, rows(100_000, 16))
    connection.close()
    assert few > 0
    assert many < 1.5 * few
