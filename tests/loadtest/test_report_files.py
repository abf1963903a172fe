"""Reports of files: a run again, and several loads on one page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paceline_loadtest.command import app
from paceline_loadtest.errors import LoadTestError
from paceline_loadtest.report import Results, to_json
from paceline_loadtest.report.files import merged
from tests.loadtest.report_fixture import results


def test_several_loads_make_one_page(tmp_path: Path) -> None:
    files = []
    for users in (1, 4):
        run = results("chat", loops=4, users=(users,))
        run.info = replace(run.info, notes=(f"{users} at once.",))
        files.append(tmp_path / f"{users}.json")
        files[-1].write_text(to_json(run), encoding="utf-8")
    page = tmp_path / "page.html"
    told = CliRunner().invoke(app, ["report", *map(str, files), "--html", str(page)])
    assert told.exit_code == 0, told.output
    assert "Errors: 0 of 320 requests" in told.output
    text = page.read_text(encoding="utf-8")
    assert "Throughput against users" in text
    assert "1 at once." in text
    assert "4 at once." in text


def test_one_file_is_reported_as_it_was() -> None:
    run = results(loops=1)
    assert merged([("a", run)]) == run


def test_settings_that_differ_are_left_out() -> None:
    one, four = results("chat", loops=4, users=(1,)), results("chat", loops=4, users=(4,))
    found = merged([("a", one), ("b", four)])
    assert found.info.settings == {"loops": "4"}
    assert len(found.targets) == len(one.targets) + len(four.targets)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (results("chat", loops=1), "b: chat, seed 7; a is of code-edit, seed 7"),
        (results(loops=1), "b: gpu-40 with 1 user is in a too"),
    ],
)
def test_what_doesnt_belong_together_is_refused(other: Results, said: str) -> None:
    with pytest.raises(LoadTestError, match=said):
        merged([("a", results(loops=1)), ("b", other)])


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}", encoding="utf-8")
    for path in (file, tmp_path / "none.json"):
        told = CliRunner().invoke(app, ["report", str(path)])
        assert told.exit_code == 2
        assert path.name in told.output.replace("\n", "")
