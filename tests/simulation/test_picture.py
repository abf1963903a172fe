"""Charts: well-formed, at home in light and dark, with axes and units, and fetching nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from paceline.runtime.profile_files import virtual_profile
from paceline.simulation.arrivals import Drawn
from paceline.simulation.chart import Chart, Line, Note, svg_document
from paceline.simulation.lengths import Length
from paceline.simulation.picture import html_page, pareto, pareto_chart, ttft_chart
from paceline.simulation.run import run_open
from tests.simulation.hand import profile

SVG = "{http://www.w3.org/2000/svg}"
LOAD = Drawn(Length("fixed", 10, 10), Length("uniform", 5, 15), 50, rate=20.0)


def chart(*points: tuple[float, float], **options: bool) -> Chart:
    lines = [Line("a < b & c", points, 0, marks=True), Line("d", points, 1, dashed=True)]
    return Chart("T", "users", "rate (tok/s)", lines, [Note(*points[0], "here")], **options)


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg.encode())
    return [element.text or "" for element in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "points",
    [
        [(1.0, 1.0)],
        [(0.0, 0.0), (0.0, 0.0)],
        [(1.0, 340.0), (2000.0, 321.9)],
        [(1e-9, 1e9), (1e9, 1e-9)],
        [(4.0, 5.0), (3.0, float("inf"))],
    ],
)
def test_any_values_make_a_chart(points: list[tuple[float, float]], log: bool) -> None:
    svg = svg_document([chart(*points, x_log=log, y_log=log)] * 2, "two")
    assert {"T", "users", "rate (tok/s)", "a < b & c", "d", "here"} <= set(texts(svg))
    assert "nan" not in svg
    assert "inf" not in svg


def test_a_point_lies_where_its_ticks_say() -> None:
    svg = svg_document([chart((0.0, 0.0), (100.0, 50.0))], "one")
    assert {"0", "20", "40", "60", "80", "100", "10", "30", "50"} <= set(texts(svg))
    ends = re.findall(r'class="l" style="stroke:var\(--c0\)" d="M([\d.]+) ([\d.]+)L([\d.]+)', svg)
    assert [float(x) for x in ends[0]] == [84.0, 342.0, 736.0]


def test_light_and_dark_and_nothing_from_elsewhere() -> None:
    svg = svg_document([chart((1.0, 2.0))], "one")
    page = html_page("A < B", [chart((1.0, 2.0))], [["", "x"], ["row", "1"]], ["word & word"])
    for text in (svg, page):
        assert "prefers-color-scheme:dark" in text
        hosts = set(re.findall(r"https?://[^\s\"']+", text)) - {"http://www.w3.org/2000/svg"}
        assert hosts == set()
        assert not re.search(r"<(script|link|img|iframe)|url\(|@import", text)
    assert "A &lt; B" in page
    assert "word &amp; word" in page
    assert "color-scheme:light dark" in page


def test_the_pareto_curve_trades_speed_for_throughput() -> None:
    """A step of 10 + n ms: n users get 1000 / (10 + n) tok/s each and n times that in all."""
    points = pareto(profile(step_ms_per_seq=1.0, max_num_seqs=16, replicas=4), LOAD)
    assert [p.users for p in points] == [1, 2, 4, 8, 16, 32]
    for p in points[:5]:
        assert p.user_tok_s == pytest.approx(1000 / (10 + p.users), rel=0.15)
        assert p.replica_tok_s == pytest.approx(p.users * p.user_tok_s, rel=0.15)
    # Beyond the slots users only wait.
    assert points[5].replica_tok_s == pytest.approx(points[4].replica_tok_s, rel=0.1)


def test_a_profile_without_an_engine_has_no_curve() -> None:
    flat = virtual_profile("flat-40")
    assert flat is not None
    assert pareto(flat, LOAD) == []
    assert pareto(profile(max_num_seqs=4), replace(LOAD, output=Length("fixed", 1, 1))) == []


def test_the_pictures_name_their_profiles_and_units() -> None:
    run = run_open(profile(max_num_seqs=2), LOAD)
    shown = texts(
        svg_document([pareto_chart([("one", pareto(run.profile, LOAD))]), ttft_chart([run])], "x")
    )
    assert {"one", "test p50", "test p99", "TTFT (ms)", "time of arrival (s)"} <= set(shown)
    assert any(re.fullmatch(r"\d users", text) for text in shown)


def test_a_ttft_of_nothing_is_said_where_no_axis_can_show_it() -> None:
    flat = virtual_profile("flat-40")
    assert flat is not None
    assert "flat-40 p50 (0 ms)" in texts(svg_document([ttft_chart([run_open(flat, LOAD)])], "x"))
