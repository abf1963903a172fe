"""The results as JSON and as Markdown tables."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from points import Figures, Point

HEADINGS = {
    "streams": "streams",
    "started": "started",
    "failed": "failed",
    "tok_per_s_steady": "tok/s in all",
    "rate_off_median_pct": "off, median %",
    "rate_off_worst_pct": "off, worst %",
    "rate_median": "tok/s",
    "ttft_p50_ms": "TTFT p50 ms",
    "ttft_off_ms": "TTFT off ms",
    "gap_off_p50_ms": "gap off p50 ms",
    "gap_off_p99_ms": "gap off p99 ms",
    "gap_max_ms": "gap max ms",
    "tokens_per_recv": "tokens a read",
    "server_cpu_steady": "server cores",
    "server_cpu": "server cores",
    "client_cpu": "client cores",
    "tok_per_s": "tok/s",
    "requests_per_s": "requests/s",
    "latency_p50_ms": "p50 ms",
    "latency_p99_ms": "p99 ms",
    "waiting": "waiting",
    "server_rss_idle_mb": "idle RSS MB",
    "server_pss_idle_mb": "idle PSS MB",
    "pss_per_stream_kb": "PSS a stream kB",
    "rss_per_stream_kb": "RSS a stream kB",
    "server_cpu_waiting": "server cores",
    "unanswered": "unanswered",
    "slowest_round_s": "slowest round s",
    "fds_left": "fds left",
    "pss_growth_mb": "PSS growth MB",
    "server_cpu_afterwards": "cores afterwards",
}
#: Above this share of the two cores used by others, a table says so.
NOISE_CORES = 0.1


@dataclass(frozen=True)
class Result:
    """One server at one point. ``error`` says why there are no runs, or None."""

    point: str
    server: str
    runs: list[Figures]
    median: Figures
    missed: list[str]
    """The limits the median run doesn't keep."""
    error: str | None = None


def number(value: float | None) -> str:
    """Three significant digits or more, thousands separated; ``-`` for None."""
    if value is None:
        return "-"
    if abs(value) >= 10_000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 99.95 else f"{value:.3g}"


def _cell(result: Result, key: str) -> str:
    middle = number(result.median.get(key))
    values = [v for run in result.runs if (v := run.get(key)) is not None]
    if len(values) < 2 or number(min(values)) == number(max(values)):
        return middle
    return f"{middle} ({number(min(values))} to {number(max(values))})"


def table(point: Point, results: Iterable[Result], titles: dict[str, str]) -> str:
    """One point as a Markdown table: a row a server, median (least to most) of its runs."""
    results = list(results)
    lines = [
        f"### {point.name}: {point.title}",
        "",
        "| server | " + " | ".join(HEADINGS.get(c, c) for c in point.columns) + " | limits |",
        "|---" * (len(point.columns) + 2) + "|",
    ]
    for result in results:
        if result.error is not None:
            cells = ["-"] * len(point.columns)
            verdict = result.error.splitlines()[0]
        else:
            cells = [_cell(result, column) for column in point.columns]
            verdict = "missed: " + ", ".join(result.missed) if result.missed else "kept"
        lines.append(f"| {titles[result.server]} | " + " | ".join(cells) + f" | {verdict} |")
    taken = max((run["others_cores"] or 0 for r in results for run in r.runs), default=0)
    if taken > NOISE_CORES:
        lines += ["", f"Other processes took up to {taken:.2g} of the two cores meanwhile."]
    return "\n".join(lines) + "\n"


def machine() -> dict[str, str | int]:
    """What the figures were measured on, without naming the machine."""
    cpu = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    return {
        "cpu": cpu,
        "cores": os.cpu_count() or 0,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def as_json(results: Iterable[Result]) -> dict[str, object]:
    return {"machine": machine(), "results": [asdict(result) for result in results]}
