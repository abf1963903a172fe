"""Real clients under limits: what each does when a key's share is spent, or it may not have a tier.

    .venv/bin/python clients/run_limits.py --write

Each case starts a server with a keys file, brings the limit about, and lets an unmodified client
ask for one answer. The wire is watched: no retry may come before the wait that was told, and a
client that should stop must say why. Prints a table, and with --write puts it into
docs/clients-under-limits.md. Exits with 1 where anything went otherwise.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

import install
import isolation
from limits import LIMITS, Limit, staged
from limits_clients import BRIEF_S, CLIENTS, PATIENCE_S, Asked, Client
from limits_judge import judge
from limits_stage import FAST, MODEL

PAGE = Path(__file__).parents[1] / "docs" / "clients-under-limits.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->"
_LONGEST = 200


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    limit: str
    client: str
    version: str
    ok: bool
    did: str
    said: str
    seconds: float


def main() -> int:
    """Run what was asked for."""
    options = _options()
    cases = [
        (limit, client)
        for limit in LIMITS
        for client in CLIENTS
        if all(word in f"{limit.name} {client.name}" for word in options.only)
    ]
    packages = {client.package for _, client in cases}
    for package in packages & set(install.PYTHON_PACKAGES):
        install.install_python(package, update=options.update)
    if packages - set(install.PYTHON_PACKAGES):
        install.install_node(update=options.update)
    print("network: " + ("loopback alone" if isolation.cut_off() else "not cut off"))
    rows = []
    for limit, client in cases:
        row = run(limit, client)
        rows.append(row)
        mark = "ok   " if row.ok else "fails"
        print(f"{mark} {row.seconds:5.1f} s  {limit.name} | {client.name}: {row.did}", flush=True)
    text = table(rows)
    print("\n" + text)
    if options.write:
        write(text)
    return 0 if all(row.ok for row in rows) else 1


def run(limit: Limit, client: Client) -> Row:
    """One client under one limit."""
    version, seconds, said = install.version_of(client.package), 0.0, ""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="client-", ignore_cleanup_errors=True) as name,
            staged(limit, Path(name), client.tokens_a_minute) as stage,
        ):
            known = {record["id"] for record in stage.server.records()}
            named = limit.tier and client.tier is None
            asked = Asked(
                stage.server.url,
                limit.with_key,
                FAST if named else MODEL,
                Path(name),
                client.tier if limit.tier else None,
                BRIEF_S if limit.end_of(client.name) == "goes on waiting" else PATIENCE_S,
            )
            ran = client.run(asked)
            seconds, said = ran.seconds, ran.said
            records = [r for r in stage.server.records() if r["id"] not in known]
            did = judge(limit, client, ran, list(stage.tap.exchanges), records)
    except Exception as error:
        print("".join(traceback.format_exception(error)[-2:]), file=sys.stderr)
        return Row(limit.name, client.name, version, False, f"FAILS: {error}", said, seconds)
    return Row(limit.name, client.name, version, True, did, said, seconds)


def table(rows: list[Row]) -> str:
    """The rows in Markdown."""
    lines = ["| Limit | Client | What it does | Its own words |", "|---|---|---|---|"]
    for row in rows:
        client = f"{row.client} {row.version}"
        said = f"“{tidy(row.said)}”" if row.said else ""
        lines.append(f"| {row.limit} | {client} | {row.did.replace('|', '/')} | {said} |")
    return "\n".join(lines) + "\n"


def tidy(words: str) -> str:
    """A client's words without what differs from run to run, in one line of a table."""
    words = re.sub(r"http://127\.0\.0\.1:\d+", "http://localhost:8000", words)
    words = re.sub(r"req_[0-9a-f]+", "req_…", words)
    words = " ".join(words.split()).replace("|", "/")
    return words if len(words) <= _LONGEST else words[:_LONGEST] + "…"


def write(text: str, path: Path = PAGE) -> None:
    """Put the table into the page, between its two marks."""
    page = path.read_text("utf-8")
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path.name} has no place for the table")
    path.write_text(head + BEGIN + text + END + tail, "utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Real clients under limits.")
    parser.add_argument("only", nargs="*", help="run those whose limit and client have all these")
    parser.add_argument("--update", action="store_true", help="install the newest versions first")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
