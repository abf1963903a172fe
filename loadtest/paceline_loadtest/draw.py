"""Loops drawn from a scenario: the same seed gives the same loops.

Every number hangs on the seed, the loop's own number and the place in the scenario, and on
nothing else: loop 7 is the same whether three loops are drawn or a thousand, in any order.
"""

from __future__ import annotations

from paceline.core.rng import hash64
from paceline_loadtest.distributions import draw_whole
from paceline_loadtest.model import Loop, ToolRun, Turn
from paceline_loadtest.scenario import Agent, Scenario, Stage, Tool

_LOOP_SEEDS = 1 << 31
"""Seeds of loops fit the `seed` of every API."""


def draw(scenario: Scenario, seed: int | None = None, count: int = 1) -> list[Loop]:
    """The first `count` loops of a scenario; without `seed` the scenario's own."""
    return [draw_one(scenario, number, seed) for number in range(count)]


def draw_one(scenario: Scenario, number: int, seed: int | None = None) -> Loop:
    """Loop `number` of a scenario, 0 and up."""
    key = hash64("loop", scenario.seed if seed is None else seed, number)
    return _loop(scenario, scenario.agent, str(number), key)


def _loop(scenario: Scenario, agent: Agent, name: str, key: int) -> Loop:
    turns: list[Turn] = []
    for stage in agent.stages:
        for at in range(draw_whole(stage.turns, hash64(key, stage.name, "turns"))):
            turns.append(
                _turn(scenario, stage, f"{name}/{len(turns)}", hash64(key, stage.name, at))
            )
    return Loop(
        id=name,
        system_tokens=agent.system_tokens,
        tools_defined=agent.tools_defined,
        tool_definition_tokens=agent.tool_definition_tokens,
        turns=tuple(turns),
        seed=key % _LOOP_SEEDS,
    )


def _turn(scenario: Scenario, stage: Stage, name: str, key: int) -> Turn:
    tools: list[ToolRun] = []
    for tool in stage.tools:
        for at in range(draw_whole(tool.count, hash64(key, tool.name, "count"))):
            place = f"{name}.{len(tools)}"
            tools.append(_tool(scenario, tool, place, hash64(key, tool.name, at)))
    return Turn(
        new_tokens=draw_whole(stage.new_tokens, hash64(key, "new_tokens")),
        reasoning_tokens=draw_whole(stage.reasoning_tokens, hash64(key, "reasoning_tokens")),
        output_tokens=draw_whole(stage.output_tokens, hash64(key, "output_tokens")),
        tools=tuple(tools),
        parallel=stage.parallel,
        think_s=stage.think_s.draw(hash64(key, "think_s")),
        stage=stage.name,
    )


def _tool(scenario: Scenario, tool: Tool, name: str, key: int) -> ToolRun:
    agents: tuple[Loop, ...] = ()
    if tool.agents is not None:
        kind = scenario.agents[tool.agent]
        count = draw_whole(tool.agents, hash64(key, "agents"))
        agents = tuple(
            _loop(scenario, kind, f"{name}.{tool.agent}-{i}", hash64(key, "agent", i))
            for i in range(count)
        )
    return ToolRun(
        name=tool.name,
        seconds=tool.seconds.draw(hash64(key, "seconds")),
        result_tokens=draw_whole(tool.result_tokens, hash64(key, "result_tokens")),
        command=tool.command,
        agents=agents,
    )
