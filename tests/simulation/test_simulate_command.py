"""`paceline simulate` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from paceline.simulate_command import app

GOLDEN = Path(__file__).parent / "golden_run.json"
PROFILE = """
name = "tiny"
title = "Ten milliseconds a step, two slots"
[engine]
step_ms = 10.0
step_ms_per_prefill_token = 0.5
max_num_seqs = 2
max_num_batched_tokens = 64
[prefix_cache]
min_tokens = 32
block_tokens = 16
[sources]
engine = { class = "hypothesis", from = "made up" }
prefix_cache = { class = "hypothesis", from = "made up" }
"""
TRACE = """{"at_s": 0.0, "prompt_tokens": 70, "output_tokens": 3, "blocks": [1, 2, 3, 4], \
"block_tokens": 16}
{"at_s": 0.01, "prompt_tokens": 40, "output_tokens": 1, "blocks": [5, 6], "block_tokens": 16}
{"at_s": 0.02, "prompt_tokens": 80, "output_tokens": 5, "blocks": [1, 2, 3, 9, 10], \
"block_tokens": 16}
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "tiny.toml").write_text(PROFILE, "utf-8")
    (tmp_path / "trace.jsonl").write_text(TRACE, "utf-8")
    paths = ["--profiles", str(tmp_path / "tiny.toml"), "--trace", str(tmp_path / "trace.jsonl")]
    return ["--profile", "tiny", *paths]


def run(*args: str) -> str:
    result = CliRunner().invoke(app, args, terminal_width=200)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*args: str) -> Any:
    return json.loads(run(*args, "--json"))


def complaint(*args: str) -> str:
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 2
    return result.output


def test_a_tiny_run_in_full(files: list[str]) -> None:
    """Steps end at 42, 75, 101, 111, 121, 131 and 141 ms.

    64 of the first 70 prompt tokens take 42 ms; their last 6 and the second's 40 take 33. The
    third waits for the second's slot, finds 48 of its 80 tokens cached, and takes 26 for the rest.
    """
    prices = ["--price", "input:4,cached:0.4,output:20"]
    found = run_json(*files, "--slo", "ttft:80,tpot:50", *prices)
    assert found == json.loads(GOLDEN.read_text("utf-8"))


def test_the_same_command_says_the_same() -> None:
    args = ["--profile", "kimi-k2.6", "--rate", "5", "--requests", "200", "--seed", "7"]
    lengths = ["--input", "lognormal:1000,4000", "--output", "uniform:10,50"]
    first = run(*args, *lengths, "--json")
    assert run(*args, *lengths, "--json") == first
    assert run(*args[:-1], "8", *lengths, "--json") != first


def test_kimi_on_wafers_and_on_gpus() -> None:
    """10,000 tokens in, 500 out and the 4,400 of reasoning that medium effort stands for."""
    found = run_json(
        *("--profile", "kimi-k2.6-cerebras", "--profile", "kimi-k2.6"),
        *("--users", "1", "--requests", "1"),
        *("--input", "10000", "--output", "500", "--effort", "medium"),
    )
    wafer, gpu = found["profiles"]
    assert wafer["output_tokens"] == gpu["output_tokens"] == 4900
    assert wafer["e2e_ms"]["mean"] == pytest.approx(5600, abs=50)
    assert gpu["e2e_ms"]["mean"] == pytest.approx(163_700, abs=500)
    for side in (wafer, gpu):
        assumed = {about["key"]: about for about in side["assumptions"]}
        assert assumed["reasoning.medium"]["class"] == "estimate"
        assert assumed["reasoning.medium"]["value"] == 4400
        assert assumed["engine.step_ms"]["from"]


def test_the_assumptions_stand_beside_the_figures() -> None:
    text = run("--profile", "kimi-k2.6", "--users", "1", "--requests", "1", "--sources")
    assert "kimi-k2.6 assumes:" in text
    assert "engine.step_ms_per_seq" in text
    assert "hypothesis" in text


def test_several_profiles_flat_ones_too() -> None:
    found = run_json("--profile", "flat-40", "--profile", "wafer-750", "--rate", "3")
    flat, wafer = found["profiles"]
    assert flat["tpot_ms"]["p99"] == pytest.approx(25.0)
    assert flat["slot_use"] is None
    assert wafer["replicas"] == 8
    assert (
        run_json("--profile", "wafer-750", "--replicas", "2", "--users", "3")["profiles"][0][
            "replicas"
        ]
        == 2
    )


def test_a_trace_cut_repeated_and_sped_up(files: list[str]) -> None:
    found = run_json(*files, "--repeat", "5", "--limit", "7", "--speedup", "2", "--warmup", "2")
    assert found["profiles"][0]["requests"] == 5
    assert found["workload"] == {
        "kind": "trace",
        "name": "trace.jsonl",
        "requests_in_trace": 3,
        "speedup": 2.0,
        "repeat": 5,
        "limit": 7,
        "warmup": 2,
    }


def test_capacity_in_users_is_the_slots(files: list[str]) -> None:
    """With a third user somebody always waits for an answer of 100 ms."""
    args = ["--profile", "tiny", *files[2:4], "--users", "1", "--capacity"]
    sizes = ["--input", "10", "--output", "10"]
    found = run_json(*args, *sizes, "--slo", "ttft:60")
    (answer,) = found["profiles"]
    assert (answer["capacity"], answer["bounded"], answer["unit"]) == (2.0, True, "users")
    assert [probe["holds"] for probe in answer["search"]] == [True, True, False, False]
    assert "users" not in found["workload"]
    text = run(*args, *sizes, "--slo", "ttft:60", "--percentile", "90")
    assert "tiny holds p90 TTFT ≤ 60 ms up to 2 users." in text


def test_capacity_of_a_trace_is_a_speed(files: list[str]) -> None:
    (answer,) = run_json(*files, "--capacity", "--slo", "e2e:100000")["profiles"]
    assert (answer["load"], answer["bounded"]) == ("speedup", False)
    (answer,) = run_json(*files, "--capacity", "--slo", "e2e:1")["profiles"]
    assert answer["capacity"] is None


def test_pictures(files: list[str], tmp_path: Path) -> None:
    svg, html = tmp_path / "a.svg", tmp_path / "a.html"
    run(*files, "--svg", str(svg), "--html", str(html))
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert "<table>" in html.read_text("utf-8")
    run("articles", "--svg", str(svg), "--html", str(html))
    assert "1,324 at 340" in svg.read_text("utf-8")
    assert "601st" in html.read_text("utf-8")


def test_articles_in_one_run() -> None:
    found = run_json("articles")
    assert [side["users_held"] for side in found["sides"]] == [1324, 600]
    assert found["sides"][1]["beyond"]["waiting"] == 1
    assert {about["class"] for about in found["assumptions"]["wafer-600"]} >= {"hypothesis"}
    assert "Rate a user × users = rate in all." in " ".join(run("articles").split())


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--rate", "1"], "say which profile"),
        (["--profile", "gpu-40"], "say what arrives"),
        (["--profile", "gpu-41", "--rate", "1"], "Did you mean gpu-40"),
        (["--profile", "gpu-40", "--rate", "0"], "rate must be above 0"),
        (["--profile", "gpu-40", "--rate", "1", "--users", "1"], "--users or --rate"),
        (["--profile", "gpu-40", "--rate", "1", "--input", "x"], "--input must be"),
        (["--profile", "gpu-40", "--rate", "1", "--slo", "x:1"], "an SLO is"),
        (["--profile", "gpu-40", "--rate", "1", "--price", "4"], "prices are"),
        (["--profile", "gpu-40", "--rate", "1", "--effort", "most"], "--effort must be"),
        (["--profile", "gpu-40", "--trace", "gone.csv"], "No such file"),
        (["--profile", "gpu-40", "--trace", "gone.csv", "--rate", "1"], "--speedup"),
        (["--profile", "gpu-40", "--rate", "1", "--limit", "5"], "are for a --trace"),
        (["--profile", "gpu-40", "--trace", "a", "--requests", "5"], "--limit cuts"),
        (["--profile", "gpu-40", "--capacity"], "needs an --slo"),
        (["--profile", "gpu-40", "--capacity", "--svg", "a.svg"], "for a single run"),
        (["--profile", "gpu-40", "--profiles", "gone.toml", "--rate", "1"], "gone.toml"),
        (["--profile", "gpu-40", "--rate", "1", "--svg", "gone/a.svg"], "gone/a.svg"),
    ],
)
def test_mistakes_are_named(args: list[str], word: str) -> None:
    assert word in " ".join(complaint(*args).split())
