"""Locust as its users start it: in processes of its own, since it patches the one that it is in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.testing.server import TestServer, serve

LOCUSTFILE = Path(__file__).resolve().parents[2] / "loadtest/paceline_loadtest/scale/locustfile.py"
PATIENCE_S = 90

SCENARIO = """
title = "Two agents' work"
dialect = "DIALECT"

[prompt]
system_tokens = 20

[[stages]]
name = "plan"
output_tokens = 8

[[stages]]
name = "work"
turns = { median = 2, p90 = 3, min = 1, max = 4 }
output_tokens = { median = 20, p90 = 60, max = 100 }
think_s = 0.01

[[stages.tools]]
name = "ask"
count = 2
seconds = 0.01
result_tokens = 5
agent = "helper"

[agents.helper.prompt]
system_tokens = 10

[[agents.helper.stages]]
name = "help"
output_tokens = 3
"""


def locust(
    server: TestServer, folder: Path, *arguments: str, dialect: str = "chat"
) -> tuple[list[dict[str, Any]], str]:
    """Run it; gives every call's figures and what was printed."""
    scenario, out = folder / "two.toml", folder / "figures.json"
    scenario.write_text(SCENARIO.replace("DIALECT", dialect), "utf-8")
    command = [
        sys.executable, "-m", "locust", "-f", str(LOCUSTFILE),
        "--host", server.base_url, "--headless", "--users", "4", "--spawn-rate", "20",
        "--scenario", str(scenario), "--model", "m", "--figures", str(out), "--only-summary",
        *arguments,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=folder
    )
    assert out.exists(), done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(out.read_text("utf-8")), done.stdout + done.stderr


def shape(calls: list[dict[str, Any]]) -> list[Any]:
    return sorted((call["stage"], call["output_tokens"], call["error"]) for call in calls)


@pytest.mark.realtime
def test_two_workers_make_the_calls_of_one_process(tmp_path: Path) -> None:
    with serve("flat-1000") as server:
        one, said = locust(server, tmp_path, "--loops", "2")
        asked = len(server.requests)
        two, said_by_two = locust(server, tmp_path, "--loops", "2", "--processes", "2")
        assert len(server.requests) == 2 * asked
    assert shape(one) == shape(two)
    assert asked == len(one) == len(two) > 30
    assert {call["stage"] for call in one} == {"plan", "work", "help"}
    assert not any(call["error"] for call in one + two)
    for call in one + two:
        assert 0 < call["ttft_s"] <= call["e2e_s"] <= call["ended"] - call["began"] + 1e-6
    for text in (said, said_by_two):
        assert f"Paceline: {len(one)} calls, 0 failed" in text
        for row in ("POST     chat plan", "TTFT     chat work", "TPOT µs  chat help"):
            assert row in text
    # A token a millisecond, told in microseconds.
    long = [call["tpot_s"] for call in two if (call["output_tokens"] or 0) > 30]
    assert 0.0009 < sorted(long)[len(long) // 2] < 0.003


@pytest.mark.realtime
def test_a_scenario_over_websockets_is_sent_as_responses(tmp_path: Path) -> None:
    with serve("flat-1000") as server:
        calls, _ = locust(server, tmp_path, "--loops", "1", dialect="responses-websocket")
        assert {request.path for request in server.requests} == {"/v1/responses"}
        assert {request.method for request in server.requests} == {"POST"}
    assert not any(call["error"] for call in calls)


@pytest.mark.realtime
def test_failures_are_counted_and_a_loop_ends_with_its_own(tmp_path: Path) -> None:
    with serve("flat-1000", accept_any_model="") as server:
        calls, said = locust(server, tmp_path, "--loops", "3")
    # The first call of each of three loops of four users.
    assert len(calls) == 12
    assert all("404" in call["error"] for call in calls)
    assert "Paceline: 12 calls, 12 failed" in said
    assert "POST     chat plan" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--scenario", "code-edits"], "Did you mean code-edit?"),
        (["--dialect", "smalltalk"], "'smalltalk' is none of chat, responses, messages"),
        (["--seed", "abc"], "--seed: 'abc' is no whole number"),
        (["--host", ""], "--host: '' is not an http:// or https:// address"),
        (["--host", "localhost:8000"], "--host: 'localhost:8000' is not an http://"),
    ],
)
def test_what_cant_be_used_is_said(arguments: list[str], reason: str) -> None:
    command = [
        sys.executable, "-m", "locust", "-f", str(LOCUSTFILE),
        "--headless", "--host", "http://127.0.0.1:1/v1", *arguments,
    ]  # fmt: skip
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=LOCUSTFILE.parent,
    )
    assert done.returncode != 0
    assert reason in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


TOGETHER = """
import gevent
from paceline_loadtest.scale.locustfile import _together

def fails():
    raise KeyError("a tool")

others = gevent.spawn(gevent.sleep, 60)
try:
    _together([gevent.spawn(fails), others])
except KeyError:
    gevent.sleep(0)
    print("raised, and the others", "ended" if others.dead else "run on")

inner = gevent.spawn(gevent.sleep, 60)
user = gevent.spawn(_together, [inner])
gevent.sleep(0.01)
user.kill()
gevent.sleep(0)
print("cut, and its tool", "ended" if inner.dead else "runs on")
"""


def test_tools_that_fail_are_heard_of_and_none_outlives_its_user() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.splitlines() == ["raised, and the others ended", "cut, and its tool ended"]
