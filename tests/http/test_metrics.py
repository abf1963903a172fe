"""The scrape, after traffic whose every token a client counted."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.live import CHAT, COMPLETIONS, EMBEDDINGS, Answer, Server, Wire, chat, compl

COUNTERS = {
    "vllm:prompt_tokens",
    "vllm:generation_tokens",
    "vllm:request_success",
    "vllm:num_preemptions",
    "vllm:prefix_cache_queries",
    "vllm:prefix_cache_hits",
    "paceline_requests",
}
GAUGES = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:cache_config_info",
}
HISTOGRAMS = {
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_decode_time_seconds",
    "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens",
    "paceline_pacing_lag_seconds",
    "paceline_inter_token_latency_seconds",
}


def test_every_name_with_its_type_and_labels(server: Server) -> None:
    server.post(CHAT, chat("quick"))
    answer = server.ask("GET", "/metrics")
    assert (answer.header("content-type") or "").startswith("text/plain; version=0.0.4")
    families = server.metrics().families
    for names, kind in ((COUNTERS, "counter"), (GAUGES, "gauge"), (HISTOGRAMS, "histogram")):
        for name in names:
            assert families[name].type == kind, name
    for name, family in families.items():
        for sample in family.samples:
            assert sample.labels["engine"] == "0"
            if name.startswith("vllm:"):
                assert sample.labels["model_name"]
            elif name in HISTOGRAMS:
                assert {"profile", "tier"} <= set(sample.labels)
    reasons = {s.labels["finished_reason"] for s in families["vllm:request_success"].samples}
    assert reasons == {"stop", "length", "abort", "error"}
    config = next(
        s.labels
        for s in families["vllm:cache_config_info"].samples
        if s.labels["model_name"] == "quick"
    )
    assert config["block_size"] == "16"
    assert config["num_gpu_blocks"] == str(500_000 // 16)


@pytest.mark.realtime
@pytest.mark.parametrize("model", ["quick", "flat-800", "uneven", "instant"])
def test_counters_are_what_the_client_saw(server: Server, model: str) -> None:
    before = server.metrics()

    def ask(number: int) -> tuple[Answer, float, dict[str, Any]]:
        body = chat(model, f"Question {number}", max_tokens=10 + number, n=1 + number % 2)
        if number % 3:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        start = time.monotonic()
        answer = server.post(CHAT, body)
        took_s = time.monotonic() - start
        usage = answer.events[-1]["usage"] if number % 3 else answer.object["usage"]
        return answer, took_s, usage

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(ask, range(24)))
    after = server.metrics()

    def grown(name: str, **labels: str) -> float:
        return after.since(before, name, model_name=model, **labels)

    completion = sum(usage["completion_tokens"] for _, _, usage in seen)
    prompt = sum(usage["prompt_tokens"] for _, _, usage in seen)
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for _, _, usage in seen)
    assert grown("vllm:generation_tokens_total") == completion
    assert grown("vllm:prompt_tokens_total") == prompt
    assert grown("vllm:prefix_cache_queries_total") == prompt
    assert grown("vllm:prefix_cache_hits_total") == cached
    assert grown("vllm:request_success_total") == 24
    assert grown("vllm:request_success_total", finished_reason="abort") == 0
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds"):
        assert grown(f"vllm:{name}_count") == 24
    assert grown("vllm:request_generation_tokens_sum") == completion
    assert grown("vllm:request_prompt_tokens_sum") == prompt
    told = grown("vllm:e2e_request_latency_seconds_sum")
    took = sum(took_s for _, took_s, _ in seen)
    assert told <= took
    assert told == pytest.approx(took, abs=0.1 * 24)
    records = [server.record(answer.header("x-request-id") or "") for answer, _, _ in seen]
    assert told == pytest.approx(sum(r["split_ms"]["total"] for r in records) / 1000, abs=1e-6)
    queued = sum(r["split_ms"]["queue"] for r in records) / 1000
    assert grown("vllm:request_queue_time_seconds_sum") == pytest.approx(queued, abs=1e-6)
    # Gaps between tokens of streams: one fewer than tokens, for each of the choices.
    streamed = [
        (sum(chunk["tokens"] for chunk in choice["chunks"]) - 1)
        for record in records
        if record["stream"]
        for choice in record["choices"]
    ]
    assert grown("vllm:inter_token_latency_seconds_count") == sum(streamed)
    lags = after.since(before, "paceline_pacing_lag_seconds_count", profile=model)
    assert lags == sum(len(c["chunks"]) for r in records if r["stream"] for c in r["choices"])
    by_tier = after.since(before, "paceline_generation_tokens_total", profile=model)
    assert by_tier == completion


def test_requests_are_counted_by_endpoint_and_status(server: Server) -> None:
    before = server.metrics()
    server.post(CHAT, chat("instant"))
    server.post(CHAT, chat("instant", stream=True))
    server.post(CHAT, chat("nope"))
    server.post(CHAT, {})
    server.post(COMPLETIONS, compl("instant"))
    server.post(EMBEDDINGS, {"model": "quick", "input": "x"})
    after = server.metrics()

    def grown(endpoint: str, status: str) -> float:
        name = "paceline_requests_total"
        return after.since(before, name, endpoint=endpoint, status=status)

    assert [grown(CHAT, status) for status in ("200", "404", "400", "500")] == [2, 1, 1, 0]
    assert grown(COMPLETIONS, "200") == 1
    assert grown(EMBEDDINGS, "200") == 1


def test_gauges_while_and_after(server: Server) -> None:
    server.wait_idle("slow")
    with Wire(server) as wire:
        wire.send("POST", CHAT, chat("slow", "word " * 500, stream=True, max_tokens=500))
        wire.chunk(wire.head())
        now = server.metrics()
        assert (now.running("slow"), now.waiting("slow")) == (1, 0)
        usage = now.value("vllm:kv_cache_usage_perc", model_name="slow")
        assert 0.05 < usage < 0.06, "some 510 of 10,000 tokens"
    server.wait_idle("slow")
    assert server.metrics().value("vllm:kv_cache_usage_perc", model_name="slow") == 0


def test_invented_models_cost_a_bounded_number_of_series() -> None:
    with Server() as server, server.http() as client:
        for rate in range(1000, 1300):
            body = chat(f"flat-{rate}", max_tokens=1)
            assert client.post(CHAT, json=body).status_code == 200
        now = server.metrics()
        assert now.value("vllm:request_success_total") == 300
        assert now.value("vllm:request_success_total", model_name="other") > 0
        models = {s.labels["model_name"] for s in now.families["vllm:request_success"].samples}
        assert len(models) <= 257
