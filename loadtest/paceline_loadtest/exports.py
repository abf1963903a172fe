"""A run's results as files that other commands read: points to fit, a trace to simulate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paceline_loadtest.model import Call
from paceline_loadtest.report import Results, TargetRun
from paceline_loadtest.statistics import calls_of, tpot, ttft

_MOST_CACHED = 0.02
"""A fit's benchmark prefills whole prompts; with more than this from a cache it isn't one."""


def points(results: Results) -> list[dict[str, Any]]:
    """One measured point a target, in the form of `vllm bench serve`, which `paceline fit` reads.

    Left out are targets without a whole answer of two tokens, and those whose prompts came from a
    prefix cache.
    """
    found = (_point(run) for run in results.targets)
    return [point for point in found if point is not None]


def _point(run: TargetRun) -> dict[str, Any] | None:
    whole = [c for c in calls_of(run.loops) if c.ok and c.prompt_tokens and tpot(c) is not None]
    prompts = sum(c.prompt_tokens or 0 for c in whole)
    if not whole or sum(c.cached_tokens or 0 for c in whole) > _MOST_CACHED * prompts:
        return None
    span = max(c.end_at or 0.0 for c in whole) - min(c.scheduled_at for c in whole)
    return {
        "model_id": run.target.label,
        "completed": len(whole),
        "total_input_tokens": prompts,
        "total_output_tokens": sum(c.output_tokens or 0 for c in whole),
        "mean_ttft_ms": _mean_ms([ttft(c) for c in whole]),
        "mean_tpot_ms": _mean_ms([tpot(c) for c in whole]),
        "max_concurrency": run.users,
        "request_throughput": len(whole) / span if span > 0 else 0.0,
    }


def _mean_ms(found: list[float | None]) -> float:
    known = [value for value in found if value is not None]
    return 1e3 * sum(known) / len(known) if known else 0.0


def add_points(results: Results, path: Path) -> int:
    """Append the points to a file of JSON Lines; returns how many. Raises OSError."""
    lines = [json.dumps(point) for point in points(results)]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return len(lines)


def write_trace(results: Results, path: Path) -> int:
    """Write the requests of the first target as a trace; returns how many. Raises OSError."""
    runs = results.targets[0].loops if results.targets else []
    calls = [c for c in calls_of(runs) if c.prompt_tokens and c.output_tokens]
    with path.open("w", encoding="utf-8") as file:
        for call in sorted(calls, key=_arrival):
            line = {
                "at_s": round(_arrival(call), 6),
                "prompt_tokens": call.prompt_tokens,
                "output_tokens": call.output_tokens,
            }
            file.write(json.dumps(line) + "\n")
    return len(calls)


def _arrival(call: Call) -> float:
    return call.scheduled_at if call.sent_at is None else call.sent_at
