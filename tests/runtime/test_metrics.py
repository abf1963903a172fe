"""What is exported is what was observed, under vLLM's names and in vLLM's buckets."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from paceline.core.ledger import Amount
from paceline.runtime import buckets
from paceline.runtime.buckets import Histogram, one_two_five
from paceline.runtime.exposition import CONTENT_TYPE, Exposition, merge
from paceline.runtime.metrics import Load, Metrics, ProfileMetrics

# The names and label sets of vLLM's own exposition (vllm/v1/metrics/loggers.py).
VLLM = {
    "vllm:num_requests_running": "gauge",
    "vllm:num_requests_waiting": "gauge",
    "vllm:kv_cache_usage_perc": "gauge",
    "vllm:cache_config_info": "gauge",
    "vllm:num_preemptions": "counter",
    "vllm:prompt_tokens": "counter",
    "vllm:generation_tokens": "counter",
    "vllm:prefix_cache_queries": "counter",
    "vllm:prefix_cache_hits": "counter",
    "vllm:request_success": "counter",
    "vllm:time_to_first_token_seconds": "histogram",
    "vllm:inter_token_latency_seconds": "histogram",
    "vllm:request_time_per_output_token_seconds": "histogram",
    "vllm:e2e_request_latency_seconds": "histogram",
    "vllm:request_queue_time_seconds": "histogram",
    "vllm:request_prefill_time_seconds": "histogram",
    "vllm:request_decode_time_seconds": "histogram",
    "vllm:request_inference_time_seconds": "histogram",
    "vllm:request_prompt_tokens": "histogram",
    "vllm:request_generation_tokens": "histogram",
    "vllm:request_params_max_tokens": "histogram",
    "vllm:request_params_n": "histogram",
}


def finish(found: ProfileMetrics, reason: str = "stop") -> None:
    found.finished(
        reason,  # type: ignore[arg-type]
        prompt_tokens=100,
        generation_tokens=50,
        e2e_s=2.0,
        queue_s=0.4,
        prefill_s=0.6,
        decode_s=1.0,
        tpot_s=0.02,
        n=1,
        max_tokens=50,
    )


def busy() -> Metrics:
    metrics = Metrics()
    metrics.register_load(
        "gpu-40",
        lambda: Load(running=3, waiting=2, kv_usage=0.25, preemptions=1),
        {"block_size": "16", "num_gpu_blocks": "1000"},
    )
    found = metrics.profile("gpu-40", "default", 131_072)
    found.prefilled(100, 64)
    found.first_token(0.42)
    found.observe_first_flush(1, 0.0002)
    found.observe_flush(3, 0.025, 0.0004)
    found.observe_flush(1, 0.001, 0.02)
    finish(found)
    metrics.request("/v1/chat/completions", 200)
    return metrics


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    body, _ = Exposition(metrics).render()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[name, frozenset({"engine": "0", **labels}.items())]


def test_the_format_is_what_prometheus_reads() -> None:
    body, content_type = Exposition(busy()).render()
    assert content_type == CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    families = {f.name: f for f in text_string_to_metric_families(body.decode())}
    assert {name: families[name].type for name in VLLM} == VLLM
    for name in VLLM:
        for sample in families[name].samples:
            assert sample.labels["model_name"] == "gpu-40"
            assert sample.labels["engine"] == "0"
            extra = set(sample.labels) - {"model_name", "engine", "le", "finished_reason"}
            assert not extra or name == "vllm:cache_config_info"
    assert body.endswith(b"\n")
    assert b'vllm:num_requests_running{engine="0",model_name="gpu-40"} 3\n' in body
    ours = {name for name in families if name.startswith("paceline_")}
    assert ours == {
        "paceline_pacing_lag_seconds",
        "paceline_inter_token_latency_seconds",
        "paceline_generation_tokens",
        "paceline_streams_aborted",
        "paceline_requests",
        "paceline_cost_usd",
        "paceline_credits",
        "paceline_unpriced_requests",
        "paceline_holds",
        "paceline_held_usd",
        "paceline_held_credits",
        "paceline_ledger_wait_seconds",
        "paceline_refusals",
    }
    assert "process_cpu_seconds" in families


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("vllm:time_to_first_token_seconds", buckets.TTFT_S),
        ("vllm:inter_token_latency_seconds", buckets.TOKEN_S),
        ("vllm:request_time_per_output_token_seconds", buckets.TOKEN_S),
        ("vllm:e2e_request_latency_seconds", buckets.REQUEST_S),
        ("vllm:request_queue_time_seconds", buckets.REQUEST_S),
        ("vllm:request_prompt_tokens", one_two_five(131_072)),
        ("vllm:request_params_n", (1, 2, 5, 10, 20)),
        ("paceline_pacing_lag_seconds", buckets.LAG_S),
        ("paceline_inter_token_latency_seconds", buckets.FINE_TOKEN_S),
    ],
)
def test_buckets(name: str, bounds: tuple[float, ...]) -> None:
    seen = [dict(key[1])["le"] for key in samples(busy()) if key[0] == f"{name}_bucket"]
    assert sorted(float(le) for le in seen) == [*map(float, bounds), float("inf")]


def test_vllm_bounds_as_vllm_has_them() -> None:
    assert (len(buckets.TTFT_S), buckets.TTFT_S[0], buckets.TTFT_S[-1]) == (22, 0.001, 2560.0)
    assert (len(buckets.TOKEN_S), buckets.TOKEN_S[0], buckets.TOKEN_S[-1]) == (19, 0.01, 80.0)
    assert (len(buckets.REQUEST_S), buckets.REQUEST_S[0], buckets.REQUEST_S[-1]) == (21, 0.3, 7680)
    assert one_two_five(100) == (1, 2, 5, 10, 20, 50, 100)
    assert one_two_five(99) == (1, 2, 5, 10, 20, 50)
    for bounds in (buckets.GAP_S, buckets.LAG_S, buckets.FINE_TOKEN_S, buckets.TTFT_S):
        assert list(bounds) == sorted(set(bounds))


def test_gauges_are_read_at_the_scrape() -> None:
    metrics = Metrics()
    running = 0
    metrics.register_load("gpu-40", lambda: Load(running, 0), {})
    assert value(metrics, "vllm:num_requests_running", model_name="gpu-40") == 0
    running = 7
    assert value(metrics, "vllm:num_requests_running", model_name="gpu-40") == 7
    metrics.unregister_load("gpu-40")
    assert not [key for key in samples(metrics) if key[0] == "vllm:num_requests_running"]


def test_loads_and_cache_config() -> None:
    metrics = busy()
    assert value(metrics, "vllm:num_requests_waiting", model_name="gpu-40") == 2
    assert value(metrics, "vllm:kv_cache_usage_perc", model_name="gpu-40") == 0.25
    assert value(metrics, "vllm:num_preemptions_total", model_name="gpu-40") == 1
    labels = {"model_name": "gpu-40", "block_size": "16", "num_gpu_blocks": "1000"}
    assert value(metrics, "vllm:cache_config_info", **labels) == 1


def test_tokens_that_left_together_are_gaps_of_nothing() -> None:
    metrics = busy()
    name = "vllm:inter_token_latency_seconds"
    # Five tokens in three writes: gaps of 25 ms, 0, 0 and 1 ms.
    assert value(metrics, f"{name}_count", model_name="gpu-40") == 4
    assert value(metrics, f"{name}_sum", model_name="gpu-40") == pytest.approx(0.026)
    assert value(metrics, f"{name}_bucket", model_name="gpu-40", le="0.01") == 3
    assert value(metrics, f"{name}_bucket", model_name="gpu-40", le="0.025") == 4
    labels = {"profile": "gpu-40", "tier": "default"}
    fine = "paceline_inter_token_latency_seconds"
    assert value(metrics, f"{fine}_bucket", **labels, le="0.0001") == 2
    assert value(metrics, f"{fine}_bucket", **labels, le="0.001") == 3
    assert value(metrics, f"{fine}_count", **labels) == 4


def test_lag_is_counted_once_a_write() -> None:
    metrics = busy()
    labels = {"profile": "gpu-40", "tier": "default"}
    assert value(metrics, "paceline_pacing_lag_seconds_count", **labels) == 3
    assert value(metrics, "paceline_pacing_lag_seconds_sum", **labels) == pytest.approx(0.0206)
    assert value(metrics, "paceline_pacing_lag_seconds_bucket", **labels, le="0.0005") == 2


def test_token_counters() -> None:
    metrics = busy()
    found = metrics.profile("gpu-40", "default", 131_072)
    found.generated(40)
    assert value(metrics, "vllm:generation_tokens_total", model_name="gpu-40") == 45
    assert value(metrics, "vllm:prompt_tokens_total", model_name="gpu-40") == 100
    assert value(metrics, "vllm:prefix_cache_queries_total", model_name="gpu-40") == 100
    assert value(metrics, "vllm:prefix_cache_hits_total", model_name="gpu-40") == 64
    # Tokens that were not written one by one are no gaps.
    assert value(metrics, "vllm:inter_token_latency_seconds_count", model_name="gpu-40") == 4


def test_tiers_add_up_under_vllm_names_and_stay_apart_under_ours() -> None:
    metrics = busy()
    fast = metrics.profile("gpu-40", "priority", 131_072)
    finish(fast, "length")
    fast.observe_first_flush(2, 0.0)
    assert value(metrics, "vllm:e2e_request_latency_seconds_count", model_name="gpu-40") == 2
    assert value(metrics, "vllm:e2e_request_latency_seconds_sum", model_name="gpu-40") == 4.0
    for tier, tokens in (("default", 5), ("priority", 2)):
        name = "paceline_generation_tokens_total"
        assert value(metrics, name, profile="gpu-40", tier=tier) == tokens


def test_endings() -> None:
    metrics = busy()
    found = metrics.profile("gpu-40", "default", 131_072)
    for reason in ("length", "tool_calls", "content_filter"):
        finish(found, reason)
    found.aborted("client_gone")
    found.aborted("client_gone")
    found.aborted("shutdown")
    found.aborted("error")
    name = "vllm:request_success_total"
    ended = {
        reason: value(metrics, name, model_name="gpu-40", finished_reason=reason)
        for reason in ("stop", "length", "abort", "error")
    }
    # tool_calls and content_filter are ends of the model's own choosing: vLLM's "stop".
    assert ended == {"stop": 3, "length": 1, "abort": 3, "error": 1}
    labels = {"profile": "gpu-40", "tier": "default"}
    name = "paceline_streams_aborted_total"
    assert value(metrics, name, **labels, cause="client_gone") == 2
    assert value(metrics, name, **labels, cause="shutdown") == 1


def test_request_times() -> None:
    metrics = busy()
    for name, expected in {
        "vllm:request_queue_time_seconds": 0.4,
        "vllm:request_prefill_time_seconds": 0.6,
        "vllm:request_decode_time_seconds": 1.0,
        "vllm:request_inference_time_seconds": 1.6,
        "vllm:request_time_per_output_token_seconds": 0.02,
        "vllm:time_to_first_token_seconds": 0.42,
    }.items():
        assert value(metrics, f"{name}_sum", model_name="gpu-40") == pytest.approx(expected)
        assert value(metrics, f"{name}_count", model_name="gpu-40") == 1


def test_a_one_token_answer_has_no_time_per_token() -> None:
    metrics = Metrics()
    found = metrics.profile("m", "default", 100)
    found.finished(
        "length",
        prompt_tokens=1,
        generation_tokens=1,
        e2e_s=0.1,
        queue_s=0.0,
        prefill_s=0.1,
        decode_s=0.0,
    )
    name = "vllm:request_time_per_output_token_seconds_count"
    assert value(metrics, name, model_name="m") == 0
    assert value(metrics, "vllm:request_params_max_tokens_count", model_name="m") == 0


def test_http_requests() -> None:
    metrics = busy()
    metrics.request("/v1/models", 404)
    metrics.request("/v1/models", 404)
    name = "paceline_requests_total"
    assert value(metrics, name, endpoint="/v1/chat/completions", status="200") == 1
    assert value(metrics, name, endpoint="/v1/models", status="404") == 2


def test_an_idle_profile_costs_a_scrape_five_lines() -> None:
    metrics = Metrics()
    before = len(Exposition(metrics).render()[0].splitlines())
    metrics.register_load("gpu-40", lambda: Load(0, 0), {})
    after = len(Exposition(metrics).render()[0].splitlines())
    assert after - before == 5  # three gauges, a counter, the cache's setup


def test_invented_names_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.runtime.metrics.MODEL_LIMIT", 8)
    metrics = Metrics()
    for rate in range(8 + 50):
        metrics.profile(f"flat-{rate}", "default", 1000).first_token(0.1)
    names = {dict(key[1]).get("model_name") for key in samples(metrics)} - {None}
    assert len(names) == 8 + 1
    name = "vllm:time_to_first_token_seconds_count"
    assert value(metrics, name, model_name="other") == 50


def test_tiers_of_a_reloaded_profile_still_add_up() -> None:
    metrics = Metrics()
    finish(metrics.profile("m", "default", 1000))
    finish(metrics.profile("m", "priority", 1_000_000))
    assert value(metrics, "vllm:request_prompt_tokens_count", model_name="m") == 2


def test_label_values_are_escaped() -> None:
    metrics = Metrics()
    odd = 'a"b\\c\nd'
    metrics.profile(odd, "default", 100).first_token(0.1)
    assert value(metrics, "vllm:time_to_first_token_seconds_count", model_name=odd) == 1


def test_merged_processes_keep_every_series_once() -> None:
    parts = []
    for engine in ("0", "1"):
        metrics = busy()
        metrics.engine = engine
        parts.append(Exposition(metrics).render()[0])
    merged = merge(parts).decode()
    families = list(text_string_to_metric_families(merged))
    assert len({f.name for f in families}) == len(families)
    keys = [(s.name, tuple(sorted(s.labels.items()))) for f in families for s in f.samples]
    assert len(set(keys)) == len(keys)
    single = sum(len(f.samples) for f in text_string_to_metric_families(parts[0].decode()))
    assert len(keys) == 2 * single
    total = sum(
        s.value for f in families for s in f.samples if s.name == "vllm:generation_tokens_total"
    )
    assert total == 10


@given(st.lists(st.floats(min_value=0.0, max_value=200.0)))
def test_coarse_histogram_equals_one_that_was_coarse_from_the_start(values: list[float]) -> None:
    fine = Histogram(buckets.GAP_S)
    for item in values:
        fine.observe(item)
    for bounds in (buckets.TOKEN_S, buckets.FINE_TOKEN_S):
        direct = [0] * (len(bounds) + 1)
        for item in values:
            direct[bisect_left(bounds, item)] += 1
        coarse = fine.coarser(bounds)
        assert coarse.counts == direct
        assert coarse.count == len(values)
        assert coarse.sum == fine.sum


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0.0, 1.0)), min_size=1, max_size=50))
def test_gaps_are_tokens_less_streams(flushes: list[tuple[int, float]]) -> None:
    found = ProfileMetrics(1000)
    found.observe_first_flush(flushes[0][0], 0.0)
    for tokens, gap in flushes[1:]:
        found.observe_flush(tokens, gap, 0.0)
    total = sum(tokens for tokens, _ in flushes)
    assert found.generation_tokens == total
    assert found.gaps.count == total - 1
    assert found.gaps.sum == pytest.approx(sum(gap for _, gap in flushes[1:]))
    assert found.lags.count == len(flushes)


class _Ill:
    healthy = False
    lost_writes = 3


def test_money_is_exact_to_the_last_digit() -> None:
    metrics = Metrics()
    found = metrics.profile("sol", "priority", 100)
    found.held(Amount(2 * 10**12, 5))
    found.held(Amount(None, 7))
    found.let_go(Amount(None, 7))
    found.settled(Amount(123_456_789_012_345_678, 1))
    found.settled(Amount(1, None))
    found.settled(Amount(None, None))
    metrics.refused("insufficient_quota")
    metrics.ledger = _Ill()
    text = Exposition(metrics).render()[0].decode()
    labels = '{engine="0",profile="sol",tier="priority"}'
    assert f"paceline_cost_usd_total{labels} 123456.789012345679\n" in text
    assert f"paceline_credits_total{labels} 0.000000000001\n" in text
    assert f"paceline_holds{labels} 1\n" in text
    assert f"paceline_held_usd{labels} 2\n" in text
    assert f"paceline_held_credits{labels} 0.000000000005\n" in text
    both = {"profile": "sol", "tier": "priority"}
    assert value(metrics, "paceline_unpriced_requests_total", **both, unit="usd") == 1
    assert value(metrics, "paceline_unpriced_requests_total", **both, unit="credits") == 2
    assert value(metrics, "paceline_refusals_total", reason="insufficient_quota") == 1
    assert value(metrics, "paceline_ledger_healthy") == 0
    assert value(metrics, "paceline_ledger_lost_writes_total") == 3
