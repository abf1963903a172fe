"""Whether two Locust workers measure what one process does: the same scenario, the same server.

Starts a server, runs the package's locustfile in turns as one process and as a master with workers
on this machine, each run with the same loops, and prints how far the workers' figures are from the
one process's: of each figure the median over the turns.

    python bench/locust_workers.py
    python bench/locust_workers.py --users 32 --model gpu-40 --turns 5 --check
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from replay import HOST, running

from paceline_loadtest.statistics import Spread

ROOT = Path(__file__).resolve().parent.parent
LOCUSTFILE = ROOT / "loadtest/paceline_loadtest/scale/locustfile.py"
LIMIT = 0.03

SCENARIO = """
title = "Short turns and a tool, so that a run takes seconds"
dialect = "chat"

[prompt]
system_tokens = 300

[[stages]]
name = "plan"
new_tokens = 50
output_tokens = 150

[[stages]]
name = "work"
turns = 3
output_tokens = { median = 120, p90 = 250, max = 600 }

[[stages.tools]]
name = "look"
seconds = { median = 0.1, p90 = 0.3, max = 1 }
result_tokens = 200
"""

KINDS = {"TTFT": "ttft_s", "TPOT": "tpot_s", "E2E": "e2e_s"}
PERCENTS = (50, 90, 99)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def figures(calls: list[dict[str, float | None]]) -> dict[str, float]:
    """Seconds, and tokens a second."""
    found: dict[str, float] = {}
    for name, key in KINDS.items():
        spread = Spread.of(call[key] for call in calls)
        if spread is None:
            raise SystemExit(f"no call has a {name}")
        found[f"{name} mean"] = spread.mean
        for percent in PERCENTS:
            found[f"{name} p{percent}"] = spread.percentile(percent)
    ended = max(call["ended"] or 0.0 for call in calls)
    span = ended - min(call["began"] or ended for call in calls)
    found["tokens a second"] = sum(call["output_tokens"] or 0 for call in calls) / span
    return found


def locust(options: argparse.Namespace, url: str, folder: Path, workers: int) -> dict[str, float]:
    """One run; without workers in one process."""
    out = folder / "figures.json"
    out.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "locust",
        "-f",
        str(LOCUSTFILE),
    ]
    port = str(free_port())
    test = [
        "--host", url, "--headless", "--users", str(options.users),
        "--spawn-rate", str(options.users), "--scenario", str(folder / "short.toml"),
        "--model", options.model, "--loops", str(options.loops), "--figures", str(out),
        "--only-summary",
    ]  # fmt: skip
    helpers = []
    if workers:
        test += ["--master", "--master-bind-host", HOST, "--master-bind-port", port]
        test += ["--expect-workers", str(workers)]
        join = ["--worker", "--master-host", HOST, "--master-port", port]
        helpers = [
            subprocess.Popen([*command, *join], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
            for _ in range(workers)
        ]
    try:
        done = subprocess.run([*command, *test], capture_output=True, text=True, check=False)
    finally:
        for helper in helpers:
            helper.terminate()
            helper.wait()
    if not out.exists():
        raise SystemExit(f"locust failed:\n{done.stdout}\n{done.stderr}")
    calls = json.loads(out.read_text("utf-8"))
    failed = [call["error"] for call in calls if call["error"]]
    if failed:
        raise SystemExit(f"{len(failed)} calls failed: {failed[0]}")
    return figures(calls)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="wafer-750")
    parser.add_argument("--users", type=int, default=16, help="a multiple of the workers")
    parser.add_argument("--loops", type=int, default=3, help="of each user")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="exit 1 for a figure over 3 %% off")
    options = parser.parse_args()
    if options.users % options.workers:
        parser.error("--users must be a multiple of --workers: else the workers run other loops")
    one: list[dict[str, float]] = []
    many: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name, running("serve") as server:
        folder, url = Path(name), f"http://{HOST}:{server}/v1"
        (folder / "short.toml").write_text(SCENARIO, "utf-8")
        locust(options, url, folder, 0)  # warms the server up
        for turn in range(options.turns):
            for workers, kept in ((0, one), (options.workers, many)):
                begun = time.monotonic()
                kept.append(locust(options, url, folder, workers))
                took = time.monotonic() - begun
                print(f"turn {turn + 1}, {workers} workers: {took:.1f} s", file=sys.stderr)
    print(f"\n{options.model}, {options.users} users, {options.loops} loops each,", end=" ")
    print(f"medians of {options.turns} turns\n")
    print(f"| figure | 1 process | {options.workers} workers | difference |\n|---|---|---|---|")
    worst = 0.0
    for figure in one[0]:
        a, b = (median(run[figure] for run in runs) for runs in (one, many))
        off = b / a - 1.0
        worst = max(worst, abs(off))
        unit, scale = ("", 1.0) if figure == "tokens a second" else (" ms", 1e3)
        print(f"| {figure} | {a * scale:.3f}{unit} | {b * scale:.3f}{unit} | {off:+.2%} |")
    print(f"\nThe largest difference is {worst:.2%}; 3 % is the aim.")
    return int(options.check and worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
