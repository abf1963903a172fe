"""What is measured: the points, the limits they are held to, and how a client is run."""

from __future__ import annotations

import json
import operator
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from servers import BENCH, Pace, Running

#: One run's figures as the client printed them; None where there is nothing to say.
Figures = dict[str, float | None]

CLIENT = BENCH / "build" / "client"
TTFT_HEADER = "X-Paceline-TTFT-Ms"
#: Time a run may take beyond what its tokens need, before it is cut.
SLACK_S = 10.0
COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
}


@dataclass(frozen=True)
class Limit:
    """``key`` of the median run must stand in relation ``op`` to ``value``."""

    key: str
    op: str
    value: float

    def holds(self, figures: Figures) -> bool:
        measured = figures.get(self.key)
        return measured is not None and COMPARE[self.op](measured, self.value)

    def __str__(self) -> str:
        return f"{self.key} {self.op} {self.value:g}"


@dataclass(frozen=True)
class Point:
    name: str
    title: str
    model: str
    columns: tuple[str, ...]
    """The client's figures shown in the table."""
    mode: str = "stream"
    rate: float | None = None
    """Tokens a second asked of each stream; None: unpaced."""
    streams: int = 1
    max_tokens: int = 100
    ttft_ms: float | None = None
    """Sent in the header, and what the measured TTFT is compared with."""
    extra: tuple[str, ...] = ()
    """More arguments for the client."""
    repeats: int | None = None
    """Overrides the number of repeats."""
    limits: tuple[Limit, ...] = field(default=())
    skip: frozenset[str] = field(default=frozenset())
    """Servers for which the point means nothing."""

    @property
    def pace(self) -> Pace:
        ttft = self.ttft_ms if self.ttft_ms is not None else (20.0 if self.rate else 0.0)
        return Pace(self.rate, ttft, self.max_tokens)


def cpu_seconds(pid: int) -> tuple[float, float]:
    """CPU seconds so far of all cores this process may use, and of ``pid`` and our children."""
    hertz = os.sysconf("SC_CLK_TCK")
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    busy = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name in cores:
            user, nice, system, _idle, _iowait, *rest = map(int, ticks[:8])
            busy += user + nice + system + sum(rest)
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours = (int(fields[11]) + int(fields[12])) / hertz + children.ru_utime + children.ru_stime
    return busy / hertz, ours


def run_client(point: Point, server: Running, cpu: int, streams: int | None = None) -> Figures:
    """One run of the client; ``RuntimeError`` when it fails."""
    command = [
        *(str(CLIENT), point.mode, "--port", str(server.port), "--cpu", str(cpu)),
        *("--server-pid", str(server.pid), "--model", server.server.model(point.model, point.pace)),
        *("--streams", str(streams or point.streams), "--max-tokens", str(point.max_tokens)),
        *point.extra,
    ]
    if point.mode == "stream" and point.rate is not None:
        timeout_s = point.max_tokens / point.rate + point.pace.ttft_ms / 1000 + SLACK_S
        command += ["--target", f"{point.rate:g}", "--timeout", f"{timeout_s:g}"]
    if point.ttft_ms is not None:
        command += ["--header", f"{TTFT_HEADER}: {point.ttft_ms:g}"]
    began, before = time.monotonic(), cpu_seconds(server.pid)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    elapsed, after = time.monotonic() - began, cpu_seconds(server.pid)
    if done.returncode != 0:
        raise RuntimeError(f"client: {done.stderr.strip()}")
    raw: dict[str, float | str | None] = json.loads(done.stdout)
    figures: Figures = {k: v for k, v in raw.items() if not isinstance(v, str)}
    # Ticks of 10 ms: over a short run the difference may come out a little under zero.
    others = (after[0] - before[0]) - (after[1] - before[1])
    figures["others_cores"] = max(0.0, others / elapsed)
    return _derive(point, figures)


def _derive(point: Point, figures: Figures) -> Figures:
    """Add the figures the client can't know."""
    ttft = figures.get("ttft_p50_ms")
    if point.ttft_ms is not None and ttft is not None:
        figures["ttft_off_ms"] = abs(ttft - point.ttft_ms)
    first, after = figures.get("server_pss_first_round_mb"), figures.get("server_pss_after_mb")
    if first is not None and after is not None:
        figures["pss_growth_mb"] = after - first
    held, idle = figures.get("server_fds_after"), figures.get("server_fds_before")
    if held is not None and idle is not None:
        figures["fds_left"] = held - idle
    return figures


def median_run(runs: list[Figures]) -> Figures:
    """The median of each figure over the runs; None when any run lacks it."""
    middle: Figures = {}
    for key in runs[0]:
        values = [v for run in runs if (v := run.get(key)) is not None]
        middle[key] = statistics.median(values) if len(values) == len(runs) else None
    return middle


_CROWD = (
    *("started", "failed", "tok_per_s_steady", "rate_off_median_pct", "rate_off_worst_pct"),
    *("ttft_p50_ms", "gap_off_p99_ms", "tokens_per_recv", "server_cpu_steady"),
)
_SINGLE = ("rate_median", "rate_off_median_pct", "gap_off_p50_ms", "gap_off_p99_ms", "gap_max_ms")


def _crowd_limits(streams: int) -> tuple[Limit, ...]:
    return (
        Limit("started", "==", streams),
        Limit("wrong_token_count", "==", 0),
        Limit("tok_per_s_steady", ">=", 445_500),
        Limit("rate_off_worst_pct", "<=", 1),
        Limit("server_cpu_steady", "<=", 0.8),
    )


_SINGLE_LIMITS = (
    Limit("wrong_token_count", "==", 0),
    Limit("rate_off_median_pct", "<=", 0.1),
    Limit("gap_off_p99_ms", "<=", 0.3),
)

#: The capacity ladder: streams at 750 tok/s, tried upwards until one stream is over 1 % off.
LADDER = (25, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1000, 1500, 2000, 2500, 3000, 3500, 4000)
CAPACITY_LIMITS = (
    Limit("failed", "==", 0),
    Limit("cut_by_timeout", "==", 0),
    Limit("wrong_token_count", "==", 0),
    Limit("rate_off_worst_pct", "<=", 1),
)
CAPACITY = "capacity"

POINTS: tuple[Point, ...] = (
    Point(
        "wafer-600",
        "600 streams at 750 tok/s",
        "wafer-600",
        _CROWD,
        rate=750,
        streams=600,
        max_tokens=7500,
        limits=_crowd_limits(600),
    ),
    Point(
        "responses-600",
        "600 streams at 750 tok/s through /v1/responses",
        "wafer-600",
        _CROWD,
        rate=750,
        streams=600,
        max_tokens=7500,
        extra=("--responses",),
        limits=_crowd_limits(600),
        skip=frozenset({"naive", "sse-starlette", "guidellm", "floor"}),
    ),
    Point(
        "b300-340",
        "1,324 streams at 340 tok/s",
        "b300-340",
        _CROWD,
        rate=340,
        streams=1324,
        max_tokens=3400,
        limits=_crowd_limits(1324),
    ),
    Point(
        CAPACITY,
        "the most streams at 750 tok/s, none over 1 % off",
        "flat-750",
        ("streams", *_CROWD[2:]),
        rate=750,
        max_tokens=6000,
        extra=("--connect-rate", "2000"),
        repeats=1,
        limits=(Limit("streams", ">=", 2000),),
    ),
    Point(
        "single-1000",
        "one stream at 1,000 tok/s",
        "flat-1000",
        (*_SINGLE, "ttft_off_ms"),
        rate=1000,
        max_tokens=2000,
        ttft_ms=50,
        repeats=5,
        limits=(*_SINGLE_LIMITS, Limit("ttft_off_ms", "<=", 2)),
    ),
    Point(
        "single-spark",
        "one stream at 1,000 tok/s, as the profile says",
        "spark-1000",
        _SINGLE,
        rate=1000,
        max_tokens=2000,
        repeats=5,
        limits=_SINGLE_LIMITS,
    ),
    Point(
        "single-750",
        "one stream at 750 tok/s",
        "flat-750",
        (*_SINGLE, "ttft_off_ms"),
        rate=750,
        max_tokens=1500,
        ttft_ms=50,
        repeats=5,
        limits=(*_SINGLE_LIMITS, Limit("ttft_off_ms", "<=", 2)),
    ),
    Point(
        "flat-64",
        "64 streams at 750 tok/s",
        "flat-750",
        (*_CROWD, "ttft_off_ms"),
        rate=750,
        streams=64,
        max_tokens=3750,
        ttft_ms=50,
        limits=(
            Limit("started", "==", 64),
            Limit("rate_off_worst_pct", "<=", 1),
            Limit("gap_off_p99_ms", "<=", 1),
        ),
    ),
    Point(
        "flat-40",
        "10,000 streams at 40 tok/s for 30 s",
        "flat-40",
        _CROWD,
        rate=40,
        streams=10_000,
        max_tokens=1200,
        extra=("--connect-rate", "2000"),
        limits=(
            Limit("started", "==", 10_000),
            Limit("wrong_token_count", "==", 0),
            Limit("rate_off_median_pct", "<=", 0.5),
            Limit("rate_off_worst_pct", "<=", 2),
        ),
    ),
    Point(
        "instant",
        "unpaced, 16 clients, each streaming 1,000 tokens over and over",
        "instant",
        ("tok_per_s", "requests_per_s", "failed", "latency_p50_ms", "server_cpu", "client_cpu"),
        mode="closed",
        streams=16,
        max_tokens=1000,
        limits=(Limit("failed", "==", 0),),
    ),
    Point(
        "rps",
        "unpaced, 16 connections, non-streaming requests of 16 tokens",
        "instant",
        ("requests_per_s", "latency_p50_ms", "latency_p99_ms", "failed", "server_cpu"),
        mode="rps",
        streams=16,
        max_tokens=16,
        limits=(Limit("failed", "==", 0),),
    ),
    Point(
        "idle",
        "1,000 streams waiting for their first token",
        "flat-40",
        (
            *("waiting", "server_rss_idle_mb", "server_pss_idle_mb", "pss_per_stream_kb"),
            *("rss_per_stream_kb", "server_cpu_waiting"),
        ),
        mode="idle",
        rate=40,
        streams=1000,
        ttft_ms=60_000,
        extra=("--connect-rate", "2000"),
        limits=(Limit("waiting", "==", 1000), Limit("started", "==", 0)),
    ),
    Point(
        "cut",
        "20 times 1,000 streams, closed abruptly after their first token",
        "flat-40",
        (
            *("started", "failed", "unanswered", "slowest_round_s", "fds_left", "pss_growth_mb"),
            "server_cpu_afterwards",
        ),
        mode="cut",
        rate=40,
        streams=1000,
        max_tokens=2000,
        extra=("--rounds", "20"),
        limits=(
            Limit("started", "==", 20_000),
            Limit("fds_left", "<=", 2),
            Limit("pss_growth_mb", "<=", 10),
            Limit("server_cpu_afterwards", "<=", 0.1),
        ),
    ),
)
