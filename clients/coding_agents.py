"""The agents: Codex and Claude Code, each with a loop of tool calls to go through."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import install
from case import Case, Context, need

RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
SPEEDS = ("gpu-40", "wafer-750", "spark-1000")
STEPS = 3
TASK = "There is a bug in this folder. Find it and fix it."
VERDICT = re.compile(r"The last run of the check said:.*\bok\b", re.DOTALL)
"""How the script `fix-a-bug` ends when every command of it was run and its output came back."""

SSE = "supports_websockets = false"
WEBSOCKET = "supports_websockets = true"


def _codex_home(context: Context, *lines: str, provider: str | None = SSE) -> Path:
    """A configuration that knows no server but ours; without a provider, the built-in one."""
    home = context.folder / "codex"
    home.mkdir(exist_ok=True)
    config = [f'model = "{context.case.model}"', *lines]
    if provider is None:
        config += [f'openai_base_url = "{context.server.base_url}"']
    else:
        config += [
            'model_provider = "paceline"',
            "[model_providers.paceline]",
            'name = "Paceline"',
            f'base_url = "{context.server.base_url}"',
            'env_key = "PACELINE_KEY"',
            'wire_api = "responses"',
            provider,
        ]
    (home / "config.toml").write_text("\n".join(config) + "\n", "utf-8")
    return home


def _codex(context: Context, home: Path, task: str = TASK) -> list[dict[str, Any]]:
    """One run of `codex exec`; returns its events."""
    work = context.folder / "work"
    work.mkdir(exist_ok=True)
    printed = context.run(
        [
            str(install.node_tool("codex")),
            "exec",
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            task,
        ],
        cwd=work,
        CODEX_HOME=str(home),
        PACELINE_KEY="any",
        CODEX_API_KEY="any",
        PATH=_path(),
    )
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    ends = [event for event in events if event["type"] in ("turn.completed", "turn.failed")]
    need([e["type"] for e in ends] == ["turn.completed"], f"the turn ended with {ends}")
    return events


def _path() -> str:
    return f"{install.node().parent}:/usr/local/bin:/usr/bin:/bin"


def _items(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    found = [e["item"] for e in events if e["type"] == "item.completed"]
    return [item for item in found if item["type"] == kind]


def _mended(context: Context, said: str) -> None:
    """The task is done: the agent's commands changed the file, and their output came back."""
    need(VERDICT.search(said), f"its last word was {said[-200:]!r}")
    code = (context.folder / "work" / "paceline-demo" / "stats.py").read_text("utf-8")
    need("/ len(values)\n" in code, f"the bug is still there: {code}")


def codex_loop(provider: str | None) -> Callable[[Context], str]:
    """A task of at least three commands, run by Codex, and a last word."""

    def run(context: Context) -> str:
        events = _codex(context, _codex_home(context, provider=provider))
        commands = _items(events, "command_execution")
        good = [c for c in commands if c.get("exit_code") == 0]
        need(len(good) >= STEPS, f"{len(good)} commands were run, not {STEPS}")
        said = " ".join(item["text"] for item in _items(events, "agent_message"))
        _mended(context, said)
        frames = sum(r.method == "WEBSOCKET" for r in context.server.requests)
        posts = sum(r.path == RESPONSES and r.method == "POST" for r in context.server.requests)
        used = "WebSocket" in context.case.transport
        need(bool(frames) == used and bool(posts) != used, f"{frames} frames, {posts} POSTs")
        return f"{len(good)} commands run, {len(context.server.records())} answers"

    return run


def codex_tier(context: Context) -> str:
    """`service_tier = "fast"` arrives as `priority` and is faster."""
    seconds = {}
    for tier in ("default", "fast"):
        lines = [] if tier == "default" else [f'service_tier = "{tier}"']
        home = _codex_home(context, *lines, 'model_reasoning_effort = "low"', provider=None)
        context.server.clear()
        before, known = context.seconds, len(context.server.records())
        _codex(context, home, "Say hello.")
        seconds[tier] = context.seconds - before
        sent = {r.json.get("service_tier") for r in context.server.requests if r.body}
        wanted = {"default": {None}, "fast": {"priority"}}[tier]
        need(sent == wanted, f"{tier} arrived as {sent}")
        served = {r["service_tier"] for r in context.server.records()[known:]}
        need(served == {"default" if tier == "default" else "priority"}, f"served as {served}")
    need(seconds["fast"] < 0.7 * seconds["default"], f"{seconds}")
    return f"fast arrives as priority: {seconds['default']:.1f} s, then {seconds['fast']:.1f} s"


def codex_compaction(provider: str | None) -> Callable[[Context], str]:
    """A history above Codex's limit is compacted, and the task goes on to its end."""

    def run(context: Context) -> str:
        home = _codex_home(context, "model_auto_compact_token_limit = 11000", provider=provider)
        events = _codex(context, home, "Read the long list.")
        need(_items(events, "agent_message"), "there was no last word")
        bodies = [r.body for r in context.server.requests]
        asked = sum(b"compaction_trigger" in b or b"CONTEXT CHECKPOINT" in b for b in bodies)
        need(asked, "nothing was compacted")
        answers = len(context.server.records())
        need(answers < 40, f"{answers} answers: it went round in circles")
        return f"compacted, {answers} answers in all"

    return run


def claude_loop(context: Context) -> str:
    """A task of at least three commands, run by Claude Code, and a last word."""
    work = context.folder / "work"
    work.mkdir()
    printed = context.run(
        [
            str(install.node_tool("claude")),
            "-p",
            "--model",
            context.case.model,
            "--output-format",
            "stream-json",
            "--verbose",
            "--dangerously-skip-permissions",
            "--effort",
            "low",
            TASK,
        ],
        cwd=work,
        ANTHROPIC_BASE_URL=context.server.url,
        ANTHROPIC_API_KEY="any",
        CLAUDE_CONFIG_DIR=str(context.folder / "claude"),
        IS_SANDBOX="1",
        PATH=_path(),
    )
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    blocks = [
        block
        for event in events
        if event["type"] in ("assistant", "user")
        for block in event["message"]["content"]
        if isinstance(block, dict)
    ]
    results = [block for block in blocks if block["type"] == "tool_result"]
    good = [block for block in results if not block.get("is_error")]
    need(len(good) >= STEPS, f"{len(good)} of {len(results)} tools went well, not {STEPS}")
    (end,) = [event for event in events if event["type"] == "result"]
    need(end["subtype"] == "success" and not end["is_error"], f"it ended with {end}")
    _mended(context, end["result"])
    return f"{len(good)} tools run, {len(context.server.records())} answers"


_SCRIPTS = Path(__file__).parent / "scripts"
LOOP: dict[str, Any] = {"scripts": ("fix-a-bug",)}
LONG: dict[str, Any] = {
    "scripts": tuple(
        _SCRIPTS / f"{name}.toml" for name in ("summarised", "compacted", "much-to-read")
    )
}

AGENT_CASES = (
    *(
        Case("Codex CLI", "@openai/codex", RESPONSES, transport, model, codex_loop(provider), LOOP)
        for transport, provider in (
            ("HTTP, SSE (custom provider)", SSE),
            ("WebSocket (custom provider)", WEBSOCKET),
            ("WebSocket (built-in provider)", None),
        )
        for model in SPEEDS
    ),
    Case(
        "Codex CLI",
        "@openai/codex",
        RESPONSES,
        "WebSocket (built-in provider)",
        "gpt-5.6-sol",
        codex_tier,
        what="tier",
    ),
    *(
        Case(
            "Codex CLI",
            "@openai/codex",
            RESPONSES,
            transport,
            "wafer-750",
            codex_compaction(provider),
            LONG,
            what="compaction",
        )
        for transport, provider in (
            ("HTTP, SSE (custom provider)", SSE),
            ("WebSocket (built-in provider)", None),
        )
    ),
    *(
        Case(
            "Claude Code",
            "@anthropic-ai/claude-code",
            MESSAGES,
            "HTTP, SSE",
            model,
            claude_loop,
            LOOP,
        )
        for model in SPEEDS
    ),
)
