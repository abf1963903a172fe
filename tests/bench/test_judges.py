"""What judges.py computes from records, reads of the judges' results, and writes into the page."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import judge_records
import judge_tokenizer
import judges
import pytest
from judge import ID_PREFIX, Judge, Load, Verdict
from judge_records import Served, served
from judge_tools import JUDGES, LOADS

from paceline.runtime.vocabulary import ORIGINAL_SHA256, unpack_ranks

BY_NAME = {judge.name: judge for judge in JUDGES}
LOAD = Load("l", "a load", "flat-40", requests=2, output_tokens=3, streams=2)


def record(**changes: Any) -> dict[str, Any]:
    """As the server gives it: three tokens, two of them in one write."""
    chunks = [{"left_ms": 100.0, "tokens": 1}, {"left_ms": 130.0, "tokens": 2}]
    return {
        "id": "req_1",
        "state": "finished",
        "received_ns": 5_000_000_000,
        "output_tokens": 3,
        "times_ms": {"ended": 131.0},
        "choices": [{"chunks": chunks, "chunks_not_kept": 0}],
        **changes,
    }


FIRST = Served(1000.0, (1100.0, 1110.0, 1130.0), 1131.0)
SECOND = Served(1020.0, (1140.0, 1170.0), 1175.0)


def test_a_record_becomes_the_times_of_its_tokens() -> None:
    found = served(record())
    assert found == Served(5000.0, (5100.0, 5130.0, 5130.0), 5131.0)
    assert (found.tokens, found.ttft_ms, found.decode_ms) == (3, 100.0, 30.0)
    assert found.gaps_ms == [30.0, 0.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "running"},
        {"state": "aborted"},
        {"output_tokens": 4},
        {"choices": [{"chunks": [], "chunks_not_kept": 1}]},
    ],
)
def test_a_record_that_is_not_complete_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match="req_1"):
        served(record(**changes))


def test_figures_follow_each_judges_definition() -> None:
    own = {
        (judge.name, metric.name): metric.own([FIRST, SECOND])
        for judge in JUDGES
        for metric in judge.metrics
    }
    for judge in JUDGES:
        assert own[judge.name, "TTFT, mean"] == own[judge.name, "TTFT, median"] == 110.0
        assert own[judge.name, "output tokens"] == 5
    # (30 + 30) ms over (2 + 1) gaps; and (15 + 30) / 2.
    assert own["guidellm", "ITL, mean"] == 20.0
    assert own["vllm", "ITL, mean"] == 20.0
    assert own["aiperf", "ITL, mean"] == own["vllm", "TPOT, mean"] == 22.5
    assert own["guidellm", "TPOT, mean"] == (130 + 150) / 5
    assert own["guidellm", "E2E, mean"] == (131 + 155) / 2
    assert own["aiperf", "E2E, mean"] == own["vllm", "E2E, mean"] == (130 + 150) / 2
    assert own["aiperf", "output tok/s"] == pytest.approx(5 / 0.170)
    assert own["vllm", "output tok/s"] == pytest.approx(5 / 0.170)
    assert own["guidellm", "output tok/s"] == pytest.approx(5 / 0.175)
    # Of 10, 20 and 30.
    assert own["aiperf", "gap, p99"] == own["vllm", "gap, p99"] == pytest.approx(29.8)


def test_arrivals_are_counted_from_the_first_to_the_last() -> None:
    third = Served(1500.0, (1600.0,), 1600.0)
    assert judge_records.arrivals([third, FIRST, SECOND]) == 4.0


def test_percentiles_are_interpolated_over_all_requests() -> None:
    requests = [Served(0.0, tuple(float(x) for x in range(101)), 100.0)]
    own = judge_records.worst_hundredth(lambda r: r.left_ms)
    assert own(requests) == 99.0


def _result(judge: Judge, out: Path) -> Verdict:
    if judge.name == "guidellm":
        means = {
            "time_to_first_token_ms": 110.5,
            "inter_token_latency_ms": 20.5,
            "time_per_output_token_ms": 56.0,
            "request_latency": 0.1435,
            "output_tokens_per_second": 28.5,
            "output_token_count": 2.5,
        }
        metrics = {
            k: {"successful": {"mean": v, "median": v, "total_sum": 5}} for k, v in means.items()
        }
        (out / "result.json").write_text(json.dumps({"benchmarks": [{"metrics": metrics}]}))
    elif judge.name == "aiperf":
        totals = {
            "time_to_first_token": {"avg": 110.5, "p50": 110.5},
            "inter_token_latency": {"avg": 22.6},
            "inter_chunk_latency": {"p99": 31.0},
            "request_latency": {"avg": 140.5},
            "output_token_throughput": {"avg": 29.0},
            "benchmark_duration": {"avg": 0.171},
            "total_output_tokens": {"avg": 5},
        }
        (out / "profile_export_aiperf.json").write_text(json.dumps(totals))
        phases = [("w", "warmup"), ("a", "profiling"), ("b", "profiling")]
        lines = [
            json.dumps({"metadata": {"x_request_id": name, "benchmark_phase": phase}})
            for name, phase in phases
        ]
        (out / "profile_export.jsonl").write_text("\n".join(lines) + "\n")
    else:
        result = {
            "mean_ttft_ms": 110.5,
            "median_ttft_ms": 110.5,
            "mean_tpot_ms": 22.6,
            "mean_itl_ms": 20.5,
            "p99_itl_ms": 31.0,
            "mean_e2el_ms": 140.5,
            "output_throughput": 28.5,
            "total_output_tokens": 5,
            "start_times": [7.0, 7.02],
            "latencies": [0.13, 0.151],
        }
        (out / "result.json").write_text(json.dumps(result))
    return judge.read(LOAD, out)


@pytest.mark.parametrize("name", list(BY_NAME))
def test_every_metric_of_a_judge_is_read_and_compared(name: str, tmp_path: Path) -> None:
    judge = BY_NAME[name]
    verdict = _result(judge, tmp_path)
    rows = judges.compare(judge, dict(verdict.figures), [FIRST, SECOND])
    assert [row.metric for row in rows] == [metric.name for metric in judge.metrics]
    assert set(verdict.figures) == {metric.name for metric in judge.metrics}
    # The figures above are the server's own and a little: a wrong unit would be far off.
    assert all(abs(row.off_pct) < 5 for row in rows)


def test_what_a_judge_counted_is_told_by_its_ids(tmp_path: Path) -> None:
    ids = {name: _result(judge, tmp_path).ids for name, judge in BY_NAME.items()}
    assert ids == {
        "guidellm": None,
        "aiperf": frozenset({"a", "b"}),
        "vllm": frozenset({f"{ID_PREFIX}0", f"{ID_PREFIX}1"}),
    }


def test_a_figure_that_is_held_is_missed_beyond_two_percent() -> None:
    missed = {
        (judge, held): judges.Row("m", "ms", judge, 100.0, held).missed
        for judge in (97.9, 98.1, 101.9, 102.1)
        for held in (True, False)
    }
    assert missed == {(judge, held): held and judge in {97.9, 102.1} for judge, held in missed}


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_judge_is_told_the_whole_load(judge: Judge, load: Load) -> None:
    url = "http://127.0.0.1:1"
    text = judge.shown(load, url, Path("bench/out/judges/x"))
    for told in (load.model, load.requests, load.output_tokens, url):
        assert str(told) in text
    assert str(load.streams or f"{load.rate:g}") in text
    # Shown in the docs: it must mean the same on another machine.
    assert str(Path(__file__).resolve().parents[2]) not in text


def test_the_page_is_written_between_its_marks(tmp_path: Path) -> None:
    path = tmp_path / "judges.md"
    path.write_text(f"head\n{judges.BEGIN}last week\n{judges.END}tail\n")
    row = judges.Row("TTFT, mean", "ms", 103.0, 100.0, held=True)
    other = judges.Row("gap, p99", "ms", 103.0, 100.0, held=False)
    load = LOADS[0]
    findings = [
        judges.Finding(load.name, "vllm", "1.2", "vllm bench", (row, other), 0.0),
        judges.Finding(load.name, "aiperf", "3.4", "aiperf profile", (), 0.5, "RuntimeError: no"),
    ]
    judges.write(judges.page(findings, [load], list(JUDGES)), path)
    text = path.read_text()
    assert text.startswith(f"head\n{judges.BEGIN}")
    assert text.endswith(f"{judges.END}tail\n")
    assert "last week" not in text
    assert "| vllm bench serve 1.2 | TTFT, mean | 103.0 ms | 100.0 ms | **+3.00 %** |" in text
    assert "| +3.00 % (not held) |" in text
    assert "| AIPerf 3.4 | failed: RuntimeError: no |" in text
    assert "took up to 0.5 of the two cores" in text
    path.write_text("no marks")
    with pytest.raises(ValueError, match=r"judges\.md"):
        judges.write("text", path)


def test_the_docs_page_has_a_place_for_it() -> None:
    text = judges.PAGE.read_text("utf-8")
    assert text.count(judges.BEGIN) == text.count(judges.END) == 1


def test_tiktokens_file_is_the_original() -> None:
    made = judge_tokenizer.tiktoken_file(unpack_ranks())
    assert hashlib.sha256(made).hexdigest() == ORIGINAL_SHA256


def test_every_pair_that_makes_a_token_is_a_merge_in_rank_order() -> None:
    ranks = {b"a": 0, b"b": 1, b" ": 2, b"ab": 3, b" a": 4, b" ab": 5, b"abab": 6}
    made: Any = judge_tokenizer.hugging_face(ranks)
    assert made["model"]["vocab"] == {
        "a": 0,
        "b": 1,
        "Ġ": 2,
        "ab": 3,
        "Ġa": 4,
        "Ġab": 5,
        "abab": 6,
    }
    assert made["model"]["merges"] == [
        ["a", "b"],
        ["Ġ", "a"],
        ["Ġ", "ab"],
        ["Ġa", "b"],
        ["ab", "ab"],
    ]
