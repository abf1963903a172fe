"""Measure Paceline beside its peers: ``python bench/run.py --help``.

Each server is held to one core and the client to another. Every point prints a Markdown
table as soon as it is done; ``--json`` keeps every figure of every run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from points import (
    CAPACITY,
    CAPACITY_LIMITS,
    CLIENT,
    LADDER,
    POINTS,
    Figures,
    Limit,
    Point,
    median_run,
    run_client,
)
from report import Result, as_json, table
from servers import (
    BENCH,
    CLIENT_CPU,
    SERVER_CPU,
    Running,
    Server,
    catalogue,
    running,
    wait_until_quiet,
)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _missed(limits: tuple[Limit, ...], figures: Figures) -> list[str]:
    return [str(limit) for limit in limits if not limit.holds(figures)]


def _repeat(point: Point, live: Running, repeats: int) -> list[Figures]:
    runs = []
    for i in range(repeats):
        _say(f"  {point.name} on {live.server.name}: run {i + 1} of {repeats}")
        wait_until_quiet(live.pid)
        runs.append(run_client(point, live, CLIENT_CPU))
    return runs


def _holds(point: Point, live: Running, streams: int) -> tuple[bool, Figures]:
    """Whether ``streams`` is within capacity.

    A miss is tried once more: the machine's own noise can put one of thousands over the limit.
    """
    figures: Figures = {}
    for _ in range(2):
        wait_until_quiet(live.pid)
        figures = run_client(point, live, CLIENT_CPU, streams)
        missed = _missed(CAPACITY_LIMITS, figures)
        _say(f"  {point.name} on {live.server.name}: {streams} streams, {missed or 'held'}")
        if not missed:
            return True, figures
    return False, figures


def _climb(point: Point, live: Running) -> list[Figures]:
    """The highest rung that holds; down from the start when that already breaks."""
    at = LADDER.index(live.server.capacity_start)
    held, best = _holds(point, live, LADDER[at])
    if held:
        for streams in LADDER[at + 1 :]:
            held, figures = _holds(point, live, streams)
            if not held:
                break
            best = figures
        return [best]
    for streams in reversed(LADDER[:at]):
        held, figures = _holds(point, live, streams)
        if held:
            return [figures]
    return [{"streams": 0, "others_cores": best["others_cores"]}]


def measure(point: Point, server: Server, repeats: int) -> Result:
    """Start the server, run the point, stop it. A failure becomes the result's ``error``."""
    try:
        with running(server, point.model, point.pace, SERVER_CPU) as live:
            if point.name == CAPACITY:
                runs = _climb(point, live)
            else:
                runs = _repeat(point, live, point.repeats or repeats)
    except (RuntimeError, OSError) as error:
        _say(f"  {point.name} on {server.name}: {error}")
        return Result(point.name, server.name, [], {}, [], str(error))
    middle = median_run(runs)
    return Result(point.name, server.name, runs, middle, _missed(point.limits, middle))


def _chosen(text: str, known: list[str], what: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no such {what}: {', '.join(unknown)} (known: {', '.join(known)})")
    return names


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    points = ",".join(point.name for point in POINTS)
    parser.add_argument("--only", default=points, help=f"points, of {points}")
    parser.add_argument(
        "--servers", default="paceline,naive,guidellm", help="of paceline,naive,guidellm,floor"
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs a point (default 3)")
    parser.add_argument("--json", type=Path, help="write every figure of every run here")
    parser.add_argument("--paceline-args", default="", help="more arguments for paceline serve")
    parser.add_argument(
        "--check", action="store_true", help="exit 1 when paceline misses a limit or fails"
    )
    return parser.parse_args()


def main() -> int:
    options = _arguments()
    # Leave through the context managers, or a server would outlive the run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    servers = catalogue(options.paceline_args)
    chosen = _chosen(options.servers, list(servers), "server")
    names = _chosen(options.only, [point.name for point in POINTS], "point")
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("two cores are needed: one for the server, one for the client")
    if options.repeats < 1:
        raise SystemExit("--repeats must be at least 1")
    if not CLIENT.exists():
        subprocess.run(["make", "--silent", "-C", str(BENCH)], check=True)

    titles = {name: server.title for name, server in servers.items()}
    results: list[Result] = []
    for point in (p for p in POINTS if p.name in names):
        found = [
            measure(point, servers[name], options.repeats)
            for name in chosen
            if name not in point.skip
        ]
        results += found
        print(table(point, found, titles), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(as_json(results), indent=1) + "\n")
    ours = [r for r in results if r.server == "paceline" and (r.missed or r.error is not None)]
    return 1 if options.check and ours else 0


if __name__ == "__main__":
    sys.exit(main())
