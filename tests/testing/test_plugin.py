"""The plugin in a pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import time
import pytest

pytestmark = pytest.mark.paceline("flat-100", speed=5)


def test_a_marker_says_how(paceline_server):
    assert paceline_server.base_url.endswith("/v1")
    assert paceline_server.app.settings.accept_any_model == "flat-100"
    assert paceline_server.app.engine.clock.speed == 5
    assert paceline_server.app.settings.tokens_per_chunk == 1


@pytest.mark.paceline(tokens_per_chunk=3, speed=2)
def test_the_nearest_marker_has_the_last_word(paceline_server):
    assert paceline_server.app.settings.accept_any_model == "flat-100"
    assert paceline_server.app.engine.clock.speed == 2
    assert paceline_server.app.settings.tokens_per_chunk == 3


def test_a_factory(paceline_serve):
    one, two = paceline_serve("gpu-40"), paceline_serve("wafer-750", instant=True)
    assert one.url != two.url
    assert one.app.settings.accept_any_model == "gpu-40"
"""

LIGHT = """
import sys

def test_nothing_is_imported_without_need():
    assert "fastapi" not in sys.modules
    assert "tiktoken" not in sys.modules
"""


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_marker_fixture_and_factory(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS, "-p", "paceline.testing.plugin")
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_naming_it_by_hand_is_as_good(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["paceline.testing.plugin"]\n', "utf-8")
    done = run(tmp_path, TESTS)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_it_costs_those_nothing_who_do_not_use_it(tmp_path: Path) -> None:
    done = run(tmp_path, LIGHT, "-p", "paceline.testing.plugin")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_pytest_finds_it_by_itself(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
