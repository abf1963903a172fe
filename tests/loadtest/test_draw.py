from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_loadtest.draw import draw, draw_one
from paceline_loadtest.model import Loop
from paceline_loadtest.scenario import Scenario
from paceline_loadtest.scenario_files import load_scenario, parse_scenario, shipped_scenarios

STAGES = [
    {
        "name": "ask",
        "turns": 2,
        "new_tokens": {"low": 1, "high": 50},
        "reasoning_tokens": {"median": 100, "p90": 300},
        "output_tokens": {"low": 1, "high": 500},
        "think_s": {"median": 1, "p90": 3},
        "parallel": False,
        "tools": [
            {"name": "run", "count": 2, "seconds": {"low": 1, "high": 2}, "command": ["true", "x"]},
            {"name": "sub", "agent": "helper", "agents": 3, "seconds": 0.5, "result_tokens": 9},
        ],
    },
    {"name": "end", "turns": {"low": 1, "high": 4}, "output_tokens": 7},
]
HELPER = {
    "prompt": {"system_tokens": 11},
    "stages": [{"name": "look", "turns": {"low": 1, "high": 3}, "output_tokens": 5}],
}


def scenario(seed: int = 0) -> Scenario:
    prompt = {"system_tokens": 40, "tools_defined": 2, "tool_definition_tokens": 60}
    agents = {"helper": HELPER}
    return parse_scenario(
        {"title": "t", "seed": seed, "prompt": prompt, "stages": STAGES, "agents": agents}, "t"
    )


def test_a_loop_is_what_the_scenario_says() -> None:
    (loop,) = draw(scenario())
    assert (loop.id, loop.system_tokens, loop.tools_defined) == ("0", 40, 2)
    assert loop.tool_definition_tokens == 60
    assert [turn.stage for turn in loop.turns[:2]] == ["ask", "ask"]
    assert {turn.stage for turn in loop.turns[2:]} == {"end"}
    assert 3 <= len(loop.turns) <= 6
    turn = loop.turns[0]
    assert 1 <= turn.new_tokens <= 50
    assert not turn.parallel
    assert [tool.name for tool in turn.tools] == ["run", "run", "sub"]
    first, second, sub = turn.tools
    assert first.command == ("true", "x")
    assert 1 <= first.seconds <= 2
    assert first.seconds != second.seconds
    assert (sub.seconds, sub.result_tokens, len(sub.agents)) == (0.5, 9, 3)
    assert sub.agents[0].system_tokens == 11
    assert loop.turns[-1].tools == ()


def all_loops(loop: Loop) -> list[Loop]:
    found = [loop]
    for turn in loop.turns:
        for tool in turn.tools:
            for agent in tool.agents:
                found += all_loops(agent)
    return found


def test_every_loop_has_an_id_and_a_seed_of_its_own() -> None:
    loops = [one for loop in draw(scenario(), count=20) for one in all_loops(loop)]
    assert len(loops) > 100
    assert len({loop.id for loop in loops}) == len(loops)
    assert len({loop.seed for loop in loops}) == len(loops)
    assert all(0 <= loop.seed < 1 << 31 for loop in loops)


@given(st.integers(0, 1 << 40), st.integers(0, 30), st.integers(1, 5))
def test_a_loop_is_the_same_however_many_are_drawn(seed: int, number: int, more: int) -> None:
    one = draw_one(scenario(), number, seed)
    assert draw(scenario(), seed, number + more)[number] == one


def test_without_a_seed_the_scenarios_own_is_taken() -> None:
    assert draw(scenario(5), count=3) == draw(scenario(0), 5, 3)
    assert draw(scenario(5)) != draw(scenario(6))


def test_turns_of_a_stage_differ() -> None:
    turns = [turn for loop in draw(scenario(), count=10) for turn in loop.turns[:2]]
    assert len({turn.output_tokens for turn in turns}) > 10
    assert len({turn.think_s for turn in turns}) == len(turns)


def test_one_more_stage_leaves_the_others_as_they_were() -> None:
    # Whatever is compared before and after a change differs in that change alone.
    data = {"title": "t", "stages": [*STAGES, {"name": "more", "output_tokens": 3}]}
    longer = parse_scenario({**data, "agents": {"helper": HELPER}}, "t")
    shorter, *_ = draw(scenario())
    assert draw(longer)[0].turns[: len(shorter.turns)] == shorter.turns


@pytest.mark.parametrize("name", shipped_scenarios())
def test_the_shipped_ones_can_be_run(name: str) -> None:
    for loop in draw(load_scenario(name), count=20):
        assert loop.turns
        for one in all_loops(loop):
            for turn in one.turns:
                assert turn.output_tokens >= 1
                assert all(tool.result_tokens >= 1 and tool.seconds >= 0 for tool in turn.tools)


def test_the_code_edit_takes_about_twenty_steps() -> None:
    loops = draw(load_scenario("code-edit"), count=50)
    assert min(len(loop.turns) for loop in loops) >= 17
    assert max(len(loop.turns) for loop in loops) <= 23
