"""What the dashboard and the alerts ask for is what a server exports, labels included."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from paceline.runtime.exposition import Exposition
from paceline.runtime.metrics import Load, Metrics
from tests.deploy.dashboard import expressions
from tests.deploy.promql import label_names, metric_names

RULES = Path(__file__).resolve().parents[2] / "deploy/prometheus/rules.yml"
# What Prometheus itself puts on every series.
SCRAPE_LABELS = {"job", "instance"}
SCRAPE_METRICS = {"up"}


def alert_expressions() -> list[str]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def scrape() -> list[Metric]:
    """What Prometheus reads from a server after one streamed request and one that was cut."""
    metrics = Metrics()
    metrics.register_load("gpu-40", lambda: Load(running=1, waiting=2), {"block_size": "16"})
    found = metrics.profile("gpu-40", "default", 1000)
    found.prefilled(10, cached_tokens=4)
    found.first_token(0.2)
    found.observe_first_flush(1, 0.001)
    found.observe_flush(2, 0.025, 0.001)
    found.finished(
        "stop",
        prompt_tokens=10,
        generation_tokens=3,
        e2e_s=0.25,
        queue_s=0.1,
        prefill_s=0.1,
        decode_s=0.05,
        tpot_s=0.025,
    )
    found.aborted("client_gone")
    body, _content_type = Exposition(metrics).render()
    return list(text_string_to_metric_families(body.decode()))


def exported() -> dict[str, set[str]]:
    """Name of each series to its labels."""
    return {s.name: set(s.labels) for family in scrape() for s in family.samples}


@pytest.mark.parametrize("expression", sorted({*expressions(), *alert_expressions()}))
def test_a_query_selects_series_that_a_server_exports(expression: str) -> None:
    series = exported()
    names = metric_names(expression) - SCRAPE_METRICS
    assert names <= set(series)
    for name in names:
        assert label_names(expression) <= series[name] | SCRAPE_LABELS


def test_late_is_within_what_the_histogram_can_tell() -> None:
    # histogram_quantile never answers more than the last finite bound: an alert above it
    # could not ring.
    bounds = {
        float(sample.labels["le"])
        for family in scrape()
        for sample in family.samples
        if sample.name == "paceline_pacing_lag_seconds_bucket"
    }
    (late,) = (e for e in alert_expressions() if "paceline_pacing_lag_seconds" in e)
    threshold = float(late.rpartition(">")[2])
    assert threshold < max(bound for bound in bounds if math.isfinite(bound))
    assert threshold in bounds
