"""The project's own files: the lock, the version, and what must never be committed."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import paceline

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCKS = ("base", "build", "dev")


def lock_lines(name: str) -> list[str]:
    """The requirements of a lock, one a line, without comments."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8").replace("\\\n", " ")
    lines = (line.partition("# ")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def read_lock(name: str) -> dict[str, tuple[Version, list[str]]]:
    """Canonical name to (pinned version, hashes)."""
    lines = lock_lines(name)
    pins: dict[str, tuple[Version, list[str]]] = {}
    for line in lines:
        requirement, *hashes = re.split(r"\s+--hash=", line)
        package, version = re.split("==", requirement.split(";")[0].strip())
        pins[canonicalize_name(package)] = (Version(version), hashes)
    return pins


@pytest.mark.parametrize("name", LOCKS)
def test_lock_pins_everything_by_hash_and_names_no_address(name: str) -> None:
    pins = read_lock(name)
    assert pins
    for _version, hashes in pins.values():
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes)
    for line in lock_lines(name):
        # A name, a version, perhaps a marker; nothing that says where to fetch it.
        assert re.fullmatch(
            r"[\w.-]+==[\w.+]+( ; [\w\s.<>=!\"'()]+)?(\s+--hash=sha256:[0-9a-f]{64})+", line
        )


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("base", PROJECT["dependencies"]),
        ("dev", PROJECT["dependencies"]),
        ("dev", PROJECT["optional-dependencies"]["dev"]),
        ("dev", PROJECT["optional-dependencies"]["loadtest"]),
    ],
)
def test_lock_meets_what_the_project_asks_for(lock: str, wanted: list[str]) -> None:
    pins = read_lock(lock)
    for requirement in map(Requirement, wanted):
        if canonicalize_name(requirement.name) == "paceline":
            continue
        version, _hashes = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement


@pytest.mark.parametrize("subset", ["base", "build"])
def test_one_environment_can_hold_all_locks(subset: str) -> None:
    everything = read_lock("dev")
    for package, pin in read_lock(subset).items():
        assert everything[package] == pin


def test_version_is_said_once_and_the_same() -> None:
    assert paceline.__version__ == PROJECT["version"]
    assert importlib.metadata.version("paceline") == PROJECT["version"]


def test_changelog_opens_with_this_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == PROJECT["version"]
