"""Metrics in Prometheus's text format (0.0.4), written straight from the plain counters.

Names, types and label names of the `vllm:` families are those of vLLM's own exposition. Our
families carry vLLM's `engine` label too, so that the expositions of several server processes can
be put together without two series ever being the same.

The text is written here and not by prometheus_client: a scrape runs on the thread that paces
tokens, and the library's writer holds it up some twenty times as long. OpenMetrics is not
offered: under its escaping rules the colon in vLLM's names would not survive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate

from prometheus_client import ProcessCollector

from paceline.core.money import digits
from paceline.runtime import buckets
from paceline.runtime.buckets import Histogram
from paceline.runtime.metrics import VLLM_REASONS, LedgerHealth, Load, Metrics, ProfileMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_GAUGES: tuple[tuple[str, str, Callable[[Load], float]], ...] = (
    ("vllm:num_requests_running", "Requests in execution batches.", lambda load: load.running),
    ("vllm:num_requests_waiting", "Requests waiting to be processed.", lambda load: load.waiting),
    ("vllm:kv_cache_usage_perc", "KV cache in use; 1 is all of it.", lambda load: load.kv_usage),
)

_COUNTERS: tuple[tuple[str, str, Callable[[ProfileMetrics], float]], ...] = (
    ("vllm:prompt_tokens_total", "Prompt tokens processed.", lambda m: m.prompt),
    ("vllm:generation_tokens_total", "Tokens generated.", lambda m: m.generation_tokens),
    (
        "vllm:prefix_cache_queries_total",
        "Tokens looked up in the prefix cache.",
        lambda m: m.prompt,
    ),
    ("vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.", lambda m: m.prefix_hits),
)

_HISTOGRAMS: tuple[tuple[str, str, Callable[[ProfileMetrics], Histogram]], ...] = (
    ("vllm:time_to_first_token_seconds", "Time to first token, queue included.", lambda m: m.ttft),
    (
        "vllm:inter_token_latency_seconds",
        "Time between two tokens as they left.",
        lambda m: m.gaps.coarser(buckets.TOKEN_S),
    ),
    (
        "vllm:request_time_per_output_token_seconds",
        "Mean time between a request's tokens.",
        lambda m: m.tpot,
    ),
    ("vllm:e2e_request_latency_seconds", "Time from arrival to last token.", lambda m: m.e2e),
    ("vllm:request_queue_time_seconds", "Time a request waited.", lambda m: m.queue),
    ("vllm:request_prefill_time_seconds", "Time a request prefilled.", lambda m: m.prefill),
    ("vllm:request_decode_time_seconds", "Time a request decoded.", lambda m: m.decode),
    ("vllm:request_inference_time_seconds", "Time a request ran.", lambda m: m.inference),
    ("vllm:request_prompt_tokens", "Prompt tokens of a request.", lambda m: m.prompt_tokens),
    ("vllm:request_generation_tokens", "Tokens a request generated.", lambda m: m.output_tokens),
    ("vllm:request_params_max_tokens", "The max_tokens of a request.", lambda m: m.max_tokens),
    ("vllm:request_params_n", "The n of a request.", lambda m: m.n),
)


_MONEY: tuple[tuple[str, str, str, Callable[[ProfileMetrics], str]], ...] = (
    (
        "paceline_cost_usd_total",
        "counter",
        "US dollars that ended requests cost.",
        lambda m: digits(m.cost_usd),
    ),
    (
        "paceline_credits_total",
        "counter",
        "Codex credits that ended requests cost.",
        lambda m: digits(m.cost_credits),
    ),
    ("paceline_holds", "gauge", "Requests let in and not yet billed.", lambda m: str(m.holds)),
    (
        "paceline_held_usd",
        "gauge",
        "The most US dollars that those can cost.",
        lambda m: digits(m.held_usd),
    ),
    (
        "paceline_held_credits",
        "gauge",
        "The most Codex credits that those can cost.",
        lambda m: digits(m.held_credits),
    ),
)


class Exposition:
    """Turns one process's `Metrics` into a scrape's answer."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._process = ProcessCollector(registry=None)

    def render(self) -> tuple[bytes, str]:
        """The body and its content type.

        A profile's counters are there from its first request on, its gauges always.
        """
        lines: list[str] = []
        self._loads(lines)
        self._vllm(lines)
        self._ours(lines)
        for family in self._process.collect():
            name = family.samples[0].name
            _head(lines, name, family.type, family.documentation)
            lines.append(f"{name}{self._labels({})} {family.samples[0].value!r}")
        lines.append("")
        return "\n".join(lines).encode(), CONTENT_TYPE

    def _labels(self, labels: Mapping[str, str]) -> str:
        named = {"engine": self._metrics.engine, **labels}
        return "{" + ",".join(f'{key}="{_escape(value)}"' for key, value in named.items()) + "}"

    def _loads(self, lines: list[str]) -> None:
        deployments = self._metrics.deployments
        loads = [(self._labels({"model_name": m}), d.read()) for m, d in deployments.items()]
        for name, text, value in _GAUGES:
            _head(lines, name, "gauge", text)
            lines += [f"{name}{labels} {value(load)}" for labels, load in loads]
        name = "vllm:num_preemptions_total"
        _head(lines, name, "counter", "Requests preempted.")
        lines += [f"{name}{labels} {load.preemptions}" for labels, load in loads]
        name = "vllm:cache_config_info"
        _head(lines, name, "gauge", "How the KV cache is set up.")
        for model, deployment in deployments.items():
            labels = self._labels({"model_name": model, **deployment.cache_config})
            lines.append(f"{name}{labels} 1")

    def _vllm(self, lines: list[str]) -> None:
        by_model: dict[str, list[ProfileMetrics]] = {}
        for (model, _), found in self._metrics.profiles.items():
            by_model.setdefault(model, []).append(found)
        models = [(self._labels({"model_name": m}), tiers) for m, tiers in by_model.items()]
        for name, text, value in _COUNTERS:
            _head(lines, name, "counter", text)
            lines += [f"{name}{labels} {sum(map(value, tiers))}" for labels, tiers in models]
        name = "vllm:request_success_total"
        _head(lines, name, "counter", "Requests by how they ended.")
        for model, tiers in by_model.items():
            for reason in VLLM_REASONS:
                labels = self._labels({"model_name": model, "finished_reason": reason})
                lines.append(f"{name}{labels} {sum(tier.endings[reason] for tier in tiers)}")
        for name, text, pick in _HISTOGRAMS:
            _head(lines, name, "histogram", text)
            for labels, tiers in models:
                _histogram(lines, name, labels, map(pick, tiers))

    def _ours(self, lines: list[str]) -> None:
        profiles = [
            ({"profile": model, "tier": tier}, found)
            for (model, tier), found in self._metrics.profiles.items()
        ]
        name = "paceline_pacing_lag_seconds"
        _head(lines, name, "histogram", "How late a write left after its oldest token was due.")
        for labels, found in profiles:
            _histogram(lines, name, self._labels(labels), (found.lags,))
        name = "paceline_inter_token_latency_seconds"
        _head(lines, name, "histogram", "Time between two tokens as they left, finely.")
        for labels, found in profiles:
            gaps = found.gaps.coarser(buckets.FINE_TOKEN_S)
            _histogram(lines, name, self._labels(labels), (gaps,))
        name = "paceline_generation_tokens_total"
        _head(lines, name, "counter", "Tokens generated, by tier.")
        lines += [f"{name}{self._labels(la)} {m.generation_tokens}" for la, m in profiles]
        name = "paceline_streams_aborted_total"
        _head(lines, name, "counter", "Requests that ended before their last token, by cause.")
        for labels, found in profiles:
            for cause, count in found.aborted_by.items():
                lines.append(f"{name}{self._labels({**labels, 'cause': cause})} {count}")
        for name, kind, text, amount in _MONEY:
            _head(lines, name, kind, text)
            lines += [f"{name}{self._labels(la)} {amount(m)}" for la, m in profiles]
        name = "paceline_unpriced_requests_total"
        _head(lines, name, "counter", "Ended requests without a published rate, by unit.")
        for labels, found in profiles:
            for unit, count in found.unpriced.items():
                lines.append(f"{name}{self._labels({**labels, 'unit': unit})} {count}")
        self._ledger(lines)
        name = "paceline_requests_total"
        _head(lines, name, "counter", "HTTP requests answered.")
        for (endpoint, status), count in self._metrics.requests.items():
            labels = {"endpoint": endpoint, "status": status}
            lines.append(f"{name}{self._labels(labels)} {count}")

    def _ledger(self, lines: list[str]) -> None:
        """How the ledger is, and who wasn't let in."""
        metrics = self._metrics
        labels = self._labels({})
        name = "paceline_ledger_wait_seconds"
        _head(lines, name, "histogram", "How long an answer's end waited for its entry.")
        waits = [found.ledger_wait for found in metrics.profiles.values()]
        _histogram(lines, name, labels, waits or [Histogram(buckets.LEDGER_S)])
        ledger = metrics.ledger
        if isinstance(ledger, LedgerHealth):
            name = "paceline_ledger_healthy"
            _head(lines, name, "gauge", "Whether the ledger's last write met no error.")
            lines.append(f"{name}{labels} {int(ledger.healthy)}")
            name = "paceline_ledger_lost_writes_total"
            _head(lines, name, "counter", "Holds and entries that could not be written.")
            lines.append(f"{name}{labels} {ledger.lost_writes}")
        name = "paceline_refusals_total"
        _head(lines, name, "counter", "Requests for tokens that were refused, by reason.")
        for reason, count in metrics.refusals.items():
            lines.append(f"{name}{self._labels({'reason': reason})} {count}")


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _head(lines: list[str], name: str, kind: str, text: str) -> None:
    lines.append(f"# HELP {name} {text}")
    lines.append(f"# TYPE {name} {kind}")


def _histogram(lines: list[str], name: str, labels: str, parts: Iterable[Histogram]) -> None:
    """One series of a histogram: the parts' sum, with `le` as the last label."""
    total: Histogram | None = None
    for part in parts:
        if total is None:
            total = Histogram(part.bounds)
        total.add(part)
    if total is None:
        return
    stem = f'{name}_bucket{labels[:-1]},le="'
    counts = list(accumulate(total.counts))
    lines += [
        f'{stem}{float(bound)!r}"}} {count}'
        for bound, count in zip(total.bounds, counts[:-1], strict=True)
    ]
    lines.append(f'{stem}+Inf"}} {counts[-1]}')
    lines.append(f"{name}_count{labels} {counts[-1]}")
    lines.append(f"{name}_sum{labels} {total.sum!r}")


def merge(parts: Sequence[bytes]) -> bytes:
    """Put the plain-text expositions of several processes together, family by family.

    The parts must differ in their `engine` label.
    """
    heads: dict[bytes, list[bytes]] = {}
    samples: dict[bytes, list[bytes]] = {}
    for part in parts:
        name = b""
        for line in part.splitlines():
            if line.startswith(b"# HELP "):
                name = line.split(b" ", 3)[2]
            if line.startswith(b"#"):
                known = heads.setdefault(name, [])
                if line not in known:
                    known.append(line)
            elif line:
                samples.setdefault(name, []).append(line)
    lines = [line for name in heads for line in (*heads[name], *samples.get(name, ()))]
    return b"".join(line + b"\n" for line in lines)
