"""The figures, worked out by hand: speed-ups and their bound, money, the prediction, the words."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from decimal import Decimal

import pytest
from rich.console import Console

from paceline_loadtest.model import Call, Loop, LoopRun, Target, ToolRun, ToolSpan, Turn, TurnRun
from paceline_loadtest.report import (
    Lateness,
    Results,
    RunInfo,
    TargetRun,
    Threshold,
    compare,
    print_comparison,
    print_report,
)
from paceline_loadtest.report.figures import base_of, figures
from paceline_loadtest.report.gains import floor_s
from paceline_loadtest.report.plots import amdahl, costs, ecdf, predictions, speedups, users
from paceline_loadtest.report.summary import summary_of
from paceline_loadtest.report.words import (
    dollars,
    milliseconds,
    percent,
    rate,
    seconds,
    sentence,
    signed_percent,
    times,
)
from tests.loadtest.report_fixture import results

INFO = RunInfo("s", 1, "lean", "chat", "0", "")


def loop(name: str, model_s: float, tool_s: float, cost: str | None = None) -> LoopRun:
    """One turn: a request that takes so long, of 101 tokens, then a tool; 1 s of think time."""
    call = Call(
        1.0,
        slot_at=1.0,
        sent_at=1.0,
        first_at=1.0,
        first_visible_at=1.0,
        last_at=1.0 + model_s,
        end_at=1.0 + model_s,
        output_tokens=101,
    )
    call.server.cost_usd = cost
    done = 1.0 + model_s + tool_s
    tool = ToolSpan("t", 1.0 + model_s, done)
    planned = Loop(name, 1, 0, 0, (Turn(1, 0, 101, (ToolRun("t", tool_s, 1),), think_s=1.0),))
    return LoopRun(planned, 0.0, [TurnRun(0.0, call, [tool], done)], done)


def target(label: str, *loops: LoopRun, **about: object) -> TargetRun:
    return TargetRun(Target(label, "http://h/v1", label), list(loops), **about)  # type: ignore[arg-type]  # fields by name


def test_speed_up_and_its_bound() -> None:
    base, fast = loop("a", 10.0, 4.0, "0.10"), loop("a", 1.0, 4.0, "0.25")
    slow, quick = figures(Results(INFO, [target("base", base), target("fast", fast)]))
    assert slow.speedup is None
    gain = quick.speedup
    assert gain is not None
    # 15 s against 6 s; tools and think time are 5 s of the 15.
    assert gain.task == pytest.approx(2.5)
    assert gain.tokens == pytest.approx(10.0)
    assert gain.most == pytest.approx(3.0)
    assert gain.held_by == pytest.approx(1 / 3)
    assert amdahl(10 / 15, 10.0) == pytest.approx(gain.task)
    assert amdahl(10 / 15, 1e12) == pytest.approx(gain.most)
    money = quick.money
    assert money is not None
    assert money.task_usd == Decimal("0.25")
    assert money.saved_usd_s == Decimal("0.15") / 9
    assert sentence(quick) == (
        "On fast tokens come 10.0× as fast as on base, and the task ends 2.50× as fast: 6.00 s "
        "instead of 15.0 s. Tools and think time are 33% of the task on base and 83% here, and "
        "bound it: 3.00× if the model took no time at all."
    )
    assert sentence(slow).startswith("On base a task takes 15.0 s: 67% visible output, 27% tools")


def test_only_loops_that_ended_on_both_are_compared() -> None:
    broken = replace(loop("a", 5.0, 1.0), stopped="HTTP 500: no")
    base = target("base", loop("a", 10.0, 1.0), loop("b", 20.0, 1.0))
    fast = target("fast", broken, loop("b", 10.0, 1.0), loop("c", 1.0, 1.0))
    found = figures(Results(INFO, [base, fast]))[1]
    assert found.speedup is not None
    assert found.speedup.loops == 1
    assert found.speedup.task == pytest.approx(22 / 12)
    assert (found.finished, found.stopped) == (2, {"HTTP 500: no": 1})


def test_a_loop_that_is_run_twice_is_compared_in_its_order() -> None:
    base = target("base", loop("a", 10.0, 1.0), loop("a", 20.0, 1.0))
    fast = target("fast", loop("a", 5.0, 1.0), loop("a", 6.0, 1.0))
    gain = figures(Results(INFO, [base, fast]))[1].speedup
    assert gain is not None
    assert gain.task == pytest.approx((12 + 22) / (7 + 8))


def test_where_nothing_but_the_model_takes_time_nothing_bounds_it() -> None:
    def bare(model_s: float) -> LoopRun:
        run = loop("a", model_s, 0.0)
        run.turns[0].started_at = run.started_at = 1.0
        return run

    found = figures(Results(INFO, [target("base", bare(10.0)), target("fast", bare(2.0))]))[1]
    assert found.speedup is not None
    assert found.speedup.most is None
    assert "nothing else bounds it" in sentence(found)


@pytest.mark.parametrize(("parallel", "floor"), [(True, 1.0 + 5.0), (False, 1.0 + 8.0)])
def test_what_is_left_of_a_loop_without_its_model(parallel: bool, floor: float) -> None:
    run = loop("a", 10.0, 3.0)
    end = run.turns[0].tools[0].ended_at
    run.turns[0].tools.append(ToolSpan("u", 11.0, 16.0))
    run.loop = replace(run.loop, turns=(replace(run.loop.turns[0], parallel=parallel),))
    run.ended_at = max(end, 16.0)
    assert floor_s(run) == pytest.approx(floor)


def test_sub_agents_leave_their_own_tools() -> None:
    inner = loop("i", 10.0, 3.0)
    run = loop("a", 10.0, 0.0)
    # The agents' tool takes a second after the last of them.
    run.turns[0].tools = [ToolSpan("agents", 0.0, 15.0, [inner, loop("j", 2.0, 3.5)])]
    assert floor_s(run) == pytest.approx(1.0 + 1.0 + 1.0 + 3.5)


def test_the_base_is_the_first_target_under_the_same_load() -> None:
    run = Results(INFO, [target("a", users=1), target("a", users=4), target("b", users=4)])
    assert base_of(run, run.targets[2]) is run.targets[1]
    assert base_of(run, target("b", users=9)) is run.targets[0]


def test_a_price_that_is_missing_anywhere_is_no_price() -> None:
    found = figures(Results(INFO, [target("a", loop("a", 1.0, 1.0, "0.1"), loop("b", 1.0, 1.0))]))
    assert found[0].money is None
    assert dollars(None) == "no rate published"


def test_a_dearer_target_that_saves_nothing_has_no_price_of_a_second() -> None:
    runs = [target("a", loop("a", 1.0, 1.0, "0.1")), target("b", loop("a", 2.0, 1.0, "0.2"))]
    money = figures(Results(INFO, runs))[1].money
    assert money is not None
    assert money.saved_usd_s is None


def test_predicted_against_measured() -> None:
    run = target("a", loop("a", 10.2, 4.0), loop("b", 5.0, 4.0))
    run.predicted = [loop("a", 10.0, 4.0)]
    found = figures(Results(INFO, [run]))
    prediction = found[0].prediction
    assert prediction is not None
    assert prediction.loops == 1
    assert prediction.difference == pytest.approx(0.2 / 15)
    plot = predictions(found)
    assert plot is not None
    assert plot.chart.lines[0].points == [(15.0, 15.2)]


def test_errors_come_first_and_by_kind() -> None:
    run = results(loops=2)
    calls = list(run.targets[0].calls())
    calls[0].error, calls[0].status = "HTTP 429: slow down", 429
    calls[1].error = "ConnectError: refused"
    calls[2].end_at = None
    said = printed(run)
    assert said.splitlines()[0] == "Errors: 3 of 164 requests (1.8%)"
    assert "gpu-40: 1 × HTTP 429" in said
    assert "gpu-40: 1 × ConnectError" in said
    assert "gpu-40: 1 × never ended" in said
    assert "successes only, p50 / p90 / p99" in said


def test_a_target_without_a_whole_loop_has_no_price_and_is_no_base() -> None:
    run = results(loops=1)
    broken = run.targets[1].loops[0]
    broken.ended_at = None
    broken.stopped = f"turn 1: 400: {'long ' * 20}words (invalid_value)"
    said = printed(run)
    costs_of = row_of(said, "cost per task")
    assert (costs_of[1], costs_of[3]) == ("–", "no rate published")
    assert row_of(said, "speed-up of the task")[:2] == ["base", "–"]
    assert "words (invalid_value)" in " ".join(said.split())
    assert summary_of(figures(run)[1])["money"] is None


def test_what_spoils_a_run_is_marked() -> None:
    run = results(loops=1)
    assert "SPOILED" not in printed(run)
    run.targets[2].lateness = Lateness(30, 0.01, 0.02, 0.03, 0.005, "20 ms late at p99")
    said = printed(run)
    assert "SPOILED  wafer-750: 20 ms late at p99" in said
    assert "20.0 ms SPOILED" in said


def test_waits_for_a_slot_are_a_line_of_their_own() -> None:
    run = results(loops=1)
    assert waits_in(printed(run)) == ["none"] * 4
    call = next(run.targets[0].calls())
    call.scheduled_at -= 2.0
    assert waits_in(printed(run))[0] == "1 of 20, p99 2.00 s"


def waits_in(said: str) -> list[str]:
    return row_of(said, "waited for a client slot")


def row_of(said: str, label: str) -> list[str]:
    line = next(line for line in said.splitlines() if label in line)
    return re.split(r"\s{2,}", line.strip())[1:]


def test_thresholds_and_notes_are_told() -> None:
    run = results(loops=1)
    run.thresholds.append(Threshold("tpot_p99>1", "unknown"))
    run.info = replace(run.info, complete=False, notes=("A note.",))
    said = printed(run)
    assert "--fail-if 'ttft_p99>20': passed (measured 2.25)" in said
    assert "--fail-if 'errors>0' on gpu-40: failed (measured 1)" in said
    assert "--fail-if 'tpot_p99>1': unknown (measured –)" in said
    assert "Broken off" in said
    assert "A note." in said


def test_markup_in_a_name_stays_text() -> None:
    run = results(loops=1)
    run.targets[0].target = replace(run.targets[0].target, label="[red]x[/red]")
    run.info = replace(run.info, scenario="[bold]s[/bold]")
    said = printed(run)
    assert said.count("[red]x[/red]") >= 3
    assert "[bold]s[/bold]" in said


def printed(run: Results) -> str:
    console = Console(file=io.StringIO(), width=240)
    print_report(run, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_run_compared_with_itself_differs_in_nothing() -> None:
    run = results(loops=4)
    found = compare(run, run)
    assert found.differences
    assert {one.word for one in found.differences} == {"the same"}
    assert found.only == []


def test_what_is_beyond_the_noise_is_said_so() -> None:
    before = Results(INFO, [target("a", *(loop(str(i), 10.0 + i, 1.0) for i in range(8)))])
    after = Results(INFO, [target("a", *(loop(str(i), 5.0 + i, 1.0) for i in range(8)))])
    task = {one.metric: one for one in compare(before, after).differences}["task time"]
    assert task.paired
    assert task.change == pytest.approx(-5 / 15.5)
    assert task.low is not None
    assert task.high is not None
    assert task.low < task.change < task.high < 0
    assert task.word == "faster, beyond noise"
    back = {one.metric: one for one in compare(after, before).differences}["task time"]
    assert back.word == "slower, beyond noise"


def test_what_the_loops_spread_covers_is_noise() -> None:
    before = Results(INFO, [target("a", *(loop(f"b{i}", 1.0 + i, 1.0) for i in range(8)))])
    after = Results(INFO, [target("a", *(loop(f"a{i}", 1.3 + i, 1.0) for i in range(8)))])
    task = {one.metric: one for one in compare(before, after).differences}["task time"]
    assert not task.paired
    assert task.word == "within noise"


def test_with_few_loops_nothing_is_claimed() -> None:
    before = Results(INFO, [target("a", loop("a", 10.0, 1.0))])
    after = Results(INFO, [target("a", loop("a", 1.0, 1.0)), target("b", loop("a", 1.0, 1.0))])
    found = compare(before, after)
    words = {one.metric: one.word for one in found.differences}
    assert words["task time"] == "too few loops to say"
    assert found.only == ["b (after)"]


def test_other_loads_are_compared_where_a_label_is_alone_and_it_is_said() -> None:
    before = Results(INFO, [target("a", loop("a", 1.0, 1.0), users=1)])
    late = Lateness(99, 0.0, 1.0, 1.0, 0.005, "late")
    after = Results(INFO, [target("a", loop("a", 1.0, 1.0), users=4, lateness=late)])
    found = compare(before, after)
    assert found.differences
    assert found.notes == [
        "a: 1 user before, 4 users after",
        "a is spoiled by the client's own lateness after",
    ]
    after.targets.append(target("a", loop("a", 1.0, 1.0), users=8))
    assert compare(before, after).only == ["a (after)", "a (after)", "a (before)"]


def test_runs_of_other_loops_or_by_another_client_are_said_to_be() -> None:
    before = Results(INFO, [target("a", loop("a", 1.0, 1.0))])
    other = replace(INFO, scenario="voice", client="openai 9", dialect="messages", stream=False)
    after = Results(other, [target("a", loop("a", 1.0, 1.0))])
    assert compare(before, after).notes == [
        f"scenario: {INFO.scenario} before, voice after",
        f"client: {INFO.client} before, openai 9 after",
        f"API: {INFO.dialect} before, messages after",
        "answers: streamed before, whole after",
    ]
    assert compare(before, before).notes == []


def test_more_failures_are_told_in_points() -> None:
    def some_fail(many: int) -> Results:
        loops = [loop(str(i), 1.0, 1.0) for i in range(10)]
        for run in loops[:many]:
            run.turns[0].call.error, run.stopped = "no", "no"
        return Results(INFO, [target("a", *loops)])

    found = compare(some_fail(0), some_fail(6))
    failed = {one.metric: one for one in found.differences}["failed requests"]
    assert (failed.before, failed.after, failed.change) == (0.0, 0.6, 0.6)
    assert failed.word == "more, beyond noise"
    console = Console(file=io.StringIO(), width=240)
    print_comparison(found, console)
    assert isinstance(console.file, io.StringIO)
    assert "+60.0 points" in console.file.getvalue()


def test_a_distribution_has_few_points_and_true_ones() -> None:
    assert ecdf([2.0]) == [(2.0, 0.0), (2.0, 0.0), (2.0, 100.0)]
    many = ecdf([float(i) for i in range(100_001)])
    assert len(many) == 201
    assert many[100] == (50_000.0, 50.0)


def test_plots_that_have_nothing_to_show_are_left_out() -> None:
    found = figures(Results(INFO, [target("a", loop("a", 1.0, 1.0), users=1)]))
    assert (speedups(found), costs(found), predictions(found), users(found)) == (
        None,
        None,
        None,
        [],
    )


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (seconds(None), "–"),
        (seconds(187.4), "187 s"),
        (seconds(12345.0), "12,345 s"),
        (seconds(29.84), "29.8 s"),
        (seconds(9.996), "10.0 s"),
        (seconds(1.0), "1.00 s"),
        (seconds(0.25), "250 ms"),
        (milliseconds(1.2), "1,200 ms"),
        (milliseconds(0.01234), "12.3 ms"),
        (milliseconds(0.0012), "1.20 ms"),
        (milliseconds(0.0000012), "0.001 ms"),
        (milliseconds(0.0), "0 ms"),
        (rate(1000.0), "1,000"),
        (rate(39.96), "40.0"),
        (times(1.386), "1.39×"),
        (times(25.0), "25.0×"),
        (times(250.0), "250×"),
        (percent(0.0), "0%"),
        (percent(0.0001), "<0.1%"),
        (percent(0.012), "1.2%"),
        (percent(0.66), "66%"),
        (signed_percent(-0.123), "−12.3%"),
        (signed_percent(0.0012), "+0.12%"),
        (signed_percent(-0.00001), "0%"),
        (dollars(Decimal(0)), "$0"),
        (dollars(Decimal("0.000123456")), "$0.0001235"),
        (dollars(Decimal("1234.5")), "$1,234.50"),
        (dollars(Decimal("-0.5")), "−$0.50"),
    ],
)
def test_how_figures_are_written(said: str, wanted: str) -> None:
    assert said == wanted
