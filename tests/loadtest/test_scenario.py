from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.profile_files import ProfileRegistry
from paceline_loadtest import scenario_files
from paceline_loadtest.distributions import Fixed, LogNormal, Uniform
from paceline_loadtest.forecast import forecast
from paceline_loadtest.report.figures import figures
from paceline_loadtest.report.words import seconds, times
from paceline_loadtest.scenario import Scenario
from paceline_loadtest.scenario_files import (
    ScenarioError,
    load_scenario,
    parse_scenario,
    read_scenario,
    shipped_scenarios,
)
from paceline_loadtest.statistics import Slo
from paceline_loadtest.thresholds import NAMES

SMALL = """
title = "Small"
dialect = "messages"
stream = false
on_error = "continue"
seed = 12

[prompt]
system_tokens = 100
tools_defined = 2
tool_definition_tokens = 40

[[stages]]
name = "work"
turns = { low = 1, high = 3 }
new_tokens = 5
reasoning_tokens = { median = 50, p90 = 90 }
output_tokens = 20
think_s = 0.5
parallel = false

[[stages.tools]]
name = "run"
count = 2
seconds = 1.5
result_tokens = 30
command = ["true"]

[[stages.tools]]
name = "ask"
agent = "helper"
agents = 3

[agents.helper.prompt]
system_tokens = 10

[[agents.helper.stages]]
name = "only"
output_tokens = 7

[sources]
"stages.work" = { class = "hypothesis", from = "made up" }
"stages.work.tools.run.seconds" = { class = "measured", from = "a stopwatch" }
"""


def small(change: Callable[[dict[str, Any]], object] = lambda data: None) -> Scenario:
    data = tomllib.loads(SMALL)
    change(data)
    return parse_scenario(data, "small", Path("small.toml"))


def test_a_document_is_read_in_full() -> None:
    found = small()
    assert (found.name, found.title, found.dialect) == ("small", "Small", "messages")
    assert (found.stream, found.on_error, found.seed) == (False, "continue", 12)
    assert (found.agent.system_tokens, found.agent.tools_defined) == (100, 2)
    (stage,) = found.agent.stages
    assert stage.turns == Uniform(1.0, 3.0, whole=True)
    assert stage.new_tokens == Fixed(5.0)
    assert isinstance(stage.reasoning_tokens, LogNormal)
    assert (stage.think_s, stage.parallel) == (Fixed(0.5), False)
    run, ask = stage.tools
    assert (run.count, run.seconds, run.command) == (Fixed(2.0), Fixed(1.5), ("true",))
    assert (ask.agent, ask.agents, ask.seconds) == ("helper", Fixed(3.0), Fixed(0.0))
    assert found.agents["helper"].stages[0].output_tokens == Fixed(7.0)


def test_an_slo_has_the_limits_that_are_set() -> None:
    found = small(_set("slo", to={"ttft_s": 2, "tpot_s": 0.05}))
    assert found.slo == Slo(ttft_s=2.0, tpot_s=0.05)
    assert [key for key in found.numbers() if key.startswith("slo")] == ["slo.ttft_s", "slo.tpot_s"]
    assert small().slo is None


def test_what_is_left_out_has_its_default() -> None:
    data = {"title": "T", "stages": [{"name": "s", "output_tokens": 4}]}
    found = parse_scenario(data, "t")
    assert (found.dialect, found.stream, found.on_error, found.seed) == ("chat", True, "stop", 0)
    (stage,) = found.agent.stages
    assert (stage.turns, stage.parallel, stage.tools) == (Fixed(1.0), True, ())
    assert stage.new_tokens == stage.reasoning_tokens == stage.think_s == Fixed(0.0)


def test_a_source_stands_for_its_part_and_a_closer_one_for_its_number() -> None:
    found = small()

    def kind(key: str) -> str | None:
        source = found.source(key)
        return None if source is None else source.kind

    assert kind("stages.work.output_tokens") == "hypothesis"
    assert kind("stages.work.tools.run.count") == "hypothesis"
    assert kind("stages.work.tools.run.seconds") == "measured"
    assert kind("prompt.system_tokens") is None


def test_every_number_has_its_key() -> None:
    assert set(small().numbers()) >= {
        "prompt.system_tokens",
        "stages.work.turns",
        "stages.work.tools.run.result_tokens",
        "stages.work.tools.ask.agents",
        "agents.helper.prompt.system_tokens",
        "agents.helper.stages.only.output_tokens",
    }


def _set(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        part: Any = data
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to

    return change


def _drop(*path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        part: Any = data
        for key in path[:-1]:
            part = part[key]
        del part[path[-1]]

    return change


TOOL = ("stages", 0, "tools", 0)


@pytest.mark.parametrize(
    ("change", "key", "reason"),
    [
        (_drop("title"), "title", "missing"),
        (_set("title", to="  "), "title", "must be a text"),
        (_set("titel", to="x"), "titel", "did you mean title"),
        (_set("notes", to=3), "notes", "must be a text"),
        (_set("dialect", to="soap"), "dialect", "must be one of chat, responses"),
        (_set("dialect", to=["chat"]), "dialect", "must be one of chat"),
        (_set("stream", to="yes"), "stream", "true or false"),
        (_set("dialect", to="responses-websocket"), "stream", "always come as a stream"),
        (_set("on_error", to="retry"), "on_error", "must be one of stop, continue"),
        (_set("seed", to=-1), "seed", "from 0"),
        (_set("seed", to={"low": 1, "high": 2}), "seed", "whole number"),
        (_set("prompt", to=3), "prompt", "must be a table"),
        (_set("prompt", "system", to=3), "prompt.system", "unknown key"),
        (_set("prompt", "system_tokens", to=-1), "prompt.system_tokens", "from 0"),
        (_set("prompt", "system_tokens", to=1.5), "prompt.system_tokens", "whole number"),
        (_set("prompt", "system_tokens", to=True), "prompt.system_tokens", "whole number"),
        (_set("prompt", "tools_defined", to=129), "prompt.tools_defined", "from 0 to 128"),
        (_drop("prompt", "tools_defined"), "prompt.tools_defined", "a number and a size"),
        (
            _drop("prompt", "tool_definition_tokens"),
            "prompt.tool_definition_tokens",
            "a number and a size",
        ),
        (_drop("stages"), "stages", "at least one"),
        (_set("stages", to={}), "stages", "must be tables"),
        (_drop("stages", 0, "name"), "stages[0].name", "missing"),
        (_set("stages", 0, "name", to="a b"), "stages[0].name", "letters, digits"),
        (_drop("stages", 0, "output_tokens"), "stages.work.output_tokens", "missing"),
        (_set("stages", 0, "output_tokens", to=0), "stages.work.output_tokens", "from 1"),
        (_set("stages", 0, "turns", to=0), "stages.work.turns", "from 1"),
        (_set("stages", 0, "turns", to=2.5), "stages.work.turns", "whole number"),
        (_set("stages", 0, "think_s", to=-0.1), "stages.work.think_s", "from 0"),
        (_set("stages", 0, "think_s", to=1e6), "stages.work.think_s", "from 0 to 86400"),
        (_set("stages", 0, "thinks", to=1), "stages.work.thinks", "did you mean think_s"),
        (_set("stages", 0, "parallel", to=1), "stages.work.parallel", "true or false"),
        (_set("stages", 0, "tools", to=["run"]), "stages.work.tools", "must be tables"),
        (_set(*TOOL, "name", to=""), "stages.work.tools[0].name", "must be a text"),
        (_set(*TOOL, "time", to=1), "stages.work.tools.run.time", "unknown key"),
        (_set(*TOOL, "command", to="true"), "stages.work.tools.run.command", "list of a program"),
        (_set(*TOOL, "command", to=[]), "stages.work.tools.run.command", "name a program"),
        (_set(*TOOL, "agent", to="helper"), "stages.work.tools.run.command", "not both"),
        (_set(*TOOL, "agents", to=2), "stages.work.tools.run.agents", "of which kind"),
        (_set(*TOOL, "result_tokens", to=0), "stages.work.tools.run.result_tokens", "from 1"),
        (_set(*TOOL, "count", to=64), "stages.work.tools", "at most 64 tools"),
        (_set(*TOOL, "name", to="ask"), "stages.work.tools.ask", "two of this name"),
        (
            _set("stages", 0, "tools", 1, "agent", to="nobody"),
            "stages.work.tools.ask.agent",
            "there is no [agents.nobody]",
        ),
        (_drop("stages", 0, "tools", 1), "agents.helper", "no tool starts"),
        (_set("agents", to=1), "agents", "must be a table"),
        (_set("agents", "helper", "seed", to=1), "agents.helper.seed", "unknown key"),
        (_set("agents", "helper", "stages", to=[]), "agents.helper.stages", "at least one"),
        (
            _set("agents", "helper", "stages", 0, "output_tokens", to="x"),
            "agents.helper.stages.only.output_tokens",
            "must be a number",
        ),
        (
            _set("agents", "helper", "stages", 0, "tools", to=[{"name": "me", "agent": "helper"}]),
            "agents.helper.stages.only.tools.me.agent",
            "would start itself",
        ),
        (_set("slo", to={}), "slo", "at least one of ttft_s"),
        (_set("slo", to={"ttft": 1}), "slo.ttft", "did you mean ttft_s"),
        (_set("slo", to={"ttft_s": 0}), "slo.ttft_s", "above 0"),
        (_set("slo", to={"ttft_s": True}), "slo.ttft_s", "must be a number"),
        (_set("slo", to={"ttft_s": float("nan")}), "slo.ttft_s", "above 0"),
        (_set("sources", to=1), "sources", "must be a table"),
        (
            _set("sources", "stages.work", to={"class": "fact", "from": "x"}),
            "sources.stages.work",
            "class must be one of",
        ),
        (
            _set("sources", "stages.play", to={"class": "estimate", "from": "x"}),
            "sources.stages.play",
            "no number of this name",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_file_key_and_reason(
    change: Callable[[dict[str, Any]], None], key: str, reason: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        small(change)
    assert caught.value.key == key
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"small.toml: {key}: ")


def test_two_stages_of_one_name_are_refused() -> None:
    def change(data: dict[str, Any]) -> None:
        data["stages"].append({"name": "work", "output_tokens": 1})

    with pytest.raises(ScenarioError, match="two of this name"):
        small(change)


def test_a_file_has_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SMALL, encoding="utf-8")
    assert read_scenario(path).name == "mine"
    assert load_scenario(str(path)).title == "Small"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"title = ", "is not TOML"), (b"\xff\xfe", "is not UTF-8"), (None, "No such file")],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "bad.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ScenarioError, match=reason) as caught:
        load_scenario(str(path))
    assert str(path) in str(caught.value)


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(ScenarioError, match=r"Did you mean code-edit\?.*voice"):
        load_scenario("code-edti")


def test_those_that_ship_are_there() -> None:
    assert set(shipped_scenarios()) == {
        "browse",
        "chat",
        "code-edit",
        "mooncake",
        "research",
        "voice",
    }


@pytest.mark.parametrize("name", shipped_scenarios())
def test_every_number_of_a_shipped_one_says_what_it_is_drawn_from(name: str) -> None:
    scenario = load_scenario(name)
    assert [key for key in scenario.numbers() if scenario.source(key) is None] == []
    assert scenario.notes


@pytest.mark.parametrize("name", shipped_scenarios())
def test_a_shipped_one_is_no_fact(name: str) -> None:
    scenario = load_scenario(name)
    classes = {source.kind for source in scenario.sources.values()}
    assert "official" not in classes
    assert ("measured" in classes) == (name == "mooncake")


# -- the page ----------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scenarios.md"


def test_the_page_has_every_key_and_no_other() -> None:
    stage, tool = frozenset(scenario_files._STAGE), frozenset(scenario_files._TOOL)
    keys = {f"prompt.{key}" for key in scenario_files._PROMPT}
    keys |= {f"stages.{key}" for key in stage - {"tools"}}
    keys |= {f"stages.tools.{key}" for key in tool}
    keys |= {f"slo.{key}" for key in scenario_files._SLO}
    keys |= scenario_files._TOP - {"prompt", "stages", "agents", "slo"}
    keys |= {"agents.KIND.prompt", "agents.KIND.stages"}
    table = PAGE.read_text("utf-8").partition("| Key |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)) == keys


def test_the_page_names_every_scenario_that_ships() -> None:
    table = PAGE.read_text("utf-8").partition("| Name | A loop |")[2].partition("\n\n")[0]
    found = dict(re.findall(r"^\| `([^`]+)` \|.*\| ([a-z-]+) \|$", table, re.MULTILINE))
    assert found == {name: load_scenario(name).dialect for name in shipped_scenarios()}


def test_the_pages_example_is_a_scenario() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    found = parse_scenario(tomllib.loads(example), "example")
    assert all(found.source(key) is not None for key in found.numbers())


def test_the_page_has_every_name_of_a_threshold() -> None:
    table = PAGE.read_text("utf-8").partition("| Name | Of |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z0-9_]+)`", table)) == set(NAMES.split(", "))


def test_the_page_has_the_figures_of_now() -> None:
    table = PAGE.read_text("utf-8").partition("<!-- figures -->")[2].partition("<!--")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", table, re.MULTILINE)
    assert {name for name, _ in rows} == set(shipped_scenarios())
    registry = ProfileRegistry.load()
    profiles = [registry.get(name) for name in ("gpu-40", "wafer-750")]
    known = [profile for profile in profiles if profile is not None]
    for name, cells in rows:
        slow, fast = figures(forecast(load_scenario(name), known, loops=20))
        assert slow.task is not None
        assert fast.task is not None
        assert fast.speedup is not None
        most = fast.speedup.most
        shown = [seconds(slow.task.mean), seconds(fast.task.mean), times(fast.speedup.task)]
        assert cells == " | ".join([*shown, "none" if most is None else times(most)])
