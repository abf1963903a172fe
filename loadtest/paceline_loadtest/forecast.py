"""A scenario predicted on several profiles, with the figures that a measured run has.

What is predicted goes through the same sums as what is measured, so the two can be laid side by
side; only its columns about a client, which virtual time doesn't have, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from paceline import __version__
from paceline.core.profile import Profile
from paceline.core.rates import Day
from paceline.core.sources import SOURCE_CLASSES
from paceline.runtime.rate_files import RateBook
from paceline.simulation.report import assumptions
from paceline_loadtest.draw import draw
from paceline_loadtest.model import Target
from paceline_loadtest.money import price
from paceline_loadtest.predict import Terms, predict, varies
from paceline_loadtest.report.breakdown import NAMES
from paceline_loadtest.report.figures import Figures, figures
from paceline_loadtest.report.results import Results, RunInfo, TargetRun
from paceline_loadtest.report.summary import summary_of
from paceline_loadtest.report.tables import rows
from paceline_loadtest.report.words import sentence
from paceline_loadtest.scenario import Scenario

CLIENT = "virtual time"

_LABELS_WIDTH, _COLUMN_WIDTH = 33, 25
"""Of a terminal, in letters: less for a profile, and its numbers would break over lines."""

_OF_A_CLIENT = ("retries", "gap ITL", "waited for a client slot", "client")
"""How the rows begin that a prediction has nothing to say in."""


def forecast(
    scenario: Scenario,
    profiles: Iterable[Profile],
    *,
    loops: int,
    users: int = 1,
    think_s: float = 0.0,
    seed: int | None = None,
    client_s: float = 0.0,
    book: RateBook | None = None,
    day: Day = "",
) -> Results:
    """Predict the same loops on each profile; the first is what the others are compared with.

    `users` take turns at the loops. With a `book` calls are priced as on `day`.
    """
    drawn = draw(scenario, seed, loops)
    terms = Terms(scenario.dialect, scenario.stream, scenario.on_error, client_s)
    targets = []
    for profile in profiles:
        runs = predict(drawn, profile, terms, users=users, think_s=think_s)
        if book is not None:
            price(runs, profile, book.of_profile(profile.name), day)
        target = Target(profile.name, "", profile.name)
        targets.append(TargetRun(target, runs, users=users, client_cost_s=client_s or None))
    info = RunInfo(
        scenario=scenario.name,
        seed=scenario.seed if seed is None else seed,
        client=CLIENT,
        dialect=scenario.dialect,
        tool_version=__version__,
        started="",
        stream=scenario.stream,
    )
    return Results(info, targets)


def tables(results: Results, width: int) -> Iterator[Table]:
    """The figures, a column a profile: as many beside each other as a terminal is wide."""
    info = results.info
    found = figures(results)
    load = f"{results.targets[0].load}, {len(results.targets[0].loops):,} loops"
    title = f"{info.scenario} · predicted · {info.dialect} · {load} · seed {info.seed}"
    lines = [(label, cells) for label, cells in rows(found) if not _is_of_a_client(label)]
    beside = max(1, (width - _LABELS_WIDTH) // _COLUMN_WIDTH)
    for first in range(0, len(found), beside):
        part = slice(first, first + beside)
        made = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        made.add_column("", no_wrap=True)
        for one in found[part]:
            made.add_column(Text(one.run.label), justify="right")
        for label, cells in lines:
            made.add_row(label, *map(Text, cells[part]))
        yield made


def _is_of_a_client(label: str) -> bool:
    # The part of the time is indented, and a prediction has it.
    return label != f"  {NAMES['client']}" and label.strip().startswith(_OF_A_CLIENT)


def sentences(results: Results) -> list[str]:
    """What each profile comes to, and what bounds it."""
    return [sentence(one) for one in figures(results)]


def notes(scenario: Scenario, profiles: Sequence[Profile]) -> list[Text]:
    """What it is all drawn from, by class."""
    found = [Text(f"Scenario: {_classes(scenario)}", style="dim")]
    if any(varies(profile) for profile in profiles):
        said = "Waits that vary are drawn, each request's by its own key; a server draws others."
        found.append(Text(said, style="dim"))
    return found


def to_json(results: Results, scenario: Scenario, profiles: Sequence[Profile]) -> dict[str, Any]:
    """The figures as one JSON object; every number's class and source with them."""
    found = figures(results)
    return {
        "object": "paceline.scenario",
        "scenario": scenario.name,
        "title": scenario.title,
        "dialect": scenario.dialect,
        "seed": results.info.seed,
        "users": results.targets[0].users,
        "sources": {k: {"class": s.kind, "from": s.text} for k, s in scenario.sources.items()},
        "profiles": [
            {**_predicted(one), "assumptions": assumptions(profile)}
            for one, profile in zip(found, profiles, strict=True)
        ],
    }


def _predicted(one: Figures) -> dict[str, Any]:
    left_out = {"rate", "users", "retries", "gap_itl_s", "slot_wait_s", "told_wait_s", "prediction"}
    return {key: value for key, value in summary_of(one).items() if key not in left_out}


def _classes(scenario: Scenario) -> str:
    counts = dict.fromkeys(SOURCE_CLASSES, 0)
    unknown = 0
    for key in scenario.numbers():
        source = scenario.source(key)
        if source is None:
            unknown += 1
        else:
            counts[source.kind] += 1
    told = [f"{count} {kind}" for kind, count in counts.items() if count]
    if unknown:
        told.append(f"{unknown} without a source")
    return f"{', '.join(told)} of its numbers"
