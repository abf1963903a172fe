"""A whole load test, apart from its command: what stops it, and what it says then."""

from __future__ import annotations

import asyncio

import pytest

from paceline.runtime.profile_files import virtual_profile
from paceline_loadtest.load import Load, Stop
from paceline_loadtest.measure import Plan, measure
from paceline_loadtest.model import Target
from paceline_loadtest.progress import Silent
from paceline_loadtest.scenario import Scenario
from paceline_loadtest.scenario_files import parse_scenario
from tests.live import Server

STAGE = {"name": "ask", "new_tokens": 5, "reasoning_tokens": 0, "output_tokens": 40, "turns": 3}
PROMPT = {"system_tokens": 0, "tools_defined": 0, "tool_definition_tokens": 0}
DOCUMENT = {"title": "Three", "prompt": PROMPT, "stages": [STAGE]}
SCENARIO: Scenario = parse_scenario(DOCUMENT, "three")


def plan(server: Server, *models: str) -> Plan:
    targets = [Target(model, f"{server.url}/v1", model) for model in models]
    return Plan(SCENARIO, targets, Load(users=2, loops=4), seed=1, client="lean", late_limit_s=60.0)


async def test_a_stop_ends_the_target_that_runs_and_those_behind_it(server: Server) -> None:
    stop = Stop()

    class Watching(Silent):
        def target(self, label: str, loops: int | None) -> None:
            assert loops == 4
            if label == "flat-30":
                asyncio.get_running_loop().call_later(0.5, stop.set, "enough")

    results = await measure(plan(server, "instant", "flat-30", "flat-31"), stop, Watching())
    done, cut = results.targets
    assert (done.notes, {run.stopped for run in done.loops}) == ((), {None})
    assert cut.notes == ("It ended before its time: enough.",)
    assert {run.stopped for run in cut.loops} == {"enough"}
    assert cut.seconds is not None
    # Four loops of two users would take eight.
    assert cut.seconds < 6.0


async def test_a_stop_before_the_first_loop_leaves_no_target(server: Server) -> None:
    stop = Stop()
    stop.set("enough")
    assert (await measure(plan(server, "instant"), stop)).targets == []
    stop = Stop()
    # In the calibration, which takes some milliseconds a call.
    asyncio.get_running_loop().call_soon(stop.set, "enough")
    assert (await measure(plan(server, "instant"), stop)).targets == []


async def test_a_server_that_isn_t_there_fails_every_loop() -> None:
    nowhere = Target("t", "http://127.0.0.1:9/v1", "m")
    made = Plan(SCENARIO, [nowhere], Load(users=2, loops=2), seed=1, client="lean")
    (target,) = (await measure(made, Stop())).targets
    assert target.client_cost_s is None
    assert target.predicted == []
    assert len(target.loops) == 2
    assert all("can't be reached" in (run.stopped or "") for run in target.loops)


@pytest.mark.parametrize(
    ("model", "at_most"), [("flat-500", "500 tok/s a stream"), ("instant", None)]
)
async def test_what_served_is_told(server: Server, model: str, at_most: str | None) -> None:
    made = plan(server, model)
    known = Plan(
        made.scenario,
        made.targets,
        made.load,
        seed=1,
        client="lean",
        profile_of=virtual_profile,
    )
    (target,) = (await measure(known, Stop())).targets
    assert target.facts["profile"] == model
    assert target.facts.get("at most") == at_most
    assert len(target.predicted) == 4
    assert target.price_source == ""
