"""A load test's results as they might be: predicted runs, with what a client would have seen.

Loops are drawn from a scenario and run in virtual time; the clock's noise, chunks and bills are
put on top, by a seed.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from random import Random

from paceline.runtime.profile_files import ProfileRegistry
from paceline_loadtest.draw import draw
from paceline_loadtest.model import Call, Loop, LoopRun, Target, ToolSpan, TurnRun
from paceline_loadtest.predict import predict
from paceline_loadtest.report import Lateness, Results, RunInfo, TargetRun, Threshold, relative
from paceline_loadtest.scenario_files import load_scenario

TARGETS = (
    ("gpu-40", "gpu-40", "1.25", "10"),
    ("gpt-5.6-sol fast", "gpt-5.6-sol-codex-fast", "3.125", "25"),
    ("wafer-750", "wafer-750", "6", "60"),
    ("spark-1000", "spark-1000", "", ""),
)
"""Label, profile, and US$ a million tokens in and out: numbers for a test, nobody's prices."""


def results(
    scenario: str = "code-edit", loops: int = 6, users: tuple[int, ...] = (1,), seed: int = 1
) -> Results:
    """Results of all targets; `seed` is of the noise, the loops are always the same."""
    drawn = draw(load_scenario(scenario), 7, loops)
    runs = [
        target_run(drawn, *target, users=count, seed=seed) for count in users for target in TARGETS
    ]
    return Results(
        RunInfo(
            scenario=scenario,
            seed=7,
            client="openai 3.57.0",
            dialect="responses",
            tool_version="0.1.0",
            started="2026-11-30T21:00:00+00:00",
            settings={"users": str(users[0]), "loops": str(loops)},
        ),
        runs,
        [Threshold("ttft_p99>20", "passed", 2.25), Threshold("errors>0", "failed", 1.0, "gpu-40")],
    )


def target_run(
    drawn: list[Loop], label: str, profile: str, into: str, out: str, *, users: int, seed: int
) -> TargetRun:
    """One target's run of the loops."""
    known = ProfileRegistry.load().get(profile)
    assert known is not None
    predicted = predict(drawn, known, users=users)
    rng = Random(f"{label} {users} {seed}")
    measured = [_seen(run, rng, into, out) for run in predicted]
    return TargetRun(
        target=Target(label, "http://127.0.0.1:8000/v1", profile, None, "a key"),
        loops=relative(measured, 0.0),
        predicted=relative(predicted, 0.0),
        users=users,
        facts={"profile": profile, "speed of one stream": "40 tok/s"},
        lateness=Lateness(240, 0.0002, 0.0011, 0.004, 0.005),
        client_cost_s=0.0012,
        price_source="a rate card for tests",
    )


def _seen(run: LoopRun, rng: Random, into: str, out: str) -> LoopRun:
    """The run as it would be measured: later by what each call's way there and back takes."""
    late = 0.0
    turns: list[TurnRun] = []
    for turn in run.turns:
        began = turn.started_at + late
        call = _call(turn.call, late, rng, into, out)
        late += 0.002 + rng.random() * 0.002
        tools = []
        for tool in turn.tools:
            agents = [_seen(agent, rng, into, out) for agent in tool.loops]
            agents = relative(agents, -late)
            ends = [agent.ended_at or 0.0 for agent in agents]
            ended = max([tool.ended_at + late, *ends])
            tools.append(ToolSpan(tool.name, tool.started_at + late, ended, agents))
        assert turn.ended_at is not None
        ended = max([turn.ended_at + late, *(tool.ended_at for tool in tools)])
        turns.append(TurnRun(began, call, tools, ended))
        late = ended - turn.ended_at
    assert run.ended_at is not None
    return LoopRun(run.loop, run.started_at, turns, run.ended_at + late)


def _call(call: Call, late: float, rng: Random, into: str, out: str) -> Call:
    assert call.first_at is not None
    assert call.last_at is not None
    assert call.sent_at is not None
    back = 0.001 + rng.random() * 0.001
    first, last = call.first_at + late + back, call.last_at + late + back
    count = min(call.output_tokens or 1, 400)
    step = (last - first) / max(count - 1, 1)
    chunks = array("d", (first + step * i + rng.random() * 0.0002 for i in range(count)))
    visible = None if call.first_visible_at is None else call.first_visible_at + late + back
    cost = None
    if into:
        picos = (call.prompt_tokens or 0) * float(into) + (call.output_tokens or 0) * float(out)
        cost = f"{picos / 1e6:.9f}"
    return replace(
        call,
        scheduled_at=call.scheduled_at + late,
        slot_at=call.scheduled_at + late,
        sent_at=call.sent_at + late + 0.0003,
        headers_at=first,
        first_at=first,
        first_visible_at=visible,
        last_at=last,
        end_at=last + 0.0004,
        chunk_at=chunks,
        server=replace(call.server, cost_usd=cost),
    )
