"""The three clients that are put under limits, each asked for one short answer."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import install
import isolation

PATIENCE_S = 60.0
BRIEF_S = 10.0
"""Enough to see that a client only waits."""
TASK = "Say hello."
_PROGRAMS = Path(__file__).parent / "programs"
_PATH = f"{install.node().parent}:/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Asked:
    """What a client is told: the server's root, a key, a model, and perhaps a tier."""

    url: str
    key: str
    model: str
    folder: Path
    """An empty one, for its home."""
    tier: str | None = None
    patience_s: float = PATIENCE_S
    """After so long it is stopped."""


@dataclass(frozen=True)
class Ran:
    """How a client's program went."""

    succeeded: bool
    said: str
    """Its own words for what went wrong, or what it answered."""
    seconds: float
    begun_s: float
    """When it was started, by the monotonic clock."""
    stopped: bool = False
    """Whether it was still at it when patience ran out, and had to be stopped."""


@dataclass(frozen=True)
class Client:
    """A program to put under limits; what a limit's table says goes by its name."""

    name: str
    package: str
    run: Callable[[Asked], Ran]
    tier: str | None
    """What it calls the tier that answers call `priority`; None: it can't ask for a tier."""
    tokens_a_minute: int
    """A limit that its one request, with all the output that it asks for, takes some seconds of."""


def _run(command: list[str], asked: Asked, end: Callable[[str], str | None], **env: str) -> Ran:
    """Run a program; `end` takes what it printed and says what went wrong, None for nothing."""
    work = asked.folder / "work"
    work.mkdir(exist_ok=True)
    environment = isolation.environment(asked.folder, **env)
    begun = time.monotonic()
    # A file rather than a pipe: what it has started may outlive it and hold a pipe open.
    with (asked.folder / "stdout").open("w+b") as out, (asked.folder / "stderr").open("w+b") as err:
        process = subprocess.Popen(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        try:
            code: int | None = process.wait(asked.patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
    seconds = time.monotonic() - begun
    printed = (asked.folder / "stdout").read_text("utf-8", "replace")
    errors = (asked.folder / "stderr").read_text("utf-8", "replace")
    if code is None:
        return Ran(False, "", seconds, begun, stopped=True)
    wrong = end(printed)
    if wrong is None and code:
        wrong = f"exit code {code}: {errors.strip()[-300:]}"
    return Ran(wrong is None, wrong or "", seconds, begun)


def _openai(asked: Asked) -> Ran:
    more = {"TIER": asked.tier} if asked.tier else {}
    return _run(
        [str(install.python_of("openai")), str(_PROGRAMS / "limited.py")],
        asked,
        _openai_end,
        BASE_URL=asked.url,
        KEY=asked.key,
        MODEL=asked.model,
        **more,
    )


def _openai_end(printed: str) -> str | None:
    found: dict[str, Any] = json.loads(printed or "{}")
    return f"{found['error']}: {found['message']}" if "error" in found else None


def _codex(*, websocket: bool) -> Callable[[Asked], Ran]:
    """Codex with a provider of its own over SSE, or the built-in one over the WebSocket."""

    def run(asked: Asked) -> Ran:
        home = asked.folder / "codex"
        home.mkdir(exist_ok=True)
        config = [f'model = "{asked.model}"', 'model_reasoning_effort = "low"']
        if asked.tier:
            config.append(f'service_tier = "{asked.tier}"')
        if websocket:
            config.append(f'openai_base_url = "{asked.url}/v1"')
        else:
            config += [
                'model_provider = "paceline"',
                "[model_providers.paceline]",
                'name = "Paceline"',
                f'base_url = "{asked.url}/v1"',
                'env_key = "PACELINE_KEY"',
                'wire_api = "responses"',
                "supports_websockets = false",
            ]
        (home / "config.toml").write_text("\n".join(config) + "\n", "utf-8")
        return _run(
            [
                str(install.node_tool("codex")),
                "exec",
                "--json",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                TASK,
            ],
            asked,
            _codex_end,
            CODEX_HOME=str(home),
            PACELINE_KEY=asked.key,
            CODEX_API_KEY=asked.key,
            PATH=_PATH,
        )

    return run


def _codex_end(printed: str) -> str | None:
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    for event in reversed(events):
        if event["type"] == "turn.completed":
            return None
        if event["type"] == "turn.failed":
            return str(event["error"]["message"])
    return "no turn was completed"


def _claude_end(printed: str) -> str | None:
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    ends = [event for event in events if event.get("type") == "result"]
    if not ends:
        return "it printed no result"
    return str(ends[-1].get("result")) if ends[-1].get("is_error") else None


def _claude(asked: Asked) -> Ran:
    return _run(
        [
            str(install.node_tool("claude")),
            "-p",
            "--model",
            asked.model,
            "--output-format",
            "json",
            "--dangerously-skip-permissions",
            "--effort",
            "low",
            TASK,
        ],
        asked,
        _claude_end,
        ANTHROPIC_BASE_URL=asked.url,
        ANTHROPIC_API_KEY=asked.key,
        CLAUDE_CONFIG_DIR=str(asked.folder / "claude"),
        IS_SANDBOX="1",
        PATH=_PATH,
    )


OPENAI = Client("openai", "openai", _openai, "priority", 120_000)
CODEX = Client("Codex, SSE", "@openai/codex", _codex(websocket=False), "fast", 120_000)
CODEX_SOCKET = Client("Codex, WebSocket", "@openai/codex", _codex(websocket=True), "fast", 120_000)
CLAUDE = Client("Claude Code", "@anthropic-ai/claude-code", _claude, None, 600_000)
CLIENTS = (OPENAI, CODEX, CODEX_SOCKET, CLAUDE)
