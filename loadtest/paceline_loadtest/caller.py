"""What every client of a load test has in common: one request in, one measured call out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from paceline_loadtest.model import Call, Dialect


@dataclass(slots=True)
class Ask:
    """A request that is ready to be sent; `body` is what its dialect wants.

    `thread` names the agent that asks: over a WebSocket all of an agent's requests take one
    connection. `headers` come on top of those that the client sends by itself.
    """

    dialect: Dialect
    body: dict[str, Any]
    thread: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: bool = True
    """As the body has it. An answer in one piece has no first token: all of it comes at once."""


@dataclass(slots=True)
class ToolCall:
    """A call of a tool that an answer makes."""

    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class Reply:
    """What of an answer the next turn needs; what was measured of it is in its `Call`."""

    text: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    """Of Responses: the output items as they came."""
    response_id: str | None = None
    finish_reason: str | None = None


class Caller(Protocol):
    """A client. Many calls may be under way at once, on one event loop."""

    async def call(self, ask: Ask, call: Call) -> Reply:
        """Make a request and note in `call` what is seen of it, while it is seen.

        `call.sent_at` … `call.end_at` are set here; `scheduled_at` and `slot_at` are the caller's.
        A failure is noted in `call.error` and raises nothing, so that no failure is ever lost.
        Being cancelled breaks the request off.
        """
        ...

    async def warm(self, count: int) -> None:
        """Open so many connections ahead, where the client does that; nothing raises."""
        ...

    async def end_thread(self, thread: str) -> None:
        """An agent has ended: what was kept for it may go."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...
