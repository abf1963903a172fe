"""The judges: how each is told what to measure, and what its figures mean.

A metric says in words what the judge measures, and how the same figure follows from the server's
records. What only the judge can see, its own delay in reading and the way to it, is the difference.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge_records import Own, Served, mean, median, throughput, total_tokens, worst_hundredth

# From the project's folder, where the judges are run, so that the commands can be shown.
GUIDELLM_BIN = Path("bench/.venv-guidellm/bin")
AIPERF_BIN = Path("bench/.venv-aiperf/bin")
RESULTS = Path("bench/out/judges")
TOKENIZER = RESULTS / "tokenizer"
PROMPT_TOKENS = 128
ID_PREFIX = "judged-"


@dataclass(frozen=True)
class Load:
    """Requests for one profile: `streams` at a time, or `rate` a second at random moments."""

    name: str
    title: str
    model: str
    requests: int
    output_tokens: int
    streams: int | None = None
    rate: float | None = None


@dataclass(frozen=True)
class Verdict:
    """A judge's figures by metric, and the ids of what it counted (None: all that it sent)."""

    figures: Mapping[str, float]
    ids: frozenset[str] | None = None


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    own: Own
    meaning: str
    """The judge's definition."""
    held: bool = True
    """Whether it must agree; else it is shown, because it says more of the judge's own delay."""


@dataclass(frozen=True)
class Judge:
    name: str
    title: str
    package: str
    executable: Path
    metrics: tuple[Metric, ...]
    command: Callable[[Load, str, Path], list[str]]
    """Its arguments, of the load, the server's base URL and the folder for its results."""
    read: Callable[[Load, Path], Verdict]
    environment: Mapping[str, str]

    @property
    def python(self) -> Path:
        """The interpreter that has it."""
        return self.executable.parent / "python"

    def shown(self, load: Load, url: str, out: Path) -> str:
        """The whole command, as one would type it in the project's folder."""
        settings = [f"{key}={value}" for key, value in self.environment.items()]
        words = [str(self.executable), *self.command(load, url, out)]
        return " ".join([*settings, shlex.join(words)])


# -- guidellm ----------------------------------------------------------------------------------


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


def _ttft(meaning: str) -> tuple[Metric, Metric]:
    return (
        Metric("TTFT, mean", "ms", mean(lambda r: r.ttft_ms), meaning),
        Metric("TTFT, median", "ms", median(lambda r: r.ttft_ms), meaning),
    )


GUIDELLM_METRICS = (
    *_ttft("headers begun to be written, to the first chunk with text"),
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


# -- AIPerf ------------------------------------------------------------------------------------


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


def _per_token(request: Served) -> float:
    return request.decode_ms / (request.tokens - 1)


def _to_last_token(request: Served) -> float:
    return request.left_ms[-1] - request.received_ms


_GAPS = Metric(
    *("gap, p99", "ms", worst_hundredth(lambda r: r.gaps_ms)),
    "between two chunks with text, all requests together",
    held=False,
)

AIPERF_METRICS = (
    *_ttft("request begun, connecting included, to the first chunk with text"),
    Metric(
        *("ITL, mean", "ms", mean(_per_token)),
        "(E2E − TTFT) / (n − 1) of a request, mean over requests",
    ),
    _GAPS,
    Metric(
        *("E2E, mean", "ms", mean(_to_last_token)),
        "request sent to the last chunk with text",
    ),
    Metric(
        *("output tok/s", "tok/s", throughput(lambda r: r.left_ms[-1])),
        "its `total_output_tokens` over its `benchmark_duration`, which is from the first request "
        "sent to the last chunk with text",
    ),
    Metric(
        *("output tok/s of its phase", "tok/s", throughput(lambda r: r.left_ms[-1])),
        "the line in its report: the same tokens over the whole phase, which begins before the "
        "first request is due; the records know no phase",
        held=False,
    ),
    Metric("output tokens", "", total_tokens, "counted by its own `o200k_base`"),
)


# -- vLLM's bench ------------------------------------------------------------------------------


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
        *("--save-result", "--result-filename", str(out / "result.json")),
    ]


def _read_vllm(load: Load, out: Path) -> Verdict:
    result = json.loads((out / "result.json").read_text("utf-8"))
    return Verdict(
        {
            "TTFT, mean": result["mean_ttft_ms"],
            "TTFT, median": result["median_ttft_ms"],
            "TPOT, mean": result["mean_tpot_ms"],
            "ITL, mean": result["mean_itl_ms"],
            "gap, p99": result["p99_itl_ms"],
            "E2E, mean": result["mean_e2el_ms"],
            "output tok/s": result["output_throughput"],
            "output tokens": result["total_output_tokens"],
        },
        frozenset(f"{ID_PREFIX}{i}" for i in range(load.requests)),
    )


def _mean_gap(requests: Sequence[Served]) -> float:
    gaps = [gap for request in requests for gap in request.gaps_ms]
    return sum(gaps) / len(gaps)


VLLM_METRICS = (
    *_ttft("request begun, connecting included, to the first chunk with text"),
    Metric(
        *("TPOT, mean", "ms", mean(_per_token)),
        "(E2E − TTFT) / (n − 1) of a request, mean over requests",
    ),
    Metric("ITL, mean", "ms", _mean_gap, "between two chunks with text, all requests together"),
    _GAPS,
    Metric(
        *("E2E, mean", "ms", mean(_to_last_token)),
        "request sent to the last chunk with text",
    ),
    Metric(
        *("output tok/s", "tok/s", throughput(lambda r: r.ended_ms)),
        "all tokens, from before the first request is made to after the last has ended",
    ),
    Metric("output tokens", "", total_tokens, "as `usage` says"),
)

OFFLINE = {"HF_HUB_OFFLINE": "1"}

JUDGES = (
    Judge(
        "guidellm",
        "guidellm",
        "guidellm",
        GUIDELLM_BIN / "guidellm",
        GUIDELLM_METRICS,
        _guidellm,
        _read_guidellm,
        OFFLINE,
    ),
    Judge(
        "aiperf",
        "AIPerf",
        "aiperf",
        AIPERF_BIN / "aiperf",
        AIPERF_METRICS,
        _aiperf,
        _read_aiperf,
        {**OFFLINE, "TIKTOKEN_CACHE_DIR": str(TOKENIZER)},
    ),
    Judge(
        "vllm",
        "vllm bench serve",
        "vllm",
        GUIDELLM_BIN / "vllm",
        VLLM_METRICS,
        _vllm,
        _read_vllm,
        {**OFFLINE, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"},
    ),
)

LOADS = (
    Load("gpu-40-closed", "`gpu-40`, 8 at a time", "gpu-40", 48, 200, streams=8),
    Load("wafer-750-closed", "`wafer-750`, 8 at a time", "wafer-750", 160, 500, streams=8),
    Load("gpu-40-poisson", "`gpu-40`, 2 a second (Poisson)", "gpu-40", 48, 200, rate=2.0),
    Load("wafer-750-poisson", "`wafer-750`, 8 a second (Poisson)", "wafer-750", 160, 500, rate=8.0),
)
