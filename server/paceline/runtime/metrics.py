"""The server's metrics: vLLM's names where vLLM has them, and our own on top.

Counting is plain integers in plain lists, one call a write; Prometheus objects are made only
when somebody scrapes. What is observed is what happened: a first token's time includes its queue,
and tokens that left together are one gap followed by gaps of nothing, as the client saw them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from paceline.core.ledger import Amount
from paceline.runtime import buckets
from paceline.runtime.buckets import Histogram

Ending = Literal["stop", "length", "tool_calls", "content_filter", "abort", "error"]
"""Why a request ended. vLLM knows stop, length, abort and error; the others count as stop."""

VLLM_REASONS = ("stop", "length", "abort", "error")

AbortCause = Literal["client_gone", "shutdown", "error"]
"""Why a request ended before its last token."""

MODEL_LIMIT = 256
"""Most model names with series of their own; requests for further ones count as `other`."""

OTHER = "other"
OTHER_MODEL_LEN = 1 << 20


@dataclass(frozen=True, slots=True)
class Load:
    """What a deployment is doing at the moment of a scrape, over all its replicas.

    `kv_usage` is a fraction from 0 to 1.
    """

    running: int
    waiting: int
    kv_usage: float = 0.0
    preemptions: int = 0


@runtime_checkable
class LedgerHealth(Protocol):
    """What is asked of a ledger at each scrape, where it can tell."""

    @property
    def healthy(self) -> bool:
        """Whether its last write met no error."""
        ...

    @property
    def lost_writes(self) -> int:
        """Entries and holds that were given up."""
        ...


class ProfileMetrics:
    """The counters of one profile and tier.

    `observe_flush` is on the token path and takes about 0.2 µs.
    """

    __slots__ = (
        "_gaps",
        "_hidden_tokens",
        "_lags",
        "_openers",
        "_written_tokens",
        "aborted_by",
        "cost_credits",
        "cost_usd",
        "decode",
        "e2e",
        "endings",
        "held_credits",
        "held_usd",
        "holds",
        "inference",
        "ledger_wait",
        "max_tokens",
        "n",
        "output_tokens",
        "prefill",
        "prefix_hits",
        "prompt",
        "prompt_tokens",
        "queue",
        "tpot",
        "ttft",
        "unpriced",
    )

    def __init__(self, max_model_len: int) -> None:
        counts = buckets.one_two_five(max_model_len)
        self._gaps = Histogram(buckets.GAP_S)
        self._lags = Histogram(buckets.LAG_S)
        self._openers = 0
        self._written_tokens = 0
        self._hidden_tokens = 0
        self.prompt = 0
        self.prefix_hits = 0
        self.endings: dict[str, int] = dict.fromkeys(VLLM_REASONS, 0)
        self.aborted_by: dict[str, int] = {}
        self.ttft = Histogram(buckets.TTFT_S)
        self.tpot = Histogram(buckets.TOKEN_S)
        self.e2e = Histogram(buckets.REQUEST_S)
        self.queue = Histogram(buckets.REQUEST_S)
        self.prefill = Histogram(buckets.REQUEST_S)
        self.decode = Histogram(buckets.REQUEST_S)
        self.inference = Histogram(buckets.REQUEST_S)
        self.prompt_tokens = Histogram(counts)
        self.output_tokens = Histogram(counts)
        self.max_tokens = Histogram(counts)
        self.n = Histogram((1, 2, 5, 10, 20))
        self.cost_usd = self.cost_credits = 0
        """What was settled, in 1e-12 dollars or credits."""
        self.unpriced = {"usd": 0, "credits": 0}
        """Requests settled without a published rate, by unit."""
        self.ledger_wait = Histogram(buckets.LEDGER_S)
        """How long an answer's end waited for its entry to be safe."""
        self.holds = self.held_usd = self.held_credits = 0

    def held(self, most: Amount) -> None:
        """A request was let in that can cost so much."""
        self.holds += 1
        self.held_usd += most.usd or 0
        self.held_credits += most.credits or 0

    def let_go(self, most: Amount) -> None:
        """Its hold is settled or released."""
        self.holds -= 1
        self.held_usd -= most.usd or 0
        self.held_credits -= most.credits or 0

    def settled(self, cost: Amount) -> None:
        """A request's bill was written down."""
        if cost.usd is None:
            self.unpriced["usd"] += 1
        else:
            self.cost_usd += cost.usd
        if cost.credits is None:
            self.unpriced["credits"] += 1
        else:
            self.cost_credits += cost.credits

    def prefilled(self, prompt_tokens: int, cached_tokens: int = 0) -> None:
        """A prompt went through prefill; `cached_tokens` of it came from the prefix cache."""
        self.prompt += prompt_tokens
        self.prefix_hits += cached_tokens

    def first_token(self, ttft_s: float) -> None:
        """A request's first token left, `ttft_s` after the request was received."""
        self.ttft.observe(ttft_s)

    def generated(self, tokens: int) -> None:
        """Tokens that were generated but not written one by one: hidden, or not streamed."""
        self._hidden_tokens += tokens

    def observe_first_flush(self, tokens: int, lag_s: float) -> None:
        """The first write of a stream: there is no gap before it."""
        lags = self._lags
        lags.counts[bisect_left(lags.bounds, lag_s)] += 1
        lags.sum += lag_s
        self._openers += 1
        self._written_tokens += tokens

    def observe_flush(self, tokens: int, gap_s: float, lag_s: float) -> None:
        """A later write of a stream: `tokens` left together.

        `gap_s` is the time since the stream's write before, `lag_s` how late the oldest of the
        tokens was.
        """
        gaps = self._gaps
        lags = self._lags
        gaps.counts[bisect_left(gaps.bounds, gap_s)] += 1
        gaps.sum += gap_s
        lags.counts[bisect_left(lags.bounds, lag_s)] += 1
        lags.sum += lag_s
        self._written_tokens += tokens

    def finished(
        self,
        reason: Ending,
        *,
        prompt_tokens: int,
        generation_tokens: int,
        e2e_s: float,
        queue_s: float,
        prefill_s: float,
        decode_s: float,
        tpot_s: float | None = None,
        n: int = 1,
        max_tokens: int | None = None,
    ) -> None:
        """A request got its last token.

        `tpot_s` is None where there were fewer than two tokens to tell it from.
        """
        self.endings[reason if reason in self.endings else "stop"] += 1
        self.e2e.observe(e2e_s)
        self.queue.observe(queue_s)
        self.prefill.observe(prefill_s)
        self.decode.observe(decode_s)
        self.inference.observe(prefill_s + decode_s)
        self.prompt_tokens.observe(prompt_tokens)
        self.output_tokens.observe(generation_tokens)
        self.n.observe(n)
        if max_tokens is not None:
            self.max_tokens.observe(max_tokens)
        if tpot_s is not None:
            self.tpot.observe(tpot_s)

    def aborted(self, cause: AbortCause) -> None:
        """A request ended before its last token, by the client's doing or ours."""
        self.endings["error" if cause == "error" else "abort"] += 1
        self.aborted_by[cause] = self.aborted_by.get(cause, 0) + 1

    @property
    def generation_tokens(self) -> int:
        """All tokens generated so far."""
        return self._written_tokens + self._hidden_tokens

    @property
    def gaps(self) -> Histogram:
        """Gaps between tokens as clients saw them, those of nothing included."""
        seen = Histogram(buckets.GAP_S)
        seen.add(self._gaps)
        seen.counts[0] += self._written_tokens - self._gaps.count - self._openers
        return seen

    @property
    def lags(self) -> Histogram:
        """How late each write left after its oldest token was due."""
        return self._lags


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is asked of a deployment at each scrape."""

    read: Callable[[], Load]
    cache_config: Mapping[str, str]


class Metrics:
    """All counters of one server process; `engine` is the process's index among its siblings."""

    def __init__(self, engine: str = "0") -> None:
        self.engine = engine
        self.profiles: dict[tuple[str, str], ProfileMetrics] = {}
        """Counters by model name and tier, for the scrape."""
        self.deployments: dict[str, Deployment] = {}
        self.requests: dict[tuple[str, str], int] = {}
        """Answered HTTP requests by endpoint and status."""
        self.ledger: object = None
        """The ledger, for its health."""
        self.refusals: dict[str, int] = {}
        """Requests that were let in by nobody, by reason."""
        self._model_len: dict[str, int] = {}

    def refused(self, reason: str) -> None:
        """Count a request that was refused; there are only so many reasons."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def profile(self, model_name: str, tier: str, max_model_len: int) -> ProfileMetrics:
        """The counters of a profile and tier, made at first use.

        Names are bounded, because `flat-RATE` lets a client invent any number of them. All tiers
        of a name share the bounds of the first, since they are added up.
        """
        found = self.profiles.get((model_name, tier))
        if found is None:
            length = self._model_len.get(model_name)
            if length is None and len(self._model_len) >= MODEL_LIMIT and model_name != OTHER:
                return self.profile(OTHER, tier, OTHER_MODEL_LEN)
            length = self._model_len.setdefault(model_name, max_model_len)
            found = self.profiles[model_name, tier] = ProfileMetrics(length)
        return found

    def register_load(
        self, model_name: str, read: Callable[[], Load], cache_config: Mapping[str, str]
    ) -> None:
        """Export a deployment's gauges; `read` is called at each scrape.

        `cache_config` becomes the labels of `vllm:cache_config_info`. Replaces what was
        registered under the name.
        """
        self.deployments[model_name] = Deployment(read, dict(cache_config))

    def unregister_load(self, model_name: str) -> None:
        """Stop exporting a deployment's gauges; its counters stay, as counters must."""
        self.deployments.pop(model_name, None)

    def request(self, endpoint: str, status: int) -> None:
        """Count an answered HTTP request; `endpoint` is the route's pattern, not the path."""
        key = (endpoint, str(status))
        self.requests[key] = self.requests.get(key, 0) + 1
