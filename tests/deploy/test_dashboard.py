"""The Grafana dashboard: whole, and asking only for what a server exports."""

from __future__ import annotations

import re
from itertools import combinations

from tests.deploy import dashboard
from tests.deploy.promql import metric_names

# What someone who watches an inference server looks for.
EXPECTED = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:time_to_first_token_seconds_bucket",
    "vllm:inter_token_latency_seconds_bucket",
    "vllm:request_time_per_output_token_seconds_bucket",
    "vllm:e2e_request_latency_seconds_bucket",
    "vllm:request_queue_time_seconds_bucket",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
    "vllm:request_success_total",
    "paceline_pacing_lag_seconds_bucket",
    "paceline_inter_token_latency_seconds_bucket",
    "paceline_cost_usd_total",
    "paceline_held_usd",
    "paceline_refusals_total",
}


def asked_for() -> set[str]:
    return set().union(*map(metric_names, dashboard.expressions()))


def test_it_asks_for_what_matters() -> None:
    assert asked_for() >= EXPECTED


def test_every_panel_says_what_it_shows_and_in_which_unit() -> None:
    shown = list(dashboard.panels())
    assert len({panel["id"] for panel in shown}) == len(shown)
    for panel in shown:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["targets"]


def test_every_panel_asks_the_source_that_is_picked() -> None:
    for panel in dashboard.panels():
        assert panel["datasource"]["uid"] == "${datasource}"
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


def test_no_two_panels_overlap() -> None:
    places = [panel["gridPos"] for panel in dashboard.read()["panels"]]
    for a, b in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or above
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_every_variable_that_a_query_uses_is_declared() -> None:
    declared = {variable["name"] for variable in dashboard.read()["templating"]["list"]}
    used = {name for text in dashboard.expressions() for name in re.findall(r"\$(\w+)", text)}
    assert used - {"__rate_interval"} <= declared
