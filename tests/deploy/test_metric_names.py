"""What the dashboard and the alerts ask for is what a server exports, labels included."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from paceline.app import App
from paceline.runtime.settings import Settings
from tests.deploy.dashboard import expressions
from tests.deploy.promql import label_names, metric_names

RULES = Path(__file__).resolve().parents[2] / "deploy/prometheus/rules.yml"
# What Prometheus itself puts on every series.
SCRAPE_LABELS = {"job", "instance"}
SCRAPE_METRICS = {"up"}


def alert_expressions() -> list[str]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def scrape() -> list[Metric]:
    """What Prometheus reads from a server after a streamed request, a whole and a refused one."""
    with TestClient(App(Settings())) as client:
        for stream in (True, False):
            answer = client.post(
                "/v1/chat/completions",
                json={
                    "model": "instant",
                    "messages": [{"role": "user", "content": "Tell me about the sea."}],
                    "max_completion_tokens": 20,
                    "stream": stream,
                },
            )
            assert answer.status_code == 200
        assert client.post("/v1/chat/completions", json={}).status_code == 400
        return list(text_string_to_metric_families(client.get("/metrics").text))


def exported(scrape: list[Metric]) -> dict[str, set[str]]:
    """Name of each series to its labels."""
    return {s.name: set(s.labels) for family in scrape for s in family.samples}


@pytest.mark.parametrize("expression", sorted({*expressions(), *alert_expressions()}))
def test_a_query_selects_series_that_a_server_exports(
    expression: str, scrape: list[Metric]
) -> None:
    series = exported(scrape)
    names = metric_names(expression) - SCRAPE_METRICS
    assert names <= set(series)
    for name in names:
        assert label_names(expression) <= series[name] | SCRAPE_LABELS


def test_late_is_within_what_the_histogram_can_tell(scrape: list[Metric]) -> None:
    # histogram_quantile never answers more than the last finite bound: an alert above it
    # could not ring.
    bounds = {
        float(sample.labels["le"])
        for family in scrape
        for sample in family.samples
        if sample.name == "paceline_pacing_lag_seconds_bucket"
    }
    (late,) = (e for e in alert_expressions() if "paceline_pacing_lag_seconds" in e)
    threshold = float(late.rpartition(">")[2])
    assert threshold < max(bound for bound in bounds if math.isfinite(bound))
    assert threshold in bounds
