"""Real clients, unmodified, against a server that this starts: `make clients`.

Each has a task of its own and must complete it. Prints a table, and with --write puts it into
docs/clients.md. Exits with 1 where any client failed.

The clients are installed once, into clients/.installed, and kept; --update fetches the newest.
When they run, nothing but the loopback interface is there for them, where the system allows that
(root on Linux); elsewhere a proxy that leads nowhere is all they are told of.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import install
import isolation
from case import Case, Context, Skip
from coding_agents import AGENT_CASES
from libraries import LIBRARY_CASES

from paceline import testing

CASES: tuple[Case, ...] = (*LIBRARY_CASES, *AGENT_CASES)
PAGE = Path(__file__).parents[1] / "docs" / "clients.md"
_BEGIN, _END = "<!-- table: begin -->\n", "<!-- table: end -->"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    case: Case
    version: str
    result: str
    seconds: float
    note: str
    log: str = ""


def main() -> int:
    """Run what was asked for."""
    options = _options()
    chosen = [c for c in CASES if all(word in c.name for word in options.only)]
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    _install({case.package for case in chosen}, update=options.update)
    print("network: " + ("loopback alone" if isolation.cut_off() else "not cut off"))
    rows = []
    for case in chosen:
        rows.append(_run(case))
        row = rows[-1]
        print(f"{row.result:5} {row.seconds:6.1f} s  {case.name}  {row.note}", flush=True)
        if row.log:
            lines = [f"      {line[:160]}" for line in row.log.splitlines()[-12:]]
            print("\n".join(lines), flush=True)
    table = _table(rows)
    print("\n" + table)
    if options.write:
        _write(table)
    return 0 if all(row.result != "fails" for row in rows) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Real clients against a server of our own.")
    parser.add_argument("only", nargs="*", help="run those whose name has all these words")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--update", action="store_true", help="install the newest versions first")
    parser.add_argument("--write", action="store_true", help="put the table into docs/clients.md")
    return parser.parse_args()


def _install(packages: set[str], *, update: bool) -> None:
    python = packages & set(install.PYTHON_PACKAGES)
    print("installing what is not there yet into clients/.installed ...", flush=True)
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(install.install_python, p, update=update) for p in sorted(python)]
        if packages - python:
            waits.append(pool.submit(install.install_node, update=update))
        for wait in waits:
            wait.result()


def _run(case: Case) -> Row:
    with (
        tempfile.TemporaryDirectory(prefix="client-", ignore_cleanup_errors=True) as folder,
        testing.serve("instant", **case.settings) as server,
    ):
        context = Context(case, server, Path(folder))
        begun = time.monotonic()
        result, note, log = "ok", "", ""
        try:
            note = case.run(context)
        except Skip as skip:
            result, note = "not run", str(skip)
        except Exception as error:
            result, note = "fails", (str(error).splitlines() or [repr(error)])[0][:120]
            log = f"{''.join(traceback.format_exception(error)[-2:])}\n{context.output}"
        seconds = context.seconds or time.monotonic() - begun
    return Row(case, install.version_of(case.package), result, seconds, note, log)


def _table(rows: list[Row]) -> str:
    lines = [
        "| Client | Version | Endpoint | Transport | Model | Result | Seconds | What it did |",
        "|---|---|---|---|---|---|---:|---|",
    ]
    for row in rows:
        case = row.case
        lines.append(
            f"| {case.client} | {row.version} | {case.endpoint} | {case.transport} | {case.model} "
            f"| {row.result} | {row.seconds:.1f} | {row.note} |"
        )
    return "\n".join(lines) + "\n"


def _write(table: str) -> None:
    page = PAGE.read_text("utf-8")
    pattern = re.escape(_BEGIN) + ".*?" + re.escape(_END)
    PAGE.write_text(
        re.sub(pattern, lambda _: _BEGIN + table + _END, page, flags=re.DOTALL), "utf-8"
    )


if __name__ == "__main__":
    sys.exit(main())
