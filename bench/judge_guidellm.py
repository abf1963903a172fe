"""guidellm: its command, its results, its definitions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from judge import (
    GUIDELLM_BIN,
    OFFLINE,
    PROMPT_TOKENS,
    TOKENIZER,
    Judge,
    Load,
    Metric,
    Verdict,
    ttft,
)
from judge_records import Served, mean, throughput, total_tokens


def _guidellm(load: Load, url: str, out: Path) -> list[str]:
    profile = (
        f"kind=concurrent,streams={load.streams}"
        if load.streams
        else f"kind=poisson,rate={load.rate:g}"
    )
    lengths = f"prompt_tokens={PROMPT_TOKENS},output_tokens={load.output_tokens}"
    target = f"target={url},model={load.model},request_format=/v1/chat/completions"
    return [
        *("run", "--backend", f"kind=openai_http,{target}"),
        *("--profile", profile, "--constraint", f"kind=max_requests,count={load.requests}"),
        *("--tokenizer", f"kind=hf_auto,model={TOKENIZER}"),
        *("--data", f"kind=synthetic_text,{lengths}"),
        *("--output", f"kind=json,path={out / 'result.json'}", "--disable-console"),
    ]


def _read_guidellm(load: Load, out: Path) -> Verdict:
    del load
    (benchmark,) = json.loads((out / "result.json").read_text("utf-8"))["benchmarks"]

    def of(name: str, which: str = "mean") -> float:
        found: float = benchmark["metrics"][name]["successful"][which]
        return found

    return Verdict(
        {
            "TTFT, mean": of("time_to_first_token_ms"),
            "TTFT, median": of("time_to_first_token_ms", "median"),
            "ITL, mean": of("inter_token_latency_ms"),
            "TPOT, mean": of("time_per_output_token_ms"),
            "E2E, mean": 1000 * of("request_latency"),
            "output tok/s": of("output_tokens_per_second"),
            "output tokens": of("output_token_count", "total_sum"),
        }
    )


def _itl_weighted(requests: Sequence[Served]) -> float:
    decoded = sum(request.decode_ms for request in requests)
    return decoded / sum(request.tokens - 1 for request in requests)


def _tpot_with_first(requests: Sequence[Served]) -> float:
    taken = sum(request.left_ms[-1] - request.received_ms for request in requests)
    return taken / sum(request.tokens for request in requests)


GUIDELLM_METRICS = (
    *ttft("headers begun to be written, to the first chunk with text"),
    Metric(
        *("ITL, mean", "ms", _itl_weighted),
        "(last − first token) / (n − 1) of a request, weighted by n − 1",
    ),
    Metric(
        *("TPOT, mean", "ms", _tpot_with_first),
        "(last token − request sent) / n, the first token's wait included, weighted by n",
    ),
    Metric(
        *("E2E, mean", "ms", mean(lambda r: r.ended_ms - r.received_ms)),
        "request sent to `[DONE]`",
    ),
    Metric(
        *("output tok/s", "tok/s", throughput(lambda r: r.ended_ms)),
        "all tokens, from the first request sent to the last `[DONE]`",
    ),
    Metric("output tokens", "", total_tokens, "as `usage` says"),
)

GUIDELLM = Judge(
    "guidellm",
    "guidellm",
    "guidellm",
    GUIDELLM_BIN / "guidellm",
    GUIDELLM_METRICS,
    _guidellm,
    _read_guidellm,
    OFFLINE,
)
