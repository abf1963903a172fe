"""Prometheus's own tool on its configuration, its rules and the dashboard's queries."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.dashboard import expressions

FOLDER = Path(__file__).resolve().parents[2] / "deploy/prometheus"
PROMTOOL = shutil.which("promtool")

pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_configuration() -> None:
    promtool("check", "config", str(FOLDER / "prometheus.yml"))


def test_rules_ring_when_they_should() -> None:
    promtool("test", "rules", str(FOLDER / "rules_test.yml"))


def test_every_query_of_the_dashboard_parses(tmp_path: Path) -> None:
    # promtool has no check for a lone query; as recording rules it reads them all.
    rules = [
        {"record": f"panel:query:{number}", "expr": expression}
        for number, expression in enumerate(sorted(expressions(variables="filled")))
    ]
    assert rules
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), "utf-8")
    promtool("check", "rules", "--lint=none", str(file))


def test_a_broken_query_would_be_caught(tmp_path: Path) -> None:
    file = tmp_path / "queries.yml"
    broken = {"record": "panel:query:0", "expr": "sum(rate(x[5s])"}
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": [broken]}]}), "utf-8")
    with pytest.raises(AssertionError):
        promtool("check", "rules", str(file))
