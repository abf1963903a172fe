"""A scenario: what an agent's loops are drawn from.

Its numbers are assumptions about an agent, not facts, so it says of each where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from paceline.core.sources import Source
from paceline_loadtest.distributions import Distribution
from paceline_loadtest.model import Dialect
from paceline_loadtest.statistics import Slo

OnError = Literal["stop", "continue"]
ON_ERROR: tuple[OnError, ...] = get_args(OnError)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a stage's answers call, `count` times a turn.

    It takes `seconds`, or as long as `command` really runs, or as long as `agents` sub-agents of
    the kind `agent` take with `seconds` on top; and then says `result_tokens`.
    """

    name: str
    count: Distribution
    seconds: Distribution
    result_tokens: Distribution
    command: tuple[str, ...] = ()
    agent: str = ""
    agents: Distribution | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """Turns of one kind, one after another."""

    name: str
    turns: Distribution
    new_tokens: Distribution
    reasoning_tokens: Distribution
    output_tokens: Distribution
    think_s: Distribution
    parallel: bool
    tools: tuple[Tool, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """One kind of loop."""

    system_tokens: int
    tools_defined: int
    tool_definition_tokens: int
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario. `agent` is the loop itself, `agents` the kinds of its sub-agents."""

    name: str
    title: str
    agent: Agent
    agents: Mapping[str, Agent] = field(default_factory=dict)
    dialect: Dialect = "chat"
    stream: bool = True
    on_error: OnError = "stop"
    """Whether a loop ends with a request that fails, or goes on without its answer."""
    seed: int = 0
    notes: str = ""
    slo: Slo | None = None
    """What a good request keeps; None where the scenario asks nothing."""
    sources: Mapping[str, Source] = field(default_factory=dict)

    def numbers(self) -> Iterator[str]:
        """The dotted key of every number: `stages.edit.output_tokens`, `agents.reader.…`."""
        if self.slo is not None:
            limits = {"ttft_s": self.slo.ttft_s, "tpot_s": self.slo.tpot_s, "e2e_s": self.slo.e2e_s}
            yield from (f"slo.{name}" for name, limit in limits.items() if limit is not None)
        yield from _numbers("", self.agent)
        for name, agent in self.agents.items():
            yield from _numbers(f"agents.{name}.", agent)

    def source(self, key: str) -> Source | None:
        """Where a number comes from: its own source, or that of the part that it stands in."""
        while key:
            found = self.sources.get(key)
            if found is not None:
                return found
            key = key.rpartition(".")[0]
        return None


def _numbers(prefix: str, agent: Agent) -> Iterator[str]:
    for name in ("system_tokens", "tools_defined", "tool_definition_tokens"):
        yield f"{prefix}prompt.{name}"
    for stage in agent.stages:
        key = f"{prefix}stages.{stage.name}"
        for name in ("turns", "new_tokens", "reasoning_tokens", "output_tokens", "think_s"):
            yield f"{key}.{name}"
        for tool in stage.tools:
            names = ["count", "seconds", "result_tokens", *(["agents"] if tool.agent else [])]
            yield from (f"{key}.tools.{tool.name}.{name}" for name in names)
