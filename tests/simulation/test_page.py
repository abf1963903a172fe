"""The page on simulating shows what the commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.runtime.profile_files import ProfileRegistry
from paceline.simulation import articles
from paceline.simulation.arrivals import Drawn
from paceline.simulation.articles import Side
from paceline.simulation.chart import svg_document
from paceline.simulation.lengths import Length
from paceline.simulation.run import run_closed

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def sides() -> list[Side]:
    registry = ProfileRegistry.load()
    found = []
    for name, rate in ((articles.GPU, articles.GPU_TOK_S), (articles.WAFER, articles.WAFER_TOK_S)):
        profile = registry.get(name)
        assert profile is not None
        found.append(articles.side(profile, rate))
    return found


def test_the_page_holds_the_articles_table(sides: list[Side]) -> None:
    page = (DOCS / "simulate.md").read_text("utf-8").splitlines()
    for row in articles.rows(sides):
        assert f"| {' | '.join(row)} |" in page


def test_the_picture_is_the_one_that_the_command_writes(sides: list[Side]) -> None:
    """`paceline simulate articles --svg docs/img/users.svg` brings it up to date."""
    picture = (DOCS / "img" / "users.svg").read_text("utf-8")
    assert picture == svg_document(articles.charts(sides), "Users at a rate")


def test_the_page_holds_kimis_times() -> None:
    """10,000 tokens in, 500 out and the reasoning tokens of medium effort."""
    page = (DOCS / "simulate.md").read_text("utf-8")
    load = Drawn(
        Length("fixed", 10_000, 10_000), Length("fixed", 500, 500), 1, 0, None, 1.0, "medium"
    )
    cells = []
    for name in ("kimi-k2.6-cerebras", "kimi-k2.6"):
        profile = ProfileRegistry.load().get(name)
        assert profile is not None
        run = run_closed(profile, load, 1)
        cells.append(f"**{(run.end[0] - run.received[0]) / 1e9:.1f} s**")
    assert f"| in all | {' | '.join(cells)} |" in page
