"""The libraries: each runs a small program of `programs/` in its own environment."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import install
from case import Case, Context

PROGRAMS = Path(__file__).parent / "programs"
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
MODEL = "wafer-750"


def _python(package: str, program: str, *arguments: str) -> Callable[[Context], str]:
    def run(context: Context) -> str:
        context.run([str(install.python_of(package)), str(PROGRAMS / program), *arguments])
        return _done(context)

    return run


def _node(program: str, *arguments: str) -> Callable[[Context], str]:
    def run(context: Context) -> str:
        # A module finds packages by where it lies.
        copy = Path(shutil.copy(PROGRAMS / program, install.NODE / program))
        context.run([str(install.node()), str(copy), *arguments])
        return _done(context)

    return run


def _done(context: Context) -> str:
    answers = len(context.server.records())
    return f"{answers} answers, {context.tool_turns()} with tool calls"


LIBRARY_CASES = (
    Case(
        "openai (Python)", "openai", CHAT, "HTTP, SSE", MODEL, _python("openai", "openai_chat.py")
    ),
    Case(
        "openai (Python)",
        "openai",
        RESPONSES,
        "HTTP, SSE",
        MODEL,
        _python("openai", "openai_responses.py"),
    ),
    Case(
        "openai (Python)",
        "openai",
        RESPONSES,
        "WebSocket",
        MODEL,
        _python("openai", "openai_websocket.py"),
    ),
    Case(
        "openai (Node)", "openai-node", CHAT, "HTTP, SSE", MODEL, _node("openai_node.mjs", "chat")
    ),
    Case(
        "openai (Node)",
        "openai-node",
        RESPONSES,
        "HTTP, SSE",
        MODEL,
        _node("openai_node.mjs", "responses"),
    ),
    *(
        Case(
            "openai-agents",
            "openai-agents",
            endpoint,
            transport,
            MODEL,
            _python("openai-agents", "agents_sdk.py", kind),
        )
        for endpoint, transport, kind in (
            (CHAT, "HTTP, SSE", "chat"),
            (RESPONSES, "HTTP, SSE", "responses"),
            (RESPONSES, "WebSocket", "websocket"),
        )
    ),
    *(
        Case(client, package, endpoint, "HTTP, SSE", MODEL, _python(package, program, kind))
        for client, package, program in (
            ("langchain-openai", "langchain-openai", "langchain.py"),
            ("pydantic-ai", "pydantic-ai-slim", "pydanticai.py"),
            ("litellm", "litellm", "litellm_client.py"),
        )
        for endpoint, kind in ((CHAT, "chat"), (RESPONSES, "responses"))
    ),
    *(
        Case("ai + @ai-sdk/openai", "ai", endpoint, "HTTP, SSE", MODEL, _node("ai_sdk.mjs", kind))
        for endpoint, kind in ((CHAT, "chat"), (RESPONSES, "responses"))
    ),
    Case(
        "anthropic (Python)",
        "anthropic",
        MESSAGES,
        "HTTP, SSE",
        MODEL,
        _python("anthropic", "anthropic_client.py"),
    ),
)
