from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paceline.recording.files import load
from tests.connection import Wire
from tests.live import PATIENCE_S
from tests.recording.rig import BODY, KEY, PATH, stream, upstream

COMMAND = [sys.executable, "-c", "from paceline.cli import main; main()", "record"]


class Process:
    host = "127.0.0.1"

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--port", "0", *arguments], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        self.port = int(self.said.split("http://127.0.0.1:")[-1].split("/")[0])


@contextmanager
def running(*arguments: str) -> Iterator[Process]:
    made = Process(*arguments)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate(timeout=PATIENCE_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_when_it_is_told_to_stop_is_kept(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = stream(*[b"data: %d\n\n" % i for i in range(500)])
    with (
        upstream(script) as up,
        running("--upstream", up.url, "--out", str(tmp_path), "--log-level", "warning") as record,
        Wire(record) as wire,
    ):
        assert record.said.startswith(f"recording {up.url} at http://127.0.0.1:{record.port}/v1")
        wire.send("POST", PATH, BODY, {"Authorization": f"Bearer {KEY}"})
        wire.until(b"data: 2")
        record.process.send_signal(number)
        while wire.more():
            pass
        record.process.wait(PATIENCE_S)
        (kept,) = load(tmp_path)
    assert kept.end == "recorder_stopped"
    assert b"data: 2" in kept.body


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--upstream", "api.test/v1", "--out", "x"], "--upstream: 'api.test/v1' is not an http"),
        (["--upstream", "https://me:pw@api.test", "--out", "x"], "more than a host and a path"),
        (["--upstream", "https://api.test", "--out", "file"], "file: "),
        (["--upstream", "https://api.test", "--out", "x", "--log-level", "loud"], "--log-level"),
    ],
)
def test_what_cant_be_used_is_said(tmp_path: Path, arguments: list[str], reason: str) -> None:
    (tmp_path / "file").write_text("")
    ended = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert ended.returncode == 2
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", [["record", "--upstream", "http://127.0.0.1:1"], ["serve"]])
def test_an_address_that_is_taken_is_named_with_the_way_out(
    tmp_path: Path, command: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        more = ["--out", str(tmp_path / "tape")] if command[0] == "record" else []
        done = subprocess.run(
            [*COMMAND[:-1], *command, *more, "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 3
    assert f"can't listen on 127.0.0.1 port {port}" in done.stderr
    assert "--port" in done.stderr
