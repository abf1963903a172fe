"""The reader of PromQL that the other tests here rely on."""

from __future__ import annotations

import pytest

from tests.deploy.promql import label_names, metric_names


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("up", {"up"}),
        ("sum(vllm:num_requests_running)", {"vllm:num_requests_running"}),
        (
            'sum by (model_name) (rate(vllm:prompt_tokens_total{engine=~"$engine"}[30s]))',
            {"vllm:prompt_tokens_total"},
        ),
        (
            "histogram_quantile(0.99, sum by (le) (rate(a_seconds_bucket[$__rate_interval])))",
            {"a_seconds_bucket"},
        ),
        ("rate(a_sum[1m]) / rate(a_count[1m]) > 1e-3", {"a_sum", "a_count"}),
        ('a{x="not(b)"} and on (x) c unless d offset 5m', {"a", "c", "d"}),
        ("time() - 5", set()),
    ],
)
def test_metric_names(expression: str, names: set[str]) -> None:
    assert metric_names(expression) == names


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("up", set()),
        ('a{profile=~".+", engine!="0"}', {"profile", "engine"}),
        ('sum by (le, tier) (rate(a{x="y"}[1m]))', {"le", "tier", "x"}),
    ],
)
def test_label_names(expression: str, names: set[str]) -> None:
    assert label_names(expression) == names
