"""The command as people run it: its own server, real streams, and what is printed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

RACE = [sys.executable, "-m", "paceline", "race"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PACELINE_")}


def race(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RACE, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=ENVIRONMENT,
    )


@pytest.mark.realtime
def test_a_race_on_a_server_of_its_own(tmp_path: Path) -> None:
    picture = tmp_path / "race.svg"
    lanes = ["--lane", "flat-500", "--lane", "flat-100", "--lane", "instant"]
    done = race("Tell me.", *lanes, "--tokens", "100", "--plain", "--json", "--svg", str(picture))
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    fast, slow, instant = told["lanes"]
    assert [lane["state"] for lane in told["lanes"]] == ["finished"] * 3
    assert [lane["tokens"] for lane in told["lanes"]] == [100, 100, 100]
    assert [lane["rank"] for lane in told["lanes"]] == [2, 3, 1]
    assert told["same_text"] is True
    assert fast["text"] == slow["text"] != ""
    assert fast["tokens_per_second"] == pytest.approx(500, rel=0.2)
    assert slow["tokens_per_second"] == pytest.approx(100, rel=0.1)
    assert fast["elapsed_s"] >= 99 / 500 * 0.9
    assert slow["elapsed_s"] >= 99 / 100 * 0.9
    assert told["verdict"].startswith("instant finished in 0.")
    assert instant["ttft_s"] < 0.5
    assert "flat-500" in picture.read_text("utf-8")
    # Its server is gone: nobody listens where it was.
    host, port = told["base_url"].removeprefix("http://").removesuffix("/v1").split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


@pytest.mark.realtime
def test_plain_lines_and_a_lane_that_fails() -> None:
    done = race("Hi.", "--lane", "flat-100", "--lane", "nope", "--tokens", "50")
    assert done.returncode == 1
    refused, finished, verdict = done.stdout.splitlines()
    assert refused.startswith("nope: failed: 404: The model 'nope' does not exist")
    assert finished.startswith("flat-100: finished after 0.")
    assert finished.endswith(" tok/s, 50 tokens")
    assert verdict.startswith("flat-100 finished in 0.")
    assert verdict.endswith("; not finished: nope.")
    assert "\x1b" not in done.stdout


@pytest.mark.realtime
def test_an_interrupt_ends_it_with_what_there_is() -> None:
    command = [*RACE, "Hi.", "--lane", "flat-5", "--lane", "flat-1000", "--tokens", "50"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first.startswith("flat-1000: finished after 0.")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=20)[0]
    assert process.returncode == 130
    assert "flat-5: stopped after" in rest
    assert rest.splitlines()[-1].endswith("; not finished: flat-5.")


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}/v1"
    done = race("Hi.", "--base-url", url)
    assert done.returncode == 2
    assert done.stderr.strip() == f"paceline: {url} can't be reached: Connection refused"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--base-url", "localhost:8000"], "is not an http:// or https:// address"),
        (["--base-url", "http://x/v1", "--profiles", "p"], "--profiles is for the race's own"),
        (["--profiles", "/nowhere/x.toml"], "the server ended at once, with code 2"),
        (["--tokens", "0"], "than or equal to 1"),
    ],
)
def test_what_cannot_be_used_is_said(arguments: list[str], complaint: str) -> None:
    done = race("Hi.", *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
