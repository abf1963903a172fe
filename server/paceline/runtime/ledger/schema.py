"""The ledger's tables, and the one statement that writes to them.

Amounts are kept in two whole numbers, thousandths and the pico that are left (below 10^9), so that
no sum of them leaves SQLite's 64 bits: a single number would at 9.2 million dollars.

A batch is rows put into a temporary table, many with one INSERT, and then one INSERT into the view
`batch`, whose trigger does all the rest. So it is one transaction, and Python lets go of its
interpreter lock for all of it a few times, not a few times a row.
"""

from __future__ import annotations

VERSION = 1
"""`PRAGMA user_version` of a file that this program can read and write."""

APPLICATION_ID = 0x5061636C
"""`PRAGMA application_id`: "Pacl". A database of another program is refused."""

WIDTHS_S = (60, 3_600, 86_400)
"""The spans by which usage is added up, in seconds."""

SERIES_COLUMNS = (
    "key_id",
    "model",
    "billed_as",
    "profile",
    "tier_served",
    "endpoint",
    "state",
)
"""What rows are told apart by in sums; most rows share it with many others."""

TABLES = """
CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    billed_as TEXT NOT NULL,
    profile TEXT NOT NULL,
    tier_served TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    state TEXT NOT NULL,
    UNIQUE (key_id, model, billed_as, profile, tier_served, endpoint, state)
);

-- One row a request that has ended. Moments are Unix time in microseconds.
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    request_id TEXT NOT NULL,
    series INTEGER NOT NULL REFERENCES series,
    tier_asked TEXT NOT NULL,
    stream INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    ended_us INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    usd_milli INTEGER,      -- NULL where no rate is published
    usd_pico INTEGER,
    credits_milli INTEGER,
    credits_pico INTEGER,
    finish_reason TEXT,
    ttft_ns INTEGER,
    queue_ns INTEGER,
    prefill_ns INTEGER,
    decode_ns INTEGER,
    total_ns INTEGER
);
CREATE INDEX entries_by_time ON entries (created_us);
CREATE INDEX entries_by_series ON entries (series, created_us);
CREATE INDEX entries_by_request ON entries (request_id);

-- Requests that run, as the row their entry begins with: what is left here by a process that
-- died becomes an entry of state `lost`.
CREATE TABLE holds (
    id TEXT PRIMARY KEY,
    body TEXT NOT NULL
) WITHOUT ROWID;

-- Sums of entries by span of `width` seconds, beginning at `start` (Unix time in seconds).
CREATE TABLE rollups (
    width INTEGER NOT NULL,
    start INTEGER NOT NULL,
    series INTEGER NOT NULL REFERENCES series,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    usd_milli INTEGER NOT NULL,
    usd_pico INTEGER NOT NULL,
    usd_unknown INTEGER NOT NULL,     -- requests whose price in US$ isn't published
    credits_milli INTEGER NOT NULL,
    credits_pico INTEGER NOT NULL,
    credits_unknown INTEGER NOT NULL,
    PRIMARY KEY (width, start, series)
) WITHOUT ROWID;

-- What each key has settled, by the day (since 1970) in which its requests were let in.
CREATE TABLE spending (
    key_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    usd_milli INTEGER NOT NULL,
    usd_pico INTEGER NOT NULL,
    credits_milli INTEGER NOT NULL,
    credits_pico INTEGER NOT NULL,
    prepaid_usd_milli INTEGER NOT NULL,
    prepaid_usd_pico INTEGER NOT NULL,
    prepaid_credits_milli INTEGER NOT NULL,
    prepaid_credits_pico INTEGER NOT NULL,
    PRIMARY KEY (key_id, day)
) WITHOUT ROWID;

-- The latest window of each key, and what is settled in it.
CREATE TABLE windows (
    key_id TEXT NOT NULL,
    name TEXT NOT NULL,               -- primary or secondary
    minutes INTEGER NOT NULL,
    began_us INTEGER NOT NULL,
    credits_milli INTEGER NOT NULL,
    credits_pico INTEGER NOT NULL,
    PRIMARY KEY (key_id, name)
) WITHOUT ROWID;

-- For reading by hand: whole rows, amounts as exact decimal text.
CREATE VIEW ledger AS
SELECT
    entries.id, request_id, key_id, model, billed_as, profile, tier_asked, tier_served, endpoint,
    stream, state, finish_reason,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_us / 1e6, 'unixepoch') AS created,
    strftime('%Y-%m-%dT%H:%M:%fZ', ended_us / 1e6, 'unixepoch') AS ended,
    prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens, reasoning_tokens,
    iif(usd_milli IS NULL, NULL,
        printf('%d.%03d%09d', usd_milli / 1000, usd_milli % 1000, usd_pico)) AS usd,
    iif(credits_milli IS NULL, NULL,
        printf('%d.%03d%09d', credits_milli / 1000, credits_milli % 1000, credits_pico)) AS credits,
    ttft_ns, queue_ns, prefill_ns, decode_ns, total_ns
FROM entries JOIN series ON series.id = series
ORDER BY seq;
"""

HOLD_COLUMNS = (
    "id",
    "request_id",
    "key_id",
    "model",
    "billed_as",
    "profile",
    "tier_asked",
    "tier_served",
    "endpoint",
    "stream",
    "created_us",
    "day",
    "prepaid_usd",
    "prepaid_credits",
    "primary_minutes",
    "primary_began_us",
    "secondary_minutes",
    "secondary_began_us",
)
"""A hold's row, in this order; an entry's row begins with it."""

ENTRY_COLUMNS = (
    *HOLD_COLUMNS,
    "state",
    "ended_us",
    "prompt_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "usd_milli",
    "usd_pico",
    "credits_milli",
    "credits_pico",
    "finish_reason",
    "ttft_ns",
    "queue_ns",
    "prefill_ns",
    "decode_ns",
    "total_ns",
)

_STORED = (
    "id, request_id, tier_asked, stream, created_us, ended_us, prompt_tokens, "
    "cached_tokens, cache_write_tokens, completion_tokens, reasoning_tokens, usd_milli, usd_pico, "
    "credits_milli, credits_pico, finish_reason, ttft_ns, queue_ns, prefill_ns, decode_ns, total_ns"
)
_SUMMED = (
    "requests",
    "prompt_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "usd_milli",
    "usd_pico",
    "usd_unknown",
    "credits_milli",
    "credits_pico",
    "credits_unknown",
)
SUMS = ", ".join(
    {
        "requests": "count(*)",
        "usd_unknown": "sum(usd_milli IS NULL)",
        "credits_unknown": "sum(credits_milli IS NULL)",
    }.get(name, f"coalesce(sum({name}), 0)")
    for name in _SUMMED
)
"""The columns of `rollups`, as sums over entries."""
ROLLED_SUMS = ", ".join(f"coalesce(sum({name}), 0)" for name in _SUMMED)
"""The same, over rollups."""

WRITE_BATCH = "INSERT INTO batch (holds, gone) VALUES (?, ?)"
"""Write what is staged, and JSON arrays: rows of new holds, and ids of released ones."""


def stage_sql(rows: int) -> str:
    """An INSERT of so many entries for the next batch; each is ENTRY_COLUMNS long."""
    row = f"({', '.join('?' * len(ENTRY_COLUMNS))})"
    values = ", ".join([row] * rows)
    return f"INSERT OR IGNORE INTO staged ({', '.join(ENTRY_COLUMNS)}) VALUES {values}"


def _window(name: str) -> str:
    return f"""
    INSERT INTO windows
    SELECT key_id, '{name}', {name}_minutes, {name}_began_us,
        coalesce(sum(credits_milli), 0), coalesce(sum(credits_pico), 0)
    FROM staged WHERE {name}_began_us IS NOT NULL
    GROUP BY key_id, {name}_began_us, {name}_minutes ORDER BY {name}_began_us
    ON CONFLICT DO UPDATE SET
        credits_milli = excluded.credits_milli
            + iif(began_us = excluded.began_us, credits_milli, 0),
        credits_pico = excluded.credits_pico
            + iif(began_us = excluded.began_us, credits_pico, 0),
        minutes = excluded.minutes,
        began_us = excluded.began_us
    WHERE excluded.began_us >= began_us;"""


def _added(columns: tuple[str, ...]) -> str:
    return ", ".join(f"{name} = {name} + excluded.{name}" for name in columns)


def batch_sql(keep: int | None) -> str:
    """What makes a connection able to write batches; `keep` is the most entries that are kept."""
    series = ", ".join(SERIES_COLUMNS)
    same = " AND ".join(f"series.{name} = staged.{name}" for name in SERIES_COLUMNS)
    stored = ", ".join(f"staged.{name}" for name in _STORED.split(", "))
    spent = (
        "usd_milli usd_pico credits_milli credits_pico prepaid_usd_milli prepaid_usd_pico "
        "prepaid_credits_milli prepaid_credits_pico"
    )
    prune = ""
    if keep is not None:
        prune = f"DELETE FROM entries WHERE seq <= (SELECT max(seq) FROM entries) - {keep:d};"
    return f"""
CREATE TEMP TABLE staged ({", ".join(ENTRY_COLUMNS)}, series, UNIQUE (id));
CREATE TEMP VIEW batch AS SELECT '' AS holds, '' AS gone;
CREATE TEMP TRIGGER write_batch INSTEAD OF INSERT ON batch BEGIN
    INSERT OR IGNORE INTO holds SELECT json_extract(value, '$[0]'), value FROM json_each(NEW.holds);
    DELETE FROM holds WHERE id IN (SELECT value FROM json_each(NEW.gone));
    DELETE FROM holds WHERE id IN (SELECT id FROM staged);
    -- Not `id IN (SELECT id FROM entries)`: SQLite would copy all ids of the ledger each time,
    -- since `staged` has no types by which the index could answer that.
    DELETE FROM staged WHERE EXISTS (SELECT 1 FROM entries WHERE entries.id = staged.id);
    INSERT OR IGNORE INTO series ({series}) SELECT DISTINCT {series} FROM staged;
    UPDATE staged SET series = (SELECT series.id FROM series WHERE {same});
    INSERT INTO entries (series, {_STORED}) SELECT series, {stored} FROM staged;
    INSERT INTO rollups
    SELECT span.column1, created_us / 1000000 / span.column1 * span.column1, series, {SUMS}
    FROM staged, (VALUES (60), (3600), (86400)) AS span GROUP BY 1, 2, 3
    ON CONFLICT DO UPDATE SET {_added(_SUMMED)};
    INSERT INTO spending
    SELECT key_id, day, coalesce(sum(usd_milli), 0), coalesce(sum(usd_pico), 0),
        coalesce(sum(credits_milli), 0), coalesce(sum(credits_pico), 0),
        coalesce(sum(usd_milli * prepaid_usd), 0), coalesce(sum(usd_pico * prepaid_usd), 0),
        coalesce(sum(credits_milli * prepaid_credits), 0),
        coalesce(sum(credits_pico * prepaid_credits), 0)
    FROM staged WHERE true GROUP BY key_id, day
    ON CONFLICT DO UPDATE SET {_added(tuple(spent.split()))};
    {_window("primary")}
    {_window("secondary")}
    DELETE FROM staged;
    {prune}
END;
"""
