"""The document of results reads back as it was written, holds no key, and names what is wrong."""

from __future__ import annotations

import json
from array import array
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from paceline_loadtest.model import Call, Loop, LoopRun, ToolRun, ToolSpan, Turn, TurnRun
from paceline_loadtest.report import (
    Results,
    ResultsError,
    from_json,
    relative,
    to_json,
)
from paceline_loadtest.report.results import document
from tests.loadtest.report_fixture import results
from tests.loadtest.report_strategies import RESULTS

slow = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


@slow
@given(RESULTS)
def test_any_results_read_back_as_they_were(found: Results) -> None:
    assert from_json(document(found, [])) == found


def test_a_run_reads_back_with_its_figures_beside_it() -> None:
    run = results(loops=2)
    text = to_json(run)
    assert from_json(text) == run
    summary = json.loads(text)["summary"]
    assert [one["target"] for one in summary] == [target.label for target in run.targets]
    assert to_json(from_json(text)) == text


def test_a_loop_is_written_once_however_often_it_was_run() -> None:
    run = results(loops=2)
    written = json.loads(to_json(run))["loops"]
    assert len(written) == 2


@slow
@given(RESULTS)
def test_no_way_in_is_kept(found: Results) -> None:
    for run in found.targets:
        assert run.target.api_key == ""
        assert run.target.base_url in {"http://127.0.0.1:8000/v1", "https://host.example/v1"}
    assert "api_key" not in document(found, [])


def test_times_become_relative_to_the_start_and_nothing_is_shared() -> None:
    inner = LoopRun(_loop(), 103.0, [], 104.0)
    call = Call(
        101.0,
        slot_at=101.1,
        sent_at=101.2,
        headers_at=101.3,
        first_at=101.4,
        first_visible_at=101.45,
        last_at=101.5,
        end_at=101.6,
        chunk_at=array("d", [101.4, 101.5]),
        waited_s=0.25,
    )
    turn = TurnRun(100.5, call, [ToolSpan("t", 102.0, 105.0, [inner])], 106.0)
    run = LoopRun(_loop(), 100.0, [turn], 107.0)
    (moved,) = relative([run], 100.0)
    assert (moved.started_at, moved.ended_at) == (0.0, 7.0)
    found = moved.turns[0]
    assert (found.started_at, found.ended_at) == (0.5, 6.0)
    stamps = (
        found.call.scheduled_at,
        found.call.slot_at,
        found.call.sent_at,
        found.call.headers_at,
        found.call.first_at,
        found.call.first_visible_at,
        found.call.last_at,
        found.call.end_at,
    )
    assert stamps == (1.0, 1.1, 1.2, 1.3, 1.4, 1.45, 1.5, 1.6)
    assert found.call.chunk_at.tolist() == [1.4, 1.5]
    assert found.call.waited_s == 0.25
    assert (found.tools[0].started_at, found.tools[0].ended_at) == (2.0, 5.0)
    assert (found.tools[0].loops[0].started_at, found.tools[0].loops[0].ended_at) == (3.0, 4.0)
    moved.turns[0].call.server.queue_s = 9.0
    moved.turns[0].call.chunk_at.append(1.0)
    assert run.turns[0].call.server.queue_s is None
    assert len(run.turns[0].call.chunk_at) == 2


def test_money_is_exact_text_or_says_that_no_rate_is_published() -> None:
    run = results(loops=2)
    summary = {one["target"]: one for one in json.loads(to_json(run))["summary"]}
    assert summary["spark-1000"]["money"] == "no rate published"
    total = sum(
        (Decimal(call.server.cost_usd or "") for call in run.targets[0].calls()), Decimal(0)
    )
    assert Decimal(summary["gpu-40"]["money"]["total_usd"]) == total
    assert isinstance(summary["gpu-40"]["money"]["total_usd"], str)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(version=2), "version 2 of the results; known: 1"),
        (lambda d: d.update(format="other"), "no format"),
        (lambda d: d.update(loops={}), "loops: not a list"),
        (lambda d: d["run"].pop("info"), "run.info: missing"),
        (lambda d: d["run"].update(more=1), "run.more: no such field"),
        (lambda d: d["run"]["info"].update(seed="7"), "run.info.seed: '7' is not of type int"),
        (lambda d: d["run"]["info"].update(seed=True), "run.info.seed: True is not of type int"),
        (lambda d: d["run"]["info"].update(dialect="x"), "run.info.dialect: 'x' is none of chat"),
        (
            lambda d: d["run"]["targets"][0]["loops"][0].update(loop=99),
            r"run.targets\[0\].loops\[0\].loop: there is no loop 99",
        ),
        (
            lambda d: d["run"]["targets"][0]["loops"][0]["turns"][0]["call"].update(end_at="x"),
            r"turns\[0\].call.end_at: 'x' is not a number",
        ),
        (
            lambda d: d["run"]["targets"][0].update(rate=float("inf")),
            r"run.targets\[0\].rate: inf is not a finite number",
        ),
        (
            lambda d: d["run"]["targets"][0]["target"].update(api_key="x"),
            r"run.targets\[0\].target.api_key: no such field",
        ),
    ],
)
def test_what_is_wrong_is_named(change: Any, said: str) -> None:
    whole = json.loads(to_json(results(loops=1)))
    change(whole)
    with pytest.raises(ResultsError, match=said):
        from_json(json.dumps(whole))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", b"\xff\xfe", "null", '{"format": 1}', "[" * 100_000]
)
def test_what_is_no_document_is_refused(text: str | bytes) -> None:
    with pytest.raises(ResultsError):
        from_json(text)


def test_a_time_that_is_no_number_is_not_written() -> None:
    run = results(loops=1)
    run.targets[0].loops[0].ended_at = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        document(run, [])


def _loop() -> Loop:
    return Loop("l", 10, 0, 0, (Turn(1, 0, 1, (ToolRun("t", 1.0, 1),)),))
