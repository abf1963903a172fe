"""Who may import whom, read from the syntax tree of every file.

The law is stated in the docstring of each layer's package; this is what holds it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (ROOT / "server", ROOT / "loadtest")

# The parts of Paceline that each layer may import beside itself; modules named nowhere here, such
# as paceline.app and paceline.cli, know all the others.
MAY_IMPORT: dict[str, set[str]] = {
    "paceline.core": set(),
    "paceline.wire": {"paceline.core"},
    "paceline.runtime": {"paceline.core"},
    "paceline.simulation": {"paceline.core"},
    "paceline.http": {"paceline.wire", "paceline.runtime", "paceline.core"},
    "paceline.recording": {
        "paceline.http",
        "paceline.wire",
        "paceline.runtime",
        "paceline.client",
        "paceline.core",
    },
    "paceline.client": set(),
    "paceline.race": {"paceline.client"},
    "paceline.fit": {"paceline.client", "paceline.core"},
    "paceline.testing": {"paceline.app", "paceline.http", "paceline.runtime", "paceline.core"},
    "paceline_loadtest": {
        "paceline.client",
        "paceline.core",
        "paceline.runtime.profile_files",
        "paceline.runtime.rate_files",
        "paceline.runtime.toml_files",
        "paceline.simulation",
    },
}
# What a command takes from the command line it is part of, in the one file that is the command.
COMMANDS = {
    "paceline.fit.fit_command": {"paceline.cli"},
    "paceline.race.command": {"paceline.cli"},
    "paceline.race.own_server": {"paceline.cli"},
    "paceline_loadtest.command": {"paceline.cli"},
    "paceline_loadtest.own": {"paceline.race.own_server"},
}
STANDARD_LIBRARY_ONLY = {"paceline.core", "paceline.client"}
PURE = {"paceline.core", "paceline.wire"}

# Modules that read a clock, reach a disk, a socket or the system, or run things side by side.
# fmt: off
IMPURE_MODULES = frozenset({
    "asyncio", "concurrent", "ctypes", "datetime", "fcntl", "fileinput", "glob", "http",
    "importlib", "io", "locale", "logging", "mmap", "multiprocessing", "os", "pathlib",
    "platform", "queue", "sched", "secrets", "select", "selectors", "shelve", "shutil",
    "signal", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "tempfile",
    "threading", "time", "tracemalloc", "urllib", "uuid", "_thread", "anyio", "fastapi",
    "httpx", "httpx2", "starlette", "tiktoken", "uvicorn", "uvloop",
})
# fmt: on
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "compile", "__import__"})


def is_within(module: str, name: str) -> bool:
    """Whether a dotted name is a part, or a part of it."""
    return f"{module}.".startswith(f"{name}.")


def layer_of(module: str) -> str | None:
    """The layer that a dotted name belongs to, if any."""
    return next((name for name in MAY_IMPORT if is_within(module, name)), None)


def imported_names(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Each (line, dotted name) that the file imports; ``from a import b`` gives ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                up = node.level - 1 if is_package else node.level
                base = ".".join([*parts[: len(parts) - up], *filter(None, [node.module])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def broken_imports(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[str]:
    layer = layer_of(module)
    if layer is None:
        return
    allowed = {layer, *MAY_IMPORT[layer], *COMMANDS.get(module, ()), "paceline.__version__"}
    for line, name in imported_names(tree, module, is_package=is_package):
        top = name.partition(".")[0]
        if top in {"paceline", "paceline_loadtest"}:
            if not any(is_within(name, part) for part in allowed):
                yield f"line {line}: {layer} imports {name}"
        elif layer in STANDARD_LIBRARY_ONLY and top not in sys.stdlib_module_names:
            yield f"line {line}: {layer} imports {name}, which is not the standard library"
        elif layer in PURE and top in IMPURE_MODULES:
            yield f"line {line}: {layer} imports {name}, which is not pure"
        elif layer in PURE and top == "random" and name not in {"random", "random.Random"}:
            yield f"line {line}: {layer} imports {name}: the shared generator or the system's"


def broken_purity(tree: ast.Module, module: str) -> Iterator[str]:
    layer = layer_of(module)
    if layer not in PURE:
        return
    for node in ast.walk(tree):
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield f"line {node.lineno}: {layer} awaits"
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                yield f"line {node.lineno}: {layer} calls {name}()"
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="random"), attr="Random")
                | ast.Name(id="Random"),
                args=[],
                keywords=[],
            ):
                yield f"line {node.lineno}: {layer} seeds a generator from the system"
            case ast.Attribute(value=ast.Name(id="random"), attr=name) if name != "Random":
                yield f"line {node.lineno}: {layer} uses random.{name}, shared or the system's"
            case _:
                pass


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """What in a module's source breaks the law of its layer."""
    tree = ast.parse(source)
    return [
        *broken_imports(tree, module, is_package=is_package),
        *broken_purity(tree, module),
    ]


def source_files() -> dict[str, Path]:
    """Dotted module name to file, for everything that ships."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for root in SOURCES
        for path in sorted(root.rglob("*.py"))
    }


@pytest.mark.parametrize(("name", "path"), source_files().items(), ids=source_files().keys())
def test_every_file_obeys_the_law_of_its_layer(name: str, path: Path) -> None:
    is_package = path.name == "__init__.py"
    module = name.removesuffix(".__init__")
    assert violations(path.read_text("utf-8"), module, is_package=is_package) == []


def test_every_layer_was_read() -> None:
    assert {layer_of(module) for module in source_files()} >= set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("paceline.core.clock", "import time", "not pure"),
        ("paceline.core.clock", "from datetime import datetime", "not pure"),
        ("paceline.core.load", "from pathlib import Path", "not pure"),
        ("paceline.core.load", "def f():\n    import os.path", "not pure"),
        ("paceline.core.load", "open('x')", r"calls open\(\)"),
        ("paceline.core.plan", "import orjson", "not the standard library"),
        ("paceline.core.plan", "from paceline.wire import sse", "imports paceline.wire.sse"),
        ("paceline.core.plan", "from ..wire import sse", "imports paceline.wire.sse"),
        ("paceline.core.plan", "from .. import runtime", "imports paceline.runtime"),
        ("paceline.core.plan", "import paceline", "imports paceline"),
        ("paceline.core.rng", "import random\nrandom.random()", "uses random.random"),
        ("paceline.core.rng", "from random import choice", "imports random.choice"),
        ("paceline.core.rng", "from random import Random\nRandom()", "seeds a generator"),
        ("paceline.core.rng", "import random\nrandom.Random()", "seeds a generator"),
        ("paceline.core.wait", "async def f() -> None: ...", "awaits"),
        ("paceline.wire.chat", "from fastapi import Request", "not pure"),
        ("paceline.wire.chat", "from paceline.runtime.pacer import Pacer", "imports paceline.run"),
        ("paceline.runtime.pacer", "import paceline.http.routes", "imports paceline.http.routes"),
        ("paceline.runtime.pacer", "from paceline.wire import sse", "imports paceline.wire.sse"),
        ("paceline.http.routes", "from paceline.app import create_app", "imports paceline.app"),
        ("paceline.http.front", "import paceline.recording.replay", "imports paceline.recording"),
        ("paceline.recording.proxy", "from paceline.app import App", "imports paceline.app.App"),
        ("paceline.client.sse", "import orjson", "not the standard library"),
        ("paceline.client.sse", "from paceline.wire import sse", "imports paceline.wire.sse"),
        ("paceline.race.lane", "from paceline.core import plan", "imports paceline.core.plan"),
        ("paceline.race.lane", "from paceline.cli import fail", "imports paceline.cli.fail"),
        ("paceline.fit.probe.plan", "import paceline.runtime.engine", "imports paceline.runtime"),
        ("paceline.fit.loop", "from paceline.client_x import y", "imports paceline.client_x.y"),
        ("paceline.simulation.run", "import paceline.runtime.clock", "imports paceline.runtime"),
        ("paceline.testing.server", "from paceline.wire import sse", "imports paceline.wire.sse"),
        ("paceline_loadtest.run", "from paceline.http import x", "imports paceline.http.x"),
    ],
)
def test_a_violation_is_caught(module: str, source: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        assert violations(source, module) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("paceline.core.rng", "import random\nrandom.Random(7)"),
        ("paceline.core.rng", "import math\nfrom collections.abc import Iterator"),
        ("paceline.core.plan", "from .request import Request\nfrom paceline.core import usage"),
        ("paceline.wire.chat", "import orjson\nfrom paceline.core.plan import Plan"),
        ("paceline.runtime.pacer", "import asyncio\nimport time\nfrom ..core import plan"),
        ("paceline.http.routes", "from paceline.wire import sse\nfrom paceline import __version__"),
        ("paceline.client.stream", "import socket\nfrom paceline.client.sse import Event"),
        ("paceline.race.command", "from paceline.cli import fail\nfrom ..client import sse"),
        ("paceline.fit.probe.plan", "from paceline.core import steps\nfrom ...client import sse"),
        ("paceline.testing.server", "from paceline.app import App\nimport uvicorn"),
        ("paceline.app", "import paceline.http, paceline.runtime, paceline.wire"),
        ("paceline_loadtest.run", "import openai\nfrom paceline.core.profile import Profile"),
    ],
)
def test_what_the_law_allows_is_not_caught(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_relative_imports_of_a_package_start_at_itself() -> None:
    assert violations("from .plan import Plan", "paceline.core", is_package=True) == []
    assert violations("from ..wire import sse", "paceline.core", is_package=True) != []
