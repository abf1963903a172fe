"""Scenarios on disk, those that ship and others: found, read, and refused with a reason.

Unknown keys and impossible values are refused with the file, the key and the reason, so that a
scenario that loads is one that can be run.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from paceline.core.sources import Source, read_sources
from paceline.runtime.toml_files import read_toml
from paceline_loadtest.model import DIALECTS
from paceline_loadtest.scenario import ON_ERROR, Agent, Scenario, Stage, Tool
from paceline_loadtest.scenario_values import MOST_SECONDS, MOST_TOKENS, ScenarioError, Values
from paceline_loadtest.statistics import Slo

__all__ = ["ScenarioError", "load_scenario", "parse_scenario", "read_scenario", "shipped_scenarios"]

MOST_TURNS = 10_000
"""Of one stage."""
MOST_TOOLS, MOST_AGENTS, MOST_DEFINED = 64, 64, 128
_MOST_SEED = (1 << 63) - 1

_TOP = frozenset(
    {
        "title",
        "notes",
        "dialect",
        "stream",
        "on_error",
        "seed",
        "prompt",
        "stages",
        "agents",
        "slo",
        "sources",
    }
)
_PROMPT = frozenset({"system_tokens", "tools_defined", "tool_definition_tokens"})
_SLO = ("ttft_s", "tpot_s", "e2e_s")
_STAGE = frozenset(
    {
        "name",
        "turns",
        "new_tokens",
        "reasoning_tokens",
        "output_tokens",
        "think_s",
        "parallel",
        "tools",
    }
)
_TOOL = frozenset({"name", "count", "seconds", "result_tokens", "command", "agent", "agents"})


def shipped_scenarios() -> dict[str, Path]:
    """The scenarios that come with this program, by name."""
    folder = Path(__file__).parent / "scenarios"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_scenario(name_or_file: str) -> Scenario:
    """Read a shipped scenario by its name, or a file by its path. Raises ScenarioError."""
    shipped = shipped_scenarios()
    path = shipped.get(name_or_file, Path(name_or_file))
    if name_or_file not in shipped and path.suffix != ".toml":
        near = get_close_matches(name_or_file, shipped, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        known = ", ".join(shipped)
        reason = f"no scenario is called {name_or_file!r}.{hint} There are {known}, and .toml files"
        raise ScenarioError(None, "", reason)
    return read_scenario(path)


def read_scenario(path: Path) -> Scenario:
    """Read a scenario's file; its name is the file's. Raises ScenarioError."""
    return parse_scenario(read_toml(path, ScenarioError), path.stem, path)


def parse_scenario(data: Mapping[str, Any], name: str, path: Path | None = None) -> Scenario:
    """Make a scenario of a parsed TOML document; `path` is for the error. Raises ScenarioError."""
    return _Reader(path).scenario(data, name)


class _Reader(Values):
    """Reads one document."""

    def scenario(self, data: Mapping[str, Any], name: str) -> Scenario:
        self.known(data, _TOP, "")
        title = self.text(data.get("title"), "title")
        agents = {
            key: self.agent(self.table(agent, f"agents.{key}"), f"agents.{key}.")
            for key, agent in self.table(data.get("agents", {}), "agents").items()
        }
        sources = read_sources(data.get("sources", {}), self.refused)
        main = {key: data[key] for key in ("prompt", "stages") if key in data}
        found = Scenario(
            name=name,
            title=title,
            agent=self.agent(main, ""),
            agents=agents,
            dialect=self.one_of(data.get("dialect", "chat"), DIALECTS, "dialect"),
            stream=self.flag(data.get("stream", True), "stream"),
            on_error=self.one_of(data.get("on_error", "stop"), ON_ERROR, "on_error"),
            seed=self.whole(data, "seed", "", _MOST_SEED),
            notes=self.text(data["notes"], "notes") if "notes" in data else "",
            slo=self.slo(self.table(data["slo"], "slo")) if "slo" in data else None,
            sources=sources,
        )
        if found.dialect == "responses-websocket" and not found.stream:
            raise self.refused("stream", "answers over a WebSocket always come as a stream")
        self.check_agents(found)
        self.check_sources(found, sources)
        return found

    def slo(self, data: Mapping[str, Any]) -> Slo:
        self.known(data, frozenset(_SLO), "slo.")
        if not data:
            raise self.refused("slo", f"must have at least one of {', '.join(_SLO)}")
        found: dict[str, float] = {}
        for key, value in data.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self.refused(f"slo.{key}", f"must be a number, not {value!r}")
            if not 0 < value <= MOST_SECONDS:
                raise self.refused(f"slo.{key}", f"must be above 0 and at most {MOST_SECONDS:g}")
            found[key] = float(value)
        return Slo(**found)

    def agent(self, data: Mapping[str, Any], prefix: str) -> Agent:
        self.known(data, frozenset({"prompt", "stages"}), prefix)
        prompt = self.table(data.get("prompt", {}), f"{prefix}prompt")
        self.known(prompt, _PROMPT, f"{prefix}prompt.")
        sizes = [
            self.whole(prompt, key, f"{prefix}prompt.", most)
            for key, most in (
                ("system_tokens", MOST_TOKENS),
                ("tools_defined", MOST_DEFINED),
                ("tool_definition_tokens", MOST_TOKENS),
            )
        ]
        if bool(sizes[1]) != bool(sizes[2]):
            key = "tools_defined" if sizes[2] else "tool_definition_tokens"
            raise self.refused(f"{prefix}prompt.{key}", "definitions need a number and a size")
        stages = self.tables(data, "stages", prefix)
        if not stages:
            raise self.refused(f"{prefix}stages", "an agent needs at least one [[stages]]")
        found = tuple(self.stage(stage, f"{prefix}stages", i) for i, stage in enumerate(stages))
        self.once([stage.name for stage in found], f"{prefix}stages")
        return Agent(sizes[0], sizes[1], sizes[2], found)

    def stage(self, data: Mapping[str, Any], where: str, at: int) -> Stage:
        name = self.word(data.get("name"), f"{where}[{at}].name")
        prefix = f"{where}.{name}."
        self.known(data, _STAGE, prefix)
        if "output_tokens" not in data:
            raise self.refused(f"{prefix}output_tokens", "missing")
        given = self.tables(data, "tools", prefix)
        tools = tuple(self.tool(tool, f"{prefix}tools", i) for i, tool in enumerate(given))
        self.once([tool.name for tool in tools], f"{prefix}tools")
        most = sum(tool.count.ends[1] for tool in tools)
        if most > MOST_TOOLS:
            reason = f"at most {MOST_TOOLS} tools a turn, and these can come to {most:g}"
            raise self.refused(f"{prefix}tools", reason)
        return Stage(
            name=name,
            turns=self.number(data, "turns", prefix, 1, low=1, high=MOST_TURNS),
            new_tokens=self.number(data, "new_tokens", prefix, 0),
            reasoning_tokens=self.number(data, "reasoning_tokens", prefix, 0),
            output_tokens=self.number(data, "output_tokens", prefix, 1, low=1),
            think_s=self.seconds(data, "think_s", prefix),
            parallel=self.flag(data.get("parallel", True), f"{prefix}parallel"),
            tools=tools,
        )

    def tool(self, data: Mapping[str, Any], where: str, at: int) -> Tool:
        name = self.word(data.get("name"), f"{where}[{at}].name")
        prefix = f"{where}.{name}."
        self.known(data, _TOOL, prefix)
        command = data.get("command", [])
        if not isinstance(command, list) or not all(isinstance(c, str) for c in command):
            raise self.refused(f"{prefix}command", "must be a list of a program and its arguments")
        if "command" in data and not (command and command[0]):
            raise self.refused(f"{prefix}command", "must name a program")
        agent = self.word(data["agent"], f"{prefix}agent") if "agent" in data else ""
        if agent and command:
            raise self.refused(f"{prefix}command", "a tool is a command or sub-agents, not both")
        if "agents" in data and not agent:
            raise self.refused(f"{prefix}agents", "how many of which kind? It needs an agent")
        agents = self.number(data, "agents", prefix, 1, low=1, high=MOST_AGENTS) if agent else None
        return Tool(
            name=name,
            count=self.number(data, "count", prefix, 1, high=MOST_TOOLS),
            seconds=self.seconds(data, "seconds", prefix),
            result_tokens=self.number(data, "result_tokens", prefix, 1, low=1),
            command=tuple(command),
            agent=agent,
            agents=agents,
        )

    # -- what must fit together ---------------------------------------------------------------

    def check_agents(self, found: Scenario) -> None:
        """Every kind that is named is there, none stands idle, and none leads back to itself."""
        used: set[str] = set()

        def follow(prefix: str, agent: Agent, above: tuple[str, ...]) -> None:
            for stage in agent.stages:
                for tool in stage.tools:
                    if not tool.agent:
                        continue
                    key = f"{prefix}stages.{stage.name}.tools.{tool.name}.agent"
                    if tool.agent not in found.agents:
                        raise self.refused(key, f"there is no [agents.{tool.agent}]")
                    if tool.agent in above:
                        raise self.refused(key, f"{tool.agent} would start itself, without end")
                    used.add(tool.agent)
                    below = found.agents[tool.agent]
                    follow(f"agents.{tool.agent}.", below, (*above, tool.agent))

        follow("", found.agent, ())
        for name in found.agents:
            if name not in used:
                raise self.refused(f"agents.{name}", "no tool starts agents of this kind")

    def check_sources(self, found: Scenario, sources: Mapping[str, Source]) -> None:
        keys = list(found.numbers())
        for key in sources:
            if not any(number == key or number.startswith(f"{key}.") for number in keys):
                raise self.refused(f"sources.{key}", "there is no number of this name")
