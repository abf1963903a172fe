"""Result files of other benchmark programs, as small as they can be and still be theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.fit.points import Point, PointsError
from paceline.fit.readers import read_points

VLLM = {
    "date": "20260101-120000",
    "endpoint_type": "vllm",
    "model_id": "meta/llama",
    "num_prompts": 40,
    "request_rate": "inf",
    "max_concurrency": 8,
    "duration": 20.0,
    "completed": 40,
    "total_input_tokens": 40_960,
    "total_output_tokens": 5_120,
    "request_throughput": 2.0,
    "mean_ttft_ms": 120.0,
    "median_ttft_ms": 100.0,
    "mean_tpot_ms": 15.0,
    "mean_itl_ms": 15.0,
}


def summary(mean: float) -> dict[str, Any]:
    """One of guidellm's distributions, broken down by status."""
    return {"successful": {"mean": mean, "median": mean, "count": 40}, "errored": None}


GUIDELLM = {
    "metadata": {"version": 2},
    "benchmarks": [
        {
            "type_": "generative_benchmark",
            "config": {"strategy": strategy},
            "metrics": {
                "request_totals": {"successful": 40, "errored": 0, "incomplete": 0, "total": 40},
                "request_concurrency": summary(3.6),
                "prompt_token_count": summary(1024.0),
                "output_token_count": summary(128.0),
                "time_to_first_token_ms": summary(90.0),
                "inter_token_latency_ms": summary(12.0),
            },
        }
        for strategy in (
            {"type_": "synchronous"},
            {"type_": "concurrent", "streams": 8},
            {"type_": "constant", "rate": 2.0},
        )
    ],
}

AIPERF = {
    "schema_version": "1.4",
    "request_count": {"unit": "requests", "avg": 40.0},
    "request_throughput": {"unit": "requests/sec", "avg": 4.0},
    "request_latency": {"unit": "ms", "avg": 2000.0},
    "time_to_first_token": {"unit": "ms", "avg": 95.5, "p50": 90.0},
    "inter_token_latency": {"unit": "ms", "avg": 11.5},
    "input_sequence_length": {"unit": "tokens", "avg": 1000.2},
    "output_sequence_length": {"unit": "tokens", "avg": 200.0},
    "input_config": {
        "models": ["meta/llama"],
        "phases": [
            {"name": "warmup", "type": "concurrency", "concurrency": 2},
            {"name": "profiling", "type": "concurrency", "concurrency": 16},
        ],
    },
}


def record(start_s: float, end_s: float, **changes: Any) -> dict[str, Any]:
    """A line of AIPerf's profile_export.jsonl."""
    values = {
        "time_to_first_token": (100.0, "ms"),
        "inter_token_latency": (10.0, "ms"),
        "input_sequence_length": (512, "tokens"),
        "output_sequence_length": (64, "tokens"),
    }
    return {
        "metadata": {
            "request_start_ns": int(start_s * 1e9),
            "request_end_ns": int(end_s * 1e9),
            "benchmark_phase": changes.get("phase", "profiling"),
            "was_cancelled": False,
        },
        "metrics": {name: {"value": v, "unit": unit} for name, (v, unit) in values.items()},
        "error": changes.get("error"),
    }


def written(folder: Path, name: str, *documents: object) -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(document) for document in documents), "utf-8")
    return path


def test_vllm_bench_serve(tmp_path: Path) -> None:
    found = read_points([written(tmp_path, "run.json", VLLM)])
    assert found == {"meta/llama": [Point(1024, 128, 8, 120.0, 15.0, shortest=1.0, rounds=5)]}


def test_without_a_limit_littles_law_says_how_many_were_under_way(tmp_path: Path) -> None:
    """2 requests a second, each of 120 + 127 * 15 ms."""
    path = written(tmp_path, "run.json", {**VLLM, "max_concurrency": None})
    assert read_points([path])["meta/llama"][0].users == 4


def test_runs_of_one_model_are_one_deployment(tmp_path: Path) -> None:
    more = {**VLLM, "max_concurrency": 16}
    files = [written(tmp_path, "a.json", VLLM), written(tmp_path, "b.jsonl", more, more)]
    assert [point.users for point in read_points(files)["meta/llama"]] == [8, 16, 16]


def test_guidellm(tmp_path: Path) -> None:
    points = read_points([written(tmp_path, "benchmarks.json", GUIDELLM)])["measured"]
    assert [point.users for point in points] == [1, 8, 4]
    assert points[1] == Point(1024, 128, 8, 90.0, 12.0, shortest=1.0, rounds=5)


def test_aiperf_summary(tmp_path: Path) -> None:
    points = read_points([written(tmp_path, "profile_export_aiperf.json", AIPERF)])["meta/llama"]
    assert points == [Point(1000, 200, 16, 95.5, 11.5, shortest=1.0, rounds=2)]


def test_aiperf_summary_of_an_older_version(tmp_path: Path) -> None:
    config = {"loadgen": {"concurrency": 4}, "endpoint": {"model_names": ["old"]}}
    path = written(tmp_path, "old.json", {**AIPERF, "input_config": config})
    assert read_points([path])["old"][0].users == 4


def test_aiperf_records(tmp_path: Path) -> None:
    lines = [
        record(0, 0, phase="warmup"),
        record(0, 10, error={"code": 500}),
        *(record(start, start + 1.5) for start in range(6)),
    ]
    points = read_points([written(tmp_path, "profile_export.jsonl", *lines)])["measured"]
    assert points == [Point(512, 64, 2, 100.0, 10.0, shortest=1.0, rounds=3)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{}", "no result of"),
        ("[1, 2]", "no result of"),
        ("not json", "neither JSON nor JSON Lines"),
        ('{"mean_ttft_ms": 5}', "no result of"),
        ('{"benchmarks": [{}]}', "no result of"),
        ('{"time_to_first_token": null}', "no result of"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, "utf-8")
    with pytest.raises(PointsError, match=complaint):
        read_points([path])


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PointsError, match="No such file"):
        read_points([tmp_path / "none.json"])
