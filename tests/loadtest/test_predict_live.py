"""What is predicted, held against a server: tokens exactly, times as far as a busy machine allows.

The benchmarks on an idle machine are where times are held to a few per cent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.runtime.profile_files import load_profile_file
from paceline_loadtest.load import Load, Stop
from paceline_loadtest.measure import Plan, measure
from paceline_loadtest.model import DIALECTS, Call, Dialect, LoopRun, Target
from paceline_loadtest.report import TargetRun
from paceline_loadtest.scenario import Scenario
from paceline_loadtest.scenario_files import parse_scenario
from paceline_loadtest.statistics import calls_of
from tests.live import Server

PROFILE = """
name = "brisk"
title = "250 tokens a second alone, prefill apart, 30 ms on top; less over a WebSocket"
[engine]
step_ms = 3.8
step_ms_per_seq = 0.2
step_ms_per_prefill_token = 0.02
max_num_seqs = 8
[overhead]
round_trip_ms = 20.0
api_ms_p50 = 10.0
api_ms_p90 = 10.0
[websocket]
round_trip = 0.2
[sources]
engine = { class = "hypothesis", from = "made up" }
overhead = { class = "hypothesis", from = "made up" }
websocket = { class = "hypothesis", from = "made up" }
"""

SCENARIO = {
    "title": "A bit of everything",
    "prompt": {"system_tokens": 1500, "tools_defined": 3, "tool_definition_tokens": 90},
    "stages": [
        {
            "name": "work",
            "turns": 4,
            "new_tokens": {"low": 0, "high": 90},
            "reasoning_tokens": {"low": 0, "high": 30},
            "output_tokens": {"low": 10, "high": 40},
            "tools": [
                {
                    "name": "look",
                    "count": {"low": 0, "high": 3},
                    "seconds": 0.05,
                    "result_tokens": {"low": 100, "high": 900},
                }
            ],
        },
        {
            "name": "ask",
            "output_tokens": 20,
            "think_s": 0.1,
            "tools": [{"name": "sub", "agent": "reader", "agents": 3, "result_tokens": 200}],
        },
        {"name": "end", "output_tokens": 30},
    ],
    "agents": {
        "reader": {
            "prompt": {"system_tokens": 1100},
            "stages": [{"name": "read", "turns": 2, "new_tokens": 200, "output_tokens": 25}],
        }
    },
}


@pytest.fixture(scope="module")
def profile_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profiles") / "brisk.toml"
    path.write_text(PROFILE, "utf-8")
    return path


@pytest.fixture(scope="module")
def server(profile_file: Path) -> Iterator[Server]:
    with Server(profiles=[profile_file]) as running:
        yield running


def scenario(dialect: Dialect) -> Scenario:
    return parse_scenario({**SCENARIO, "dialect": dialect}, "bit")


def measured(server: Server, profile_file: Path, dialect: Dialect) -> TargetRun:
    profile = load_profile_file(profile_file)
    target = Target("brisk", f"{server.url}/v1", "brisk")
    plan = Plan(
        scenario(dialect),
        [target],
        Load(users=2, loops=2),
        seed=5,
        client="lean",
        profile_of={"brisk": profile}.get,
    )
    results = asyncio.run(measure(plan, Stop()))
    (run,) = results.targets
    return run


def turns_with_tools(run: LoopRun, upto: int) -> int:
    return sum(bool(turn.tools) for turn in run.loop.turns[:upto])


def prompts(run: LoopRun) -> list[int | None]:
    return [turn.call.prompt_tokens for turn in run.turns]


def cached(call: Call) -> int:
    assert call.cached_tokens is not None
    return call.cached_tokens


@pytest.mark.realtime
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_run_is_what_was_predicted(server: Server, profile_file: Path, dialect: Dialect) -> None:
    run = measured(server, profile_file, dialect)
    assert [call.error for call in calls_of(run.loops)] == [None] * len(list(calls_of(run.loops)))
    assert len(run.loops) == len(run.predicted) == 2
    for live, told in zip(run.loops, run.predicted, strict=True):
        assert live.loop == told.loop
        for at, (seen, expected) in enumerate(zip(prompts(live), prompts(told), strict=True)):
            assert seen is not None
            assert expected is not None
            # A full stop shares a token with the line end before a call that follows it.
            spare = 0 if dialect.startswith("responses") else turns_with_tools(live, at)
            assert 0 <= expected - seen <= spare
        assert live.seconds is not None
        assert told.seconds is not None
        assert told.seconds * 0.97 < live.seconds < told.seconds * 2 + 2
    pairs = zip(calls_of(run.loops), calls_of(run.predicted), strict=True)
    for seen_call, told_call in pairs:
        assert seen_call.output_tokens == told_call.output_tokens
        assert seen_call.reasoning_tokens == told_call.reasoning_tokens
        assert seen_call.server.overhead_s == pytest.approx(told_call.server.overhead_s, abs=1e-5)
        expected_s = 0.014 if dialect == "responses-websocket" else 0.030
        assert told_call.server.overhead_s == pytest.approx(expected_s)
    # A first turn may find the other loop's system prompt or miss it by microseconds, and a prompt
    # that is a token shorter may end a block earlier.
    later = [turn for loop in run.loops for turn in loop.turns[1:]]
    expected_hits = [turn for loop in run.predicted for turn in loop.turns[1:]]
    for seen_turn, told_turn in zip(later, expected_hits, strict=True):
        assert abs(cached(seen_turn.call) - cached(told_turn.call)) <= 128
        assert cached(told_turn.call) > 1024
