"""vLLM's bench: its command, its results, its definitions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from judge import (
    GAPS,
    GUIDELLM_BIN,
    ID_PREFIX,
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
from judge_records import Served, mean, throughput, total_tokens


def _vllm(load: Load, url: str, out: Path) -> list[str]:
    arrivals = (
        ["--max-concurrency", str(load.streams), "--num-warmups", str(load.streams)]
        if load.streams
        else ["--request-rate", f"{load.rate:g}"]
    )
    return [
        *("bench", "serve", "--backend", "openai-chat", "--base-url", url),
        *("--endpoint", "/v1/chat/completions", "--model", load.model),
        *("--tokenizer", str(TOKENIZER), "--dataset-name", "random"),
        *("--random-input-len", str(PROMPT_TOKENS)),
        *("--random-output-len", str(load.output_tokens), "--ignore-eos"),
        *("--num-prompts", str(load.requests), *arrivals, "--ready-check-timeout-sec", "0"),
        *("--request-id-prefix", ID_PREFIX, "--percentile-metrics", "ttft,tpot,itl,e2el"),
        *("--save-result", "--save-detailed"),
        *("--result-filename", str(out / "result.json")),
    ]


def _read_vllm(load: Load, out: Path) -> Verdict:
    result = json.loads((out / "result.json").read_text("utf-8"))
    lasted = zip(result["start_times"], result["latencies"], strict=True)
    span_s = max(start + latency for start, latency in lasted) - min(result["start_times"])
    return Verdict(
        {
            "TTFT, mean": result["mean_ttft_ms"],
            "TTFT, median": result["median_ttft_ms"],
            "TPOT, mean": result["mean_tpot_ms"],
            "ITL, mean": result["mean_itl_ms"],
            "gap, p99": result["p99_itl_ms"],
            "E2E, mean": result["mean_e2el_ms"],
            "output tok/s": result["total_output_tokens"] / span_s,
            "output tok/s of its run": result["output_throughput"],
            "output tokens": result["total_output_tokens"],
        },
        frozenset(f"{ID_PREFIX}{i}" for i in range(load.requests)),
    )


def _mean_gap(requests: Sequence[Served]) -> float:
    gaps = [gap for request in requests for gap in request.gaps_ms]
    return sum(gaps) / len(gaps)


VLLM_METRICS = (
    *ttft("request begun, connecting included, to the first chunk with text"),
    Metric(
        *("TPOT, mean", "ms", mean(per_token)),
        "(E2E − TTFT) / (n − 1) of a request, mean over requests",
    ),
    Metric("ITL, mean", "ms", _mean_gap, "between two chunks with text, all requests together"),
    GAPS,
    Metric(
        *("E2E, mean", "ms", mean(to_last_token)),
        "request sent to the last chunk with text",
    ),
    Metric(
        *("output tok/s", "tok/s", throughput(lambda r: r.left_ms[-1])),
        "its `total_output_tokens` over its own span, from the least of `start_times` to the last "
        "chunk with text",
    ),
    Metric(
        *("output tok/s of its run", "tok/s", throughput(lambda r: r.left_ms[-1])),
        "the line in its report: the same tokens over the whole run, the wait for the first "
        "arrival and the winding up included",
        held=False,
    ),
    Metric("output tokens", "", total_tokens, "as `usage` says"),
)

VLLM = Judge(
    "vllm",
    "vllm bench serve",
    "vllm",
    GUIDELLM_BIN / "vllm",
    VLLM_METRICS,
    _vllm,
    _read_vllm,
    {**OFFLINE, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"},
)
