"""`paceline simulate --scenario`: an agent's loops on several profiles, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import typer
from rich.console import Console
from rich.text import Text

from paceline.cli import fail
from paceline.core.profile import Profile
from paceline.runtime.rate_files import RateFileError, load_rates, shipped_rates_folder
from paceline.simulation import report
from paceline_loadtest.forecast import forecast, notes, sentences, tables, to_json
from paceline_loadtest.scenario_files import ScenarioError, load_scenario


@dataclass(frozen=True, slots=True)
class LoopLoad:
    """How many loops, and how they are run. `seed` None is the scenario's own."""

    loops: int
    users: int
    think_s: float
    seed: int | None
    client_s: float


def simulate_scenario(
    name: str, profiles: Sequence[Profile], load: LoopLoad, *, as_json: bool, with_sources: bool
) -> None:
    """Predict a scenario, and print what it comes to."""
    try:
        scenario = load_scenario(name)
        book = load_rates([shipped_rates_folder()])
    except (ScenarioError, RateFileError) as error:
        fail(str(error))
    results = forecast(
        scenario,
        profiles,
        loops=load.loops,
        users=load.users,
        think_s=load.think_s,
        seed=load.seed,
        client_s=load.client_s,
        book=book,
        day=datetime.now(UTC).date().isoformat(),
    )
    if as_json:
        found = to_json(results, scenario, profiles)
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    console = Console(soft_wrap=False)
    for table in tables(results, console.width):
        console.print(table)
    for line in sentences(results):
        console.print(Text(line))
    for note in notes(scenario, profiles):
        console.print(note)
    console.print(report.notes(profiles, with_sources=with_sources))
