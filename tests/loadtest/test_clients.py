"""Clients by name, progress, calibration, errors: the small parts around the large ones."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from paceline_loadtest.calibrate import calibrate
from paceline_loadtest.errors import body_text, error_text, os_text
from paceline_loadtest.lean import LeanClient
from paceline_loadtest.model import DIALECTS, Call, Dialect, Target
from paceline_loadtest.progress import Silent, watcher
from tests.live import Server
from tests.loadtest.scripted import refusal, scripted


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_an_extra_that_isn_t_there_is_named(package: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from paceline.commands import register; register()\n"
        "from paceline.cli import app; app()"
    )
    arguments = ["loadtest", "run", "voice", "--tiers", "instant"]
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2, found.stderr
    assert f"--client sdk needs the package {package}" in found.stderr
    assert "paceline[loadtest]" in found.stderr
    assert "make install" in found.stderr
    assert "--client lean" in found.stderr


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_a_call_costs_on_a_server_that_doesn_t_wait(
    server: Server, dialect: Dialect
) -> None:
    client = LeanClient(f"{server.url}/v1", "key")
    target = Target("t", f"{server.url}/v1", "slow", "flex")
    cost_s = await calibrate(client, target, dialect, salt="s", stream=True)
    await client.aclose()
    assert cost_s is not None
    # Of the model that is slow nothing is in it.
    assert 0.0 < cost_s < 0.2


async def test_a_server_without_such_a_profile_has_no_such_cost() -> None:
    async with scripted(lambda *_: refusal(404, "No such model.")) as server:
        client = LeanClient(server.url, "key")
        target = Target("t", server.url, "m")
        assert await calibrate(client, target, "chat", salt="s", stream=True) is None
        await client.aclose()
    assert len(server.asked) == 1


class TestProgress:
    def test_a_terminal_gets_a_bar(self) -> None:
        out = io.StringIO()
        with watcher(Console(file=out, force_terminal=True, width=100)) as seen:
            seen.target("gpu-40", 4)
            seen.loop_ended()
            seen.call_ended(Call(0.0))
            seen.call_ended(Call(0.0, error="it broke"))
        shown = out.getvalue()
        assert "gpu-40" in shown
        assert "1 loops, 2 calls" in shown
        assert "1 failed" in shown

    def test_a_pipe_gets_nothing(self) -> None:
        out = io.StringIO()
        with watcher(Console(file=out)) as seen:
            assert isinstance(seen, Silent)
            seen.target("gpu-40", None)
            seen.loop_ended()
            seen.call_ended(Call(0.0))
        assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"error": {"message": "No.", "type": "t", "code": "c"}}, "No. (c)"),
        ({"error": {"message": "No.", "type": "t", "code": None}}, "No. (t)"),
        ({"type": "error", "error": {"type": "t", "message": "No."}}, "No. (t)"),
        ({"type": "error", "message": "No.", "code": "c"}, "No. (c)"),
        ({"error": "No."}, "No."),
        ({"detail": "No."}, "No."),
        ({"message": "No."}, "No."),
        ({"error": {"message": "x" * 900}}, "x" * 500),
        ({"what": 1}, '{"what":1}'),
        ([], "[]"),
    ],
)
def test_what_an_error_says(value: Any, says: str) -> None:
    assert error_text(value) == says


def test_what_a_body_and_the_system_say() -> None:
    assert body_text(b'{"error":"No."}') == "No."
    assert body_text(b" <h1>No</h1> ") == "<h1>No</h1>"
    assert body_text(b"\xff") == "\ufffd"
    assert os_text(ConnectionResetError(104, "Connection reset by peer")) == (
        "Connection reset by peer"
    )
    assert os_text(TimeoutError()) == "TimeoutError"
