"""`paceline simulate --scenario` as it is typed."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from paceline.core.prefix_cache import PrefixCache
from paceline.core.pricing import bill
from paceline.core.usage import Usage
from paceline.runtime.profile_files import ProfileRegistry
from paceline.runtime.rate_files import load_rates, shipped_rates_folder
from paceline.simulate_command import app
from paceline_loadtest.draw import draw
from paceline_loadtest.money import price
from paceline_loadtest.predict import Terms, predict
from paceline_loadtest.scenario_files import load_scenario, parse_scenario
from paceline_loadtest.statistics import calls_of

SCENARIO = """
title = "Two turns and a tool of a second"
[[stages]]
name = "work"
turns = 2
new_tokens = 10
output_tokens = 41
[[stages.tools]]
name = "wait"
seconds = 1
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "two.toml"
    path.write_text(SCENARIO, "utf-8")
    return str(path)


def run(*args: str) -> str:
    result = CliRunner().invoke(app, args, terminal_width=200)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*args: str) -> Any:
    return json.loads(run(*args, "--json"))


def complaint(*args: str) -> str:
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 2
    return result.output


def test_a_table_says_where_the_time_goes_and_what_bounds_it(scenario: str) -> None:
    shown = run("--scenario", scenario, "--profile", "flat-40", "--profile", "flat-400")
    assert "two · predicted · chat · 1 user, 20 loops · seed 0" in shown
    for words in ("visible output", "tools", "speed-up of the task", "the most it could be"):
        assert words in shown
    # 2 x (1 s + 1 s) against 2 x (0.1 s + 1 s); without the model 2 s are left.
    assert "1.82×" in shown
    assert "2.00×" in shown
    assert "without a source" in shown
    for words in ("gap ITL", "client slot", "client late"):
        assert words not in shown


def test_json_has_the_figures_and_the_sources() -> None:
    found = run_json("--scenario", "voice", "--profile", "gpu-40", "--loops", "3", "--seed", "7")
    assert (found["object"], found["scenario"], found["seed"]) == ("paceline.scenario", "voice", 7)
    (profile,) = found["profiles"]
    assert (profile["target"], profile["loops"], profile["finished"]) == ("gpu-40", 3, 3)
    assert found["sources"]["prompt"]["class"] == "hypothesis"
    assert any(about["key"] == "engine.step_ms" for about in profile["assumptions"])
    parts = profile["parts_s"]
    assert sum(parts.values()) == pytest.approx(profile["task_s"]["mean"], abs=1e-6)


def test_parts_and_speed_up_are_those_of_the_loops(scenario: str) -> None:
    found = run_json("--scenario", scenario, "--profile", "flat-40", "--profile", "flat-400")
    slow, fast = found["profiles"]
    assert slow["parts_s"] == pytest.approx({"output": 2.0, "tools": 2.0})
    assert fast["parts_s"] == pytest.approx({"output": 0.2, "tools": 2.0})
    assert fast["speedup"]["task"] == pytest.approx(4.0 / 2.2)
    assert fast["speedup"]["tokens"] == pytest.approx(10.0)
    assert fast["speedup"]["most"] == pytest.approx(2.0)
    assert fast["speedup"]["held_by"] == pytest.approx(0.5)


def test_the_clients_cost_is_a_part_of_its_own(scenario: str) -> None:
    args = ("--scenario", scenario, "--profile", "flat-40", "--client-ms", "5")
    (profile,) = run_json(*args)["profiles"]
    assert profile["parts_s"]["client"] == pytest.approx(0.01)


def test_users_run_at_once_and_there_is_a_loop_for_each(scenario: str) -> None:
    found = run_json("--scenario", scenario, "--profile", "gpu-40", "--users", "30")
    (profile,) = found["profiles"]
    assert (found["users"], profile["loops"]) == (30, 30)


def test_the_same_seed_gives_the_same_run() -> None:
    args = ("--scenario", "research", "--profile", "wafer-750", "--loops", "2")
    assert run(*args, "--seed", "3", "--json") == run(*args, "--seed", "3", "--json")
    assert run(*args, "--seed", "3", "--json") != run(*args, "--seed", "4", "--json")


def test_waits_that_are_drawn_are_said_to_be() -> None:
    args = ("--scenario", "voice", "--loops", "2", "--profile")
    assert "Waits that vary are drawn" in run(*args, "gpt-5.6-sol-busy-day")
    assert "Waits that vary are drawn" not in run(*args, "gpu-40")


def test_sources_are_printed_where_they_are_asked_for() -> None:
    args = ("--scenario", "voice", "--loops", "2", "--profile", "gpu-40")
    assert "engine.step_ms" in run(*args, "--sources")
    assert "engine.step_ms" not in run(*args)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--scenario", "voice", "--rate", "2"), "--rate is not for a --scenario"),
        (("--scenario", "voice", "--capacity"), "--capacity is not for a --scenario"),
        (("--scenario", "voice", "--input", "5"), "--input is not for a --scenario"),
        (("--scenario", "voyce"), "Did you mean voice?"),
        (("--scenario", "nowhere.toml"), "nowhere.toml: No such file"),
        (("--rate", "1", "--loops", "2"), "are for a --scenario"),
        ((), "--scenario NAME"),
    ],
)
def test_what_does_not_fit_is_refused(args: tuple[str, ...], words: str) -> None:
    assert words in complaint("--profile", "gpu-40", *args)


# -- money -------------------------------------------------------------------------------------


def test_predicted_calls_cost_what_the_server_would_bill() -> None:
    book = load_rates([shipped_rates_folder()])
    profile = ProfileRegistry.load().get("gpt-5.6-sol")
    assert profile is not None
    sold = book.of_profile("gpt-5.6-sol")
    assert sold is not None
    runs = predict(draw(load_scenario("code-edit")), profile, Terms("responses"))
    price(runs, profile, sold, "2026-09-01")
    cache = PrefixCache(profile.prefix_cache)
    for call in calls_of(runs):
        assert call.prompt_tokens is not None
        assert call.cached_tokens is not None
        usage = Usage(
            call.prompt_tokens,
            call.output_tokens or 0,
            call.cached_tokens,
            cache.write_tokens(call.prompt_tokens, call.cached_tokens),
            call.reasoning_tokens or 0,
        )
        expected = bill(sold[0], usage, "default", "2026-09-01")
        assert expected.usd is not None
        assert Decimal(call.server.cost_usd or "-1") == expected.usd


def test_what_is_sold_in_credits_alone_has_no_dollars() -> None:
    book = load_rates([shipped_rates_folder()])
    name = "gpt-5.6-sol-codex-fast"
    profile, sold = ProfileRegistry.load().get(name), book.of_profile(name)
    assert profile is not None
    assert sold is not None
    runs = predict(draw(load_scenario("voice")), profile)
    price(runs, profile, sold, "2026-09-01")
    (call,) = calls_of(runs)
    assert call.server.cost_usd is None
    assert Decimal(call.server.credits or 0) > 0


def test_without_a_rate_card_nothing_is_known() -> None:
    profile = ProfileRegistry.load().get("gpu-40")
    assert profile is not None
    runs = predict(draw(load_scenario("voice")), profile)
    price(runs, profile, None, "2026-09-01")
    assert [call.server.cost_usd for call in calls_of(runs)] == [None]


def test_a_refused_call_costs_nothing() -> None:
    profile = ProfileRegistry.load().get("gpt-5.3-codex-spark")
    assert profile is not None
    stage = {"name": "s", "new_tokens": 140_000, "output_tokens": 1}
    runs = predict(draw(parse_scenario({"title": "t", "stages": [stage]}, "t")), profile)
    sold = load_rates([shipped_rates_folder()]).of_profile("gpt-5.6-sol")
    price(runs, profile, sold, "2026-09-01")
    (call,) = calls_of(runs)
    assert not call.ok
    assert call.server.cost_usd is None


def test_a_second_saved_has_its_price_in_what_both_are_sold_in() -> None:
    names = ["gpt-5.6-sol", "gpt-5.6-sol-codex-fast", "gpt-5.6-sol-api-fast"]
    args = [part for name in names for part in ("--profile", name)]
    found = run_json("--scenario", "code-edit", "--loops", "3", *args)
    base, credits_, dollars = (profile["money"] for profile in found["profiles"])
    seconds = [profile["task_s"]["mean"] for profile in found["profiles"]]
    assert credits_["task_usd"] is None
    more = float(credits_["task_credits"]) - float(base["task_credits"])
    assert float(credits_["saved_credits_s"]) == pytest.approx(more / (seconds[0] - seconds[1]))
    more = float(dollars["task_usd"]) - float(base["task_usd"])
    assert float(dollars["saved_usd_s"]) == pytest.approx(more / (seconds[0] - seconds[2]))
    assert more > 0
    assert "credits" in run("--scenario", "code-edit", "--loops", "3", *args)
