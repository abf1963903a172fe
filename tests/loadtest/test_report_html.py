"""The page: one well-formed file that fetches nothing and whose pictures say what they show."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings

from paceline_loadtest.model import Call, LoopRun, TurnRun
from paceline_loadtest.report import (
    Lateness,
    Results,
    TargetRun,
    Threshold,
    compare,
    html_report,
    to_json,
)
from paceline_loadtest.report.waterfall import waterfall_svg
from paceline_loadtest.report.words import milliseconds, percent, rate, seconds
from tests.loadtest.report_fixture import TARGETS, results
from tests.loadtest.report_strategies import RESULTS

SVG = "{http://www.w3.org/2000/svg}"
UNITS = re.compile(r"\((s|ms|%|US\$|×|no\.|tok/s|output tok/s)\)$")
slow = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def parsed(page: str) -> ElementTree.Element:
    """The page as XML, which it is too."""
    return ElementTree.fromstring(page.removeprefix("<!doctype html>").encode())


def cells(page: str) -> list[list[str]]:
    """The rows of all its tables."""
    rows = parsed(page).iter("tr")
    return [["".join(cell.itertext()) for cell in row] for row in rows]


@pytest.fixture(scope="module")
def run() -> Results:
    return results(loops=4)


@pytest.fixture(scope="module")
def page(run: Results) -> str:
    return html_report(run)


def test_it_fetches_nothing(page: str) -> None:
    root = parsed(page)
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not names & {"script", "link", "img", "image", "iframe", "object", "embed", "use"}
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not re.fullmatch(r".*(href|src|srcset|data|action)|on\w+", name)
            assert "//" not in value
            assert "url(" not in value
    styles = "".join(element.text or "" for element in root.iter() if element.tag.endswith("style"))
    assert not re.search(r"url\(|@import|//", styles)


def test_light_dark_paper_phone_and_projector(page: str) -> None:
    assert "prefers-color-scheme:dark" in page
    assert "@media print" in page
    assert "max-width:44rem" in page
    assert 'name="viewport"' in page


def test_every_picture_has_title_words_units_and_a_table(page: str) -> None:
    root = parsed(page)
    pictures = list(root.iter(f"{SVG}svg"))
    assert len(pictures) >= 8
    for picture in pictures:
        assert picture.get("role") == "img"
        title = picture.find(f"{SVG}title")
        assert title is not None
        assert picture.get("aria-label") == title.text
        about = picture.find(f"{SVG}desc")
        assert about is not None
        assert len(about.text or "") > 40
        texts = ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]
        assert title.text in texts
        axes = [text for text in texts if UNITS.search(text)]
        assert len(axes) >= 2, texts
    figures = list(root.iter("figure"))
    beside = [e for e in root.iter("div") if e.get("class") == "beside"]
    without = [figure for figure in figures if not list(figure.iter("table"))]
    assert len(without) == len(beside)
    assert all(list(held.iter("table")) for held in beside)


def test_every_line_and_part_is_in_a_legend(page: str) -> None:
    for picture in parsed(page).iter(f"{SVG}svg"):
        texts = ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]
        used = {element.get("class") for element in picture.iter(f"{SVG}rect")}
        if "output" in used:
            assert {"visible output", "reasoning", "tools"} <= set(texts)
        else:
            assert {label for label, *_ in TARGETS[1:3]} <= set(texts)


def test_the_numbers_are_those_of_the_document(run: Results, page: str) -> None:
    summary = json.loads(to_json(run))["summary"]
    rows = {row[0]: row[1:] for row in cells(page)[::-1]}

    def held(name: str) -> list[str]:
        return rows[name][: len(summary)]

    assert held("task, mean") == [seconds(one["task_s"]["mean"]) for one in summary]
    for name, key in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
        for text, one in zip(held(name), summary, strict=True):
            for percentile in ("p50", "p90", "p99"):
                assert (
                    milliseconds(one[key][percentile]).partition(" ")[0]
                    in text.split(" / ")[("p50", "p90", "p99").index(percentile)]
                )
    whole = [sum(one["parts_s"].values()) for one in summary]
    wanted = [
        f"{seconds(one['parts_s']['tools'])} ({percent(one['parts_s']['tools'] / all_of)})"
        for one, all_of in zip(summary, whole, strict=True)
    ]
    assert held("tools") == wanted
    assert held("tok/s in all") == [rate(one["output_tok_s"]) for one in summary]
    for one in summary:
        assert one["sentence"] in unescape(page).replace("\u00a0", " ")


def test_bars_are_as_long_as_their_times(run: Results, page: str) -> None:
    summary = json.loads(to_json(run))["summary"]
    bars = next(
        p for p in parsed(page).iter(f"{SVG}svg") if p.get("aria-label", "").startswith("The mean")
    )
    drawn = [
        (title.text or "", float(rect.get("width", "0")))
        for rect in bars.iter(f"{SVG}rect")
        if (title := rect.find(f"{SVG}title")) is not None
    ]
    tools = [width for text, width in drawn if ", tools:" in text]
    outputs = [width for text, width in drawn if ", visible output:" in text]
    first = summary[0]["parts_s"]
    assert outputs[0] / tools[0] == pytest.approx(first["output"] / first["tools"], rel=0.01)


def test_errors_and_what_spoils_a_run_come_first(run: Results) -> None:
    bad = results(loops=2)
    target = bad.targets[1]
    target.lateness = Lateness(10, 0.1, 0.2, 0.3, 0.005, "the client was late: 200 ms at p99")
    broken = target.loops[0].turns[0].call
    broken.error, broken.status = "HTTP 500: no", 500
    target.loops[0].stopped = "HTTP 500: no"
    told = html_report(bad)
    assert told.index("Errors: 1 of ") < told.index("class='tiles'")
    assert "1 × HTTP 500" in told
    assert "the client was late: 200 ms at p99" in told
    assert "Spoiled by the client's own lateness: 1 of 4" in unescape(told)
    assert "Spoiled by the client" not in html_report(run)


def test_what_was_not_measured_was_not_kept(run: Results) -> None:
    told = results(loops=1)
    told.thresholds = [Threshold("ttft_p99>9", "passed", 1.0), Threshold("tpot_p99>1", "unknown")]
    assert "bad'><p><b>Thresholds: 0 of 2 failed, 1 unknown" in html_report(told)
    assert "bad'><p><b>Thresholds: 1 of 2 failed<" in html_report(run)
    told.thresholds.pop()
    assert "good'><p><b>Thresholds: 0 of 1 failed<" in html_report(told)


def test_the_base_s_loop_and_the_fastest_one_are_open_wherever_they_stand(run: Results) -> None:
    turned = replace(run, targets=run.targets[::-1])
    for found, fastest in ((run, "spark-1000"), (turned, "wafer-750")):
        body = html_report(found).partition("One loop, turn by turn")[2].partition("<h2>")[0]
        folded = re.findall(r"<summary>Loop \S+ on ([^:]+): ", body)
        assert sorted(folded) == sorted(
            one.label for one in found.targets[1:] if one.label != fastest
        )


def test_a_loop_of_one_turn_has_its_words_beside_its_row() -> None:
    assert "rotate(-90)" not in waterfall_svg(
        results("voice", loops=1).targets[0].loops[0], "t", 900
    )
    many = waterfall_svg(results(loops=1).targets[0].loops[0], "t", 900)
    assert many.count("rotate(-90)") == many.count("turn (no.)") == 1


def test_text_from_outside_stays_text() -> None:
    evil = "</style><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x00\ud800"
    bad = results(loops=1)
    one = bad.targets[0]
    one.target = replace(one.target, label=evil, model=evil, service_tier=evil)
    one.facts, one.notes, one.price_source = {evil: evil}, (evil,), evil
    one.lateness = Lateness(1, 0.0, 0.0, 0.0, None, evil)
    one.loops[0].stopped = evil
    one.loops.append(replace(one.loops[0], stopped=None, loop=replace(one.loops[0].loop, id=evil)))
    one.loops.append(LoopRun(one.loops[0].loop, 0.0, [TurnRun(0.0, Call(0.0, error=evil))]))
    bad.info = replace(
        bad.info, scenario=evil, client=evil, started=evil, settings={evil: evil}, notes=(evil,)
    )
    bad.thresholds = [replace(bad.thresholds[0], rule=evil, target=evil)]
    page = html_report(bad, compare(bad, bad))
    names = {element.tag.rpartition("}")[2] for element in parsed(page).iter()}
    assert "alert(1)" in page
    assert not names & {"script", "img"}
    for element in parsed(page).iter():
        assert not any(name.startswith("on") for name in element.attrib)
    page.encode()


@slow
@given(RESULTS)
def test_any_results_make_a_page(found: Results) -> None:
    parsed(html_report(found))
    parsed(html_report(found, compare(found, found)))


def test_nothing_run_is_said() -> None:
    empty = results(loops=1)
    for target in empty.targets:
        target.loops, target.predicted = [], []
    page = html_report(empty)
    assert "no loop ran to its end" in page
    assert "<svg" not in page


def test_several_numbers_of_users_are_a_picture() -> None:
    page = html_report(results("chat", loops=4, users=(1, 2, 4)))
    assert "Throughput against users" in page
    assert "gpu-40, 4 users" in page
    assert "Throughput against users" not in html_report(results("chat", loops=4, users=(4,)))


def test_a_price_that_nobody_published_isnt_drawn(run: Results, page: str) -> None:
    assert "no rate published" in page
    free = results(loops=1)
    for call in [call for target in free.targets for call in target.calls()]:
        call.server.cost_usd = None
    assert "Cost of a task" not in html_report(free)


def test_a_big_run_is_a_small_file() -> None:
    big = results("code-edit", loops=6)
    for target in big.targets:
        for call in target.calls():
            call.chunk_at = call.chunk_at[:3]
        target.loops = [
            replace(run, loop=replace(run.loop, id=f"{i}-{run.loop.id}"))
            for i in range(80)
            for run in target.loops
        ]
    assert len(html_report(big)) < 500_000


def test_what_differs_stands_in_the_page() -> None:
    before = results(loops=4)
    after = results(loops=4, seed=2)
    page = html_report(after, compare(before, after))
    assert "Against the earlier run" in page
    assert ["wafer-750", "cost per task"] in [row[:2] for row in cells(page)]
    other: list[TargetRun] = [replace(after.targets[0])]
    other[0].target = replace(other[0].target, label="another")
    assert "Only in one: another (after)" in html_report(
        after, compare(before, Results(after.info, other))
    )
