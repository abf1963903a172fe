"""A ledger's file: opened, locked, checked and brought up to what was left open in it."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import orjson

from paceline.core.purse import Meter, Purse, Spent, WindowMeter
from paceline.runtime.ledger.rows import Row, joined, lost_row
from paceline.runtime.ledger.schema import (
    APPLICATION_ID,
    TABLES,
    VERSION,
    WRITE_BATCH,
    batch_sql,
    stage_sql,
)

# 256 rows of 35 values are within the 32,766 that a statement may have since SQLite 3.32.
_STAGES = {rows: stage_sql(rows) for rows in (256, 32, 8, 1)}


class LedgerError(Exception):
    """A ledger that can't be used: where it is, and why."""

    def __init__(self, where: Path | str, reason: str) -> None:
        super().__init__(f"ledger {where}: {reason}")
        self.where = where
        self.reason = reason


class FileLock:
    """Held by the one process that writes to a ledger's file; the system lets go of it at death."""

    def __init__(self, path: Path) -> None:
        """Raises LedgerError where another process has it, or the folder can't be written to."""
        # Whatever links lead there: the file has one writer, not each of its names.
        beside = os.path.realpath(path) + ".lock"
        try:
            self._fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise LedgerError(path, f"can't be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise LedgerError(path, "another process has it open") from error

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._fd)


def open_file(path: Path) -> sqlite3.Connection:
    """A connection that writes batches, to a file that may not exist yet. Raises LedgerError."""
    connection = None
    try:
        # Used by the writer's thread alone once it has begun.
        # By its whole name: `:memory:` alone would be no file.
        connection = sqlite3.connect(path.absolute(), isolation_level=None, check_same_thread=False)
        _check(connection, path)
        # NORMAL: what is committed outlives the process; a power cut may cost the last commits,
        # never the file.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        _prepare(connection, None)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise LedgerError(path, str(error)) from error
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


def place_of(path: Path) -> tuple[int, int] | None:
    """Which file has a name now, by its device and number; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_private(keep: int | None) -> sqlite3.Connection:
    """A connection to a database of its own that is gone when it is closed."""
    connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("PRAGMA synchronous = OFF")
    _create(connection)
    _prepare(connection, keep)
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that reads beside the one that writes, and never makes it wait.

    It makes no file: where there is none any more sqlite3.Error is raised.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA query_only = ON")
    return connection


def close_left_open(connection: sqlite3.Connection, ended_us: int) -> int:
    """Turn the holds of a process that died into entries of state `lost`; how many there were."""
    found = connection.execute("SELECT body FROM holds ORDER BY id").fetchall()
    write_batch(connection, [lost_row(json.loads(body), ended_us) for (body,) in found])
    return len(found)


def write_batch(
    connection: sqlite3.Connection,
    entries: Sequence[Row],
    holds: Sequence[Row] = (),
    gone: Sequence[str] = (),
) -> None:
    """Commit rows of entries and holds, and ids of released holds; all of them or none.

    Raises sqlite3.Error where SQLite won't have them, and OverflowError for a number above 64 bits.
    """
    try:
        at = 0
        for rows, sql in _STAGES.items():
            while len(entries) - at >= rows:
                some = entries[at : at + rows]
                try:
                    connection.execute(sql, list(chain.from_iterable(some)))
                except UnicodeEncodeError:
                    connection.execute(sql, [_clean(value) for row in some for value in row])
                at += rows
        connection.execute(WRITE_BATCH, (_json(holds), _json(gone)))
    except BaseException:
        if connection.in_transaction:
            connection.rollback()
        connection.execute("DELETE FROM staged")
        raise


def _clean(value: str | int | None) -> str | int | None:
    """A text that has no UTF-8 form with question marks in it."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _json(rows: Sequence[Row] | Sequence[str]) -> str:
    """Rows as JSON; in texts, what has no UTF-8 form becomes a question mark, and NUL U+FFFD."""
    if not rows:
        return "[]"
    try:
        text = orjson.dumps(rows).decode()
    except TypeError:
        text = json.dumps(rows, ensure_ascii=False).encode("utf-8", "replace").decode()
    # SQLite's functions for JSON take a NUL for a text's end.
    return text.replace("\\u0000", "\\ufffd")


def load_purses(connection: sqlite3.Connection) -> dict[str, Purse]:
    """Every key's purse as its settled requests left it."""
    spent: dict[str, list[Spent]] = defaultdict(list)
    for key_id, day, *parts in connection.execute("SELECT * FROM spending"):
        amounts = [joined(parts[i], parts[i + 1]) for i in range(0, 8, 2)]
        spent[key_id].append(Spent(day, *amounts))
    windows: dict[str, dict[str, WindowMeter]] = defaultdict(dict)
    for key_id, name, minutes, began_us, milli, pico in connection.execute("SELECT * FROM windows"):
        windows[key_id][name] = WindowMeter(minutes, began_us, Meter(joined(milli, pico)))
    purses = {}
    for key_id in spent.keys() | windows.keys():
        purse = purses[key_id] = Purse()
        purse.restore(spent[key_id], windows[key_id].items())
    return purses


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of an empty file; refuse another program's, or another version's."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables and not version:
        _create(connection)
    elif application != APPLICATION_ID:
        raise LedgerError(path, "is no ledger but another program's database")
    elif version != VERSION:
        raise LedgerError(path, f"has version {version} of the tables; this program has {VERSION}")


def _create(connection: sqlite3.Connection) -> None:
    connection.executescript(
        f"BEGIN; {TABLES} PRAGMA application_id = {APPLICATION_ID};"
        f" PRAGMA user_version = {VERSION}; COMMIT;"
    )


def _prepare(connection: sqlite3.Connection, keep: int | None) -> None:
    connection.execute("PRAGMA temp_store = MEMORY")
    # In KiB where it is negative: at most 32 MB of memory, that of the ids' index foremost.
    connection.execute("PRAGMA cache_size = -32768")
    connection.executescript(batch_sql(keep))
