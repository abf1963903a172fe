"""AIPerf: its command, its results, its definitions."""

from __future__ import annotations

import json
from pathlib import Path

from judge import (
    AIPERF_BIN,
    GAPS,
    OFFLINE,
    PROMPT_TOKENS,
    TOKENIZER,
    Judge,
    Load,
    Metric,
    Verdict,
    per_token,
    to_last_token,
    ttft,
)
from judge_records import mean, throughput, total_tokens


def _aiperf(load: Load, url: str, out: Path) -> list[str]:
    arrivals = (
        ["--concurrency", str(load.streams), "--warmup-request-count", str(load.streams)]
        if load.streams
        else ["--request-rate", f"{load.rate:g}", "--arrival-pattern", "poisson"]
    )
    return [
        *("profile", "--model", load.model, "--url", url, "--endpoint-type", "chat"),
        *("--streaming", "--tokenizer", "builtin", *arrivals),
        *("--request-count", str(load.requests)),
        *("--synthetic-input-tokens-mean", str(PROMPT_TOKENS)),
        *("--output-tokens-mean", str(load.output_tokens), "--extra-inputs", "ignore_eos:true"),
        *("--output-artifact-dir", str(out), "--ui-type", "none"),
    ]


def _read_aiperf(load: Load, out: Path) -> Verdict:
    del load
    totals = json.loads((out / "profile_export_aiperf.json").read_text("utf-8"))
    lines = (out / "profile_export.jsonl").read_text("utf-8").splitlines()
    about = [json.loads(line)["metadata"] for line in lines]
    tokens = totals["total_output_tokens"]["avg"]
    return Verdict(
        {
            "TTFT, mean": totals["time_to_first_token"]["avg"],
            "TTFT, median": totals["time_to_first_token"]["p50"],
            "ITL, mean": totals["inter_token_latency"]["avg"],
            "gap, p99": totals["inter_chunk_latency"]["p99"],
            "E2E, mean": totals["request_latency"]["avg"],
            "output tok/s": tokens / totals["benchmark_duration"]["avg"],
            "output tok/s of its phase": totals["output_token_throughput"]["avg"],
            "output tokens": tokens,
        },
        frozenset(m["x_request_id"] for m in about if m["benchmark_phase"] == "profiling"),
    )


AIPERF_METRICS = (
    *ttft("request begun, connecting included, to the first chunk with text"),
    Metric(
        *("ITL, mean", "ms", mean(per_token)),
        "(E2E − TTFT) / (n − 1) of a request, mean over requests",
    ),
    GAPS,
    Metric(
        *("E2E, mean", "ms", mean(to_last_token)),
        "request sent to the last chunk with text",
    ),
    Metric(
        *("output tok/s", "tok/s", throughput(lambda r: r.left_ms[-1])),
        "its `total_output_tokens` over its `benchmark_duration`, which is from the first request "
        "sent to the last chunk with text",
    ),
    Metric(
        *("output tok/s of its phase", "tok/s", throughput(lambda r: r.left_ms[-1])),
        "the line in its report: the same tokens over the whole phase, the wait for the first "
        "arrival included",
        held=False,
    ),
    Metric("output tokens", "", total_tokens, "counted by its own `o200k_base`"),
)

AIPERF = Judge(
    "aiperf",
    "AIPerf",
    "aiperf",
    AIPERF_BIN / "aiperf",
    AIPERF_METRICS,
    _aiperf,
    _read_aiperf,
    {**OFFLINE, "TIKTOKEN_CACHE_DIR": str(TOKENIZER)},
)
