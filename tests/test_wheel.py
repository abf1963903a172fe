"""What ships: built once from the work tree, and looked into."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (file,) = folder.glob("*.whl")
    return zipfile.ZipFile(file)


@pytest.mark.parametrize("folder", ["profiles", "rates"])
def test_every_profile_and_rate_card_is_in_it(wheel: zipfile.ZipFile, folder: str) -> None:
    files = sorted((ROOT / folder).glob("*.toml"))
    assert files
    for file in files:
        assert wheel.read(f"paceline/_{folder}/{file.name}") == file.read_bytes()


def test_everything_under_the_two_packages_is_in_it(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for source in (ROOT / "server", ROOT / "loadtest"):
        for path in source.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(source).as_posix() in names


def test_nothing_else_is_in_it(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    info = next(top for top in tops if top.endswith(".dist-info"))
    assert tops == {"paceline", "paceline_loadtest", info}
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


def test_an_editable_install_has_no_copy_of_profiles_and_rate_cards(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel:editable", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (file,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(file).namelist()
    assert any(name.endswith(".pth") for name in names)
    assert not [name for name in names if name.endswith(".toml")]
