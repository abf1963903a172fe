"""The words of the load test: what a loop does, and what was measured of it.

A `Loop` is one agent's work, drawn from a scenario: every number in it is fixed, so the same loop
can be predicted, run live on each tier, and run again. Measured times are seconds on the clock of
`time.perf_counter()`, or spans in seconds; None stands for what wasn't seen.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Literal, get_args

Dialect = Literal["chat", "responses", "responses-websocket", "messages"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)


@dataclass(frozen=True, slots=True)
class ToolRun:
    """One tool call: how long the tool takes and how much it says.

    With a `command` that is really run, and `seconds` is the guess that a prediction uses. With
    `agents` the tool is sub-agents, all at once; it ends with the last of them, and takes
    `seconds` on top.
    """

    name: str
    seconds: float
    result_tokens: int
    command: tuple[str, ...] = ()
    agents: tuple[Loop, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One request: what is new in its prompt, what its answer comes to, what follows it.

    `new_tokens` is new text beside the results of the tools before it. `think_s` passes before
    the request is made: a person reads. `tools` follow the answer, all at once where `parallel`.
    """

    new_tokens: int
    reasoning_tokens: int
    output_tokens: int
    """Visible ones."""
    tools: tuple[ToolRun, ...] = ()
    parallel: bool = True
    think_s: float = 0.0
    stage: str = ""
    """What its scenario calls this part of the loop."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One agent from its first request to its last answer; each turn resends all before it."""

    id: str
    system_tokens: int
    tools_defined: int
    """How many tool definitions every request carries."""
    tool_definition_tokens: int
    """Of each of them."""
    turns: tuple[Turn, ...]
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """Where a loop runs: a server, a model name and a tier; `label` is what a report calls it."""

    label: str
    base_url: str
    model: str
    service_tier: str | None = None
    api_key: str = "paceline"
    paceline: bool = True
    """Whether the server is Paceline, which takes the loop's token counts as they are."""


@dataclass(slots=True)
class ServerPart:
    """What the server said of one request, in seconds: its `Server-Timing`, and the bill."""

    overhead_s: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    profile: str | None = None
    cost_usd: str | None = None
    """Exact, in plain digits; None where no price is published."""
    credits: str | None = None


@dataclass(slots=True)
class Call:
    """One request as its client saw it.

    `scheduled_at` is when it should have been made: latencies count from there. `slot_at` is when
    a client slot was free for it, `sent_at` when its first byte left. `first_at` is the first
    content of any channel (reasoning, text, tool call), stamped on receipt before parsing;
    `last_at` the last content, never the usage or `[DONE]` behind it; `end_at` the end of all.
    `chunk_at` holds the receipt of every chunk with content; chunks aren't tokens.
    """

    scheduled_at: float
    slot_at: float | None = None
    sent_at: float | None = None
    headers_at: float | None = None
    first_at: float | None = None
    first_visible_at: float | None = None
    last_at: float | None = None
    end_at: float | None = None
    chunk_at: array[float] = field(default_factory=lambda: array("d"))
    status: int | None = None
    error: str | None = None
    """Why it failed, in words; None where it didn't."""
    retries: int = 0
    waited_s: float = 0.0
    """Of its time, what it waited because it was told to (429, 503)."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    """All of them, from `usage`; None where the server told none."""
    reasoning_tokens: int | None = None
    service_tier: str | None = None
    """What served it, as the answer says."""
    request_id: str | None = None
    server: ServerPart = field(default_factory=ServerPart)

    @property
    def ok(self) -> bool:
        """Whether it ended as it should."""
        return self.error is None and self.end_at is not None


@dataclass(slots=True)
class ToolSpan:
    """One tool as it ran; `loops` are its sub-agents."""

    name: str
    started_at: float
    ended_at: float
    loops: list[LoopRun] = field(default_factory=list)


@dataclass(slots=True)
class TurnRun:
    """One turn as it ran; `started_at` is before its thinking time."""

    started_at: float
    call: Call
    tools: list[ToolSpan] = field(default_factory=list)
    ended_at: float | None = None


@dataclass(slots=True)
class LoopRun:
    """A loop as it ran; `stopped` says why it ended early."""

    loop: Loop
    started_at: float
    turns: list[TurnRun] = field(default_factory=list)
    ended_at: float | None = None
    stopped: str | None = None

    @property
    def seconds(self) -> float | None:
        """From its start to its end."""
        return None if self.ended_at is None else self.ended_at - self.started_at
