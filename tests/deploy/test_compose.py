"""docker-compose.yml and what it mounts, read as YAML: no container engine is needed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "deploy/docker/Dockerfile").read_text("utf-8")


def mounts(service: str) -> dict[str, str]:
    """Container path to host path or volume name."""
    parts = (volume.split(":") for volume in SERVICES[service].get("volumes", []))
    return {target: source for source, target, *_mode in parts}


def test_the_three_services_are_there() -> None:
    assert set(SERVICES) == {"paceline", "prometheus", "grafana"}


def test_every_mounted_path_exists_and_is_read_only() -> None:
    paths = [v for s in SERVICES.values() for v in s.get("volumes", []) if v.startswith(".")]
    assert paths
    for volume in paths:
        source, _target, mode = volume.split(":")
        assert (ROOT / source).is_dir(), source
        assert mode == "ro"


def test_every_named_volume_is_declared() -> None:
    named = {source for s in SERVICES for source in mounts(s).values() if "/" not in source}
    assert named == set(COMPOSE["volumes"])


def test_ports_are_open_to_this_machine_alone() -> None:
    for name, service in SERVICES.items():
        assert service["ports"], name
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_the_ledger_lies_on_a_volume_that_the_server_may_write_to() -> None:
    path = Path(SERVICES["paceline"]["environment"]["PACELINE_LEDGER"])
    assert mounts("paceline")[str(path.parent)] == "paceline-data"
    # A new volume takes its owner from the image's folder.
    assert f"--home-dir {path.parent} --create-home" in DOCKERFILE


def test_images_are_pinned_to_a_version() -> None:
    for service in SERVICES.values():
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", service["image"])


def test_the_image_bears_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert SERVICES["paceline"]["image"] == f"paceline:{project['version']}"


def test_prometheus_scrapes_the_server_where_it_listens() -> None:
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert jobs["paceline"]["static_configs"][0]["targets"] == ["paceline:8000"]
    assert jobs["paceline"]["scrape_interval"] == "1s"
    assert "--config.file=/etc/prometheus/prometheus.yml" in SERVICES["prometheus"]["command"]
    assert mounts("prometheus")["/etc/prometheus"] == "./deploy/prometheus"
    for name in config["rule_files"]:
        assert (ROOT / "deploy/prometheus" / name).is_file()


def test_grafana_is_given_a_datasource_and_a_dashboard() -> None:
    provisioning = ROOT / "deploy/grafana/provisioning"
    source = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text("utf-8"))
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    provider = yaml.safe_load((provisioning / "dashboards/paceline.yml").read_text("utf-8"))
    folder = provider["providers"][0]["options"]["path"]
    assert mounts("grafana")[folder] == "./deploy/grafana/dashboards"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).parent == Path(folder)
    assert (ROOT / "deploy/grafana/dashboards" / Path(home).name).is_file()


def copied_into_the_image() -> list[str]:
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


@pytest.mark.parametrize("source", copied_into_the_image())
def test_what_the_image_copies_exists_and_is_not_ignored(source: str) -> None:
    assert (ROOT / source).exists()
    allowed = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert f"!{source.partition('/')[0]}" in allowed


def test_the_image_checks_hashes_and_is_not_root() -> None:
    installs = re.findall(r"pip install (.*?)(?:\\|&&|$)", DOCKERFILE, re.MULTILINE)
    assert installs
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    final_stage = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001$", final_stage, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*\n.*/health", final_stage, re.MULTILINE)


def test_the_image_runs_a_python_that_the_project_supports() -> None:
    versions = set(re.findall(r"^FROM python:(3\.\d+)-slim", DOCKERFILE, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert len(versions) == 1
    assert f"Programming Language :: Python :: {versions.pop()}" in project["classifiers"]
