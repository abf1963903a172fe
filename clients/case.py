"""What a case is: one client with a task to complete."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import isolation

from paceline.testing import TestServer

PATIENCE_S = 180.0


class Skip(Exception):  # noqa: N818 - it is no error
    """The case can't be run here; the message says why."""


class Context:
    """A case at work: its server, an empty folder, and what its programs printed."""

    def __init__(self, case: Case, server: TestServer, folder: Path) -> None:
        self.case = case
        self.server = server
        self.folder = folder
        self.output = ""
        self.seconds = 0.0
        """Wall time of the programs that were run."""

    def run(self, command: list[str], *, cwd: Path | None = None, **more: str) -> str:
        """Run a program to its end; returns what it printed. Raises RuntimeError if it failed."""
        environment = isolation.environment(
            self.folder, BASE_URL=self.server.url, MODEL=self.case.model, **more
        )
        begun = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=cwd or self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            self.output += f"{_text(late.stdout)}\n{_text(late.stderr)}"
            raise RuntimeError(f"no end after {PATIENCE_S:.0f} s") from None
        self.seconds += time.monotonic() - begun
        self.output += f"{done.stdout}\n{done.stderr}"
        if done.returncode:
            raise RuntimeError(_last_line(done.stderr) or f"exit code {done.returncode}")
        return done.stdout

    def tool_turns(self) -> int:
        """Answers for the case's model that ended in tool calls."""
        return sum(r["finish_reason"] == "tool_calls" for r in self.server.records())


@dataclass(frozen=True)
class Case:
    """A client, what it speaks to, and the task; `run` raises where it isn't completed.

    It returns a few words about what was done. `settings` are for the server.
    """

    client: str
    package: str
    endpoint: str
    transport: str
    model: str
    run: Callable[[Context], str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    what: str = ""

    @property
    def name(self) -> str:
        """For the command line."""
        words = (self.client, self.endpoint, self.transport, self.model, self.what)
        return " ".join(word for word in words if word)


def need(holds: object, message: str) -> None:
    """Fail the case unless something holds."""
    if not holds:
        raise RuntimeError(message)


def _text(data: bytes | str | None) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data or ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
