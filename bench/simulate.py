"""What a simulated request costs, from ten thousand to a million of them: CPU time and memory.

Runs `paceline simulate` in a process of its own for each number of requests, on a trace (any that
it reads) repeated as often as it takes; without one, on a made-up hour of a conversation's
lengths. `--check` exits 1 when a million take more than 30 s of one core or 500 MB, or when a
request of the million costs over 1.5 times one of the ten thousand.

    python bench/simulate.py trace.csv --profile gpu-40 --speedup 4
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from paceline.core.rng import lognormal, mix64
from paceline.simulation.traces import load_trace

SIZES = (0, 10_000, 100_000, 1_000_000)
MOST_S, MOST_MB, MOST_GROWTH = 30.0, 500.0, 1.5


@dataclass(frozen=True, slots=True)
class Cost:
    requests: int
    wall_s: float
    cpu_s: float
    peak_mb: float


def made_up_trace(path: Path) -> None:
    """An hour of 5.4 requests a second; prompts of some 1,000 tokens, answers of some 200."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for i in range(19_440):
        second, part = divmod(i * 3600 * 10_000_000 // 19_440, 10_000_000)
        minute, second = divmod(second, 60)
        prompt = 1 + round(lognormal(mix64(i), 900, 2000))
        output = 1 + round(lognormal(mix64(~i), 160, 400))
        lines.append(f"2026-01-01 00:{minute:02}:{second:02}.{part:07},{prompt},{output}")
    path.write_text("\n".join(lines) + "\n", "utf-8")


def measure(trace: Path, in_trace: int, requests: int, options: list[str]) -> Cost:
    """One run, in a process of its own on one core; 0 requests: what starting up costs."""
    args = [sys.executable, "-m", "paceline", "simulate", "--trace", str(trace), "--json"]
    args += ["--limit", str(max(requests, 1)), "--repeat", str(requests // in_trace + 1), *options]
    out = os.open(os.devnull, os.O_WRONLY)
    started = time.perf_counter()
    child = os.fork()
    if not child:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        os.dup2(out, 1)
        os.execv(sys.executable, args)
    _, status, used = os.wait4(child, 0)
    wall_s = time.perf_counter() - started
    os.close(out)
    if status:
        sys.exit(f"{' '.join(args)} failed")
    kilo = 1024.0 if sys.platform != "darwin" else 1024.0 * 1024.0
    return Cost(requests, wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / kilo)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--profile", default="gpu-40")
    parser.add_argument("--speedup", default="4", help="4 fills a quarter of gpu-40's slots")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    options = ["--profile", asked.profile, "--speedup", asked.speedup]
    options += ["--slo", "ttft:2000,tpot:50"]
    with tempfile.TemporaryDirectory() as folder:
        trace = asked.trace or Path(folder) / "trace.csv"
        if asked.trace is None:
            made_up_trace(trace)
        in_trace = len(load_trace(trace)[0])
        costs = [measure(trace, in_trace, size, options) for size in SIZES]
    idle, *runs = costs
    print("| requests | wall s | CPU s | µs a request | peak MB |")
    print("|---:|---:|---:|---:|---:|")
    each = []
    for run in runs:
        each.append((run.cpu_s - idle.cpu_s) / run.requests * 1e6)
        figures = f"{run.wall_s:.2f} | {run.cpu_s:.2f} | {each[-1]:.1f} | {run.peak_mb:.0f}"
        print(f"| {run.requests:,} | {figures} |")
    print(f"\nStarting up and reading the trace: {idle.cpu_s:.2f} s, {idle.peak_mb:.0f} MB.")
    most = runs[-1]
    missed = most.cpu_s > MOST_S or most.peak_mb > MOST_MB or each[-1] > MOST_GROWTH * each[0]
    if missed:
        print(f"Missed: {MOST_S:g} s, {MOST_MB:g} MB, {MOST_GROWTH:g} times.")
    return int(missed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
