"""`paceline fit --validate`, on a made-up file and on measured hardware."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from paceline.cli import app

SILICON = Path(__file__).resolve().parents[3] / "shared" / "data" / "silicon_train.csv"


pytestmark = pytest.mark.usefixtures("commands_registered")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["fit", *arguments])


def small_file(folder: Path) -> Path:
    rows = ["note,ttft_ms,concurrency,isl,osl,tpot_ms,deployment"]
    for name, step in (("fast", 2.0), ("slow", 20.0)):
        for users in (1, 2, 4, 8, 16):
            tpot = step * (1 + 0.05 * users)
            rows.append(f"x,{30 + 12 * users},{users},512,64,{tpot},{name}")
    rows += ["x,50,4,100,1,,single", "x,,zero,100,1,,single"]
    path = folder / "small.csv"
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return path


def test_json_is_one_object_with_the_errors_and_the_deployments(tmp_path: Path) -> None:
    result = run("--validate", str(small_file(tmp_path)), "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert [row["name"] for row in found["deployments"]] == ["fast", "slow", "single"]
    fast, _, single = found["deployments"]
    assert (fast["n_train"], fast["n_test"]) == (3, 2)
    assert (single["n_train"], single["n_test"]) == (1, 0)
    assert single["tpot_median"] is None
    assert 0.0 <= found["tpot_median"] <= found["tpot_p90"] < 0.2
    assert found["ttft_median"] <= found["ttft_p90"]
    assert fast["parameters"]["step_ms"] > 0.0


def test_the_table_names_every_deployment(tmp_path: Path) -> None:
    result = run("--validate", str(small_file(tmp_path)))
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ("fast", "slow", "single", "all"))


def test_measured_hardware_is_met_within_the_stated_bounds() -> None:
    if not SILICON.exists():
        pytest.skip("the measured points are not beside this checkout")
    result = run("--validate", str(SILICON), "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert len(found["deployments"]) == 18
    assert found["tpot_median"] <= 0.03
    assert found["tpot_p90"] <= 0.12
    assert found["ttft_median"] <= 0.10
    assert found["ttft_p90"] <= 0.35


def test_one_deployment_becomes_a_profile_that_says_how_good_it_is(tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    result = run(
        str(small_file(tmp_path)), "--deployment", "slow", "--name", "mine", "--out", str(out)
    )
    assert result.exit_code == 0, result.output
    text = out.read_text("utf-8")
    assert 'name = "mine"' in text
    assert "fitted on 5 points of small.csv" in text
    assert '"fit.held_out"' in text
    assert "error of TPOT" in text


def test_several_deployments_must_be_chosen_from(tmp_path: Path) -> None:
    path = str(small_file(tmp_path))
    assert run(path).exit_code == 2
    assert run(path, "--deployment", "none").exit_code == 2
    assert run().exit_code == 2
    assert run("--validate", path, path).exit_code == 2
    assert run("--probe", "http://127.0.0.1:9/v1").exit_code == 2
    assert run(str(tmp_path / "missing.csv")).exit_code == 2
