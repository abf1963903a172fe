"""`paceline cost`: a trace or an agent's loop on each tier, in time and money."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paceline.cli import ProfilePaths, fail
from paceline.core.pricing import NOT_PUBLISHED, plain
from paceline.core.profile import Profile
from paceline.core.rates import TIERS, Day, Offer, RateCard, Tier, Unit, is_day
from paceline.core.sources import SourceClass
from paceline.runtime.profile_files import ProfileFileError, ProfileRegistry
from paceline.runtime.rate_files import RateBook, RateFileError, load_rates, shipped_rates_folder
from paceline.simulation.arrivals import TraceWorkload
from paceline.simulation.bills import Amount, Line, make_line
from paceline.simulation.lengths import WorkloadError
from paceline.simulation.spending import AgentLoop, spend_trace
from paceline.simulation.traces import TraceError, load_trace

DEFAULT_PROFILES = (
    "gpt-5.6-sol",
    "gpt-5.6-sol-codex-fast",
    "gpt-5.6-sol-api-fast",
    "gpt-5.6-sol-ultrafast",
    "gpt-5.3-codex-spark",
)
_STYLES: dict[SourceClass, str] = {
    "official": "green",
    "measured": "cyan",
    "estimate": "yellow",
    "hypothesis": "magenta",
}
_LOOP = AgentLoop()

Sold = tuple[Profile, RateCard | None, Offer]
"""A profile, the card that prices it, and what it sells."""


def cost(
    *,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="Profile, or MODEL:TIER; may be repeated. The first is compared to."),
    ] = None,
    profiles: ProfilePaths = None,
    rates: Annotated[
        list[Path] | None,
        typer.Option(help="A rate card, or a folder of them, beside the shipped; may be repeated."),
    ] = None,
    price_date: Annotated[
        str | None, typer.Option(help="Day whose rates hold, as 2026-08-21; today unless given.")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Run this trace, not an agent's loop.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Requests of the trace at most.")] = None,
    turns: Annotated[int, typer.Option(help="Turns of the loop.")] = _LOOP.turns,
    input_: Annotated[
        int, typer.Option("--input", help="Prompt tokens of the first turn.")
    ] = _LOOP.input,
    grow: Annotated[
        int, typer.Option(help="Tokens by which each turn's prompt is longer.")
    ] = _LOOP.grow,
    output: Annotated[int, typer.Option(help="Visible tokens of an answer.")] = _LOOP.output,
    reasoning: Annotated[int, typer.Option(help="Reasoning tokens before them.")] = _LOOP.reasoning,
    tool_s: Annotated[float, typer.Option(help="Seconds that each tool runs.")] = _LOOP.tool_s,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Use the profile's prompt cache.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same run.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a trace or an agent's loop on each tier: seconds, money, the price of a second saved."""
    day = price_date or datetime.now(UTC).date().isoformat()
    if not is_day(day):
        fail(f"--price-date must be a day such as 2026-08-21, not {day!r}")
    if trace is None and limit is not None:
        fail("--limit is for a --trace")
    try:
        book = load_rates([shipped_rates_folder(), *(rates or [])])
        registry = ProfileRegistry.load(profiles or [])
    except (RateFileError, ProfileFileError) as error:
        fail(str(error))
    chosen = [_sold(name, registry, book) for name in dict.fromkeys(profile or DEFAULT_PROFILES)]
    try:
        loop = AgentLoop(turns, input_, grow, output, reasoning, tool_s, cache, seed)
        source = None
        if trace is not None:
            source = TraceWorkload(load_trace(trace)[0], trace.name, limit=limit)
    except (WorkloadError, TraceError) as error:
        fail(str(error))
    lines = []
    for served, card, offer in chosen:
        spent = loop.run(served) if source is None else spend_trace(served, source, seed=seed)
        lines.append(make_line(spent, card, offer, day))
    about = loop.describe() if source is None else source.describe()
    if as_json:
        typer.echo(json.dumps(_as_json(lines, about, day), indent=2, ensure_ascii=False))
        return
    console = Console(soft_wrap=False)
    console.print(_table(lines, about, day))
    for note in _notes(lines):
        console.print(note)


def _sold(name: str, registry: ProfileRegistry, book: RateBook) -> Sold:
    """What a profile's name, or a model's name and tier, stands for."""
    profile, tier = registry.get(name), None
    if profile is None and ":" in name:
        model, _, asked = name.rpartition(":")
        tier = next((known for known in TIERS if known == asked), None)
        if tier is None:
            fail(f"{asked!r} is no tier; there are {', '.join(TIERS)}")
        profile = registry.get(model)
    if profile is None:
        near = registry.close_names(name.partition(":")[0])
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        fail(f"no profile is called {name!r}.{hint}")
    found = book.of_profile(profile.name)
    if tier is None:
        card, offer = found if found is not None else (None, Offer("default", None))
        return profile, card, offer
    served = registry.get(profile.tiers.get(tier, profile.name)) or profile
    return served, None if found is None else found[0], _offer_of(served, tier, book)


def _offer_of(served: Profile, tier: Tier, book: RateBook) -> Offer:
    found = book.of_profile(served.name)
    return found[1] if found is not None and found[1].tier == tier else Offer(tier, None)


def _as_json(lines: list[Line], about: dict[str, Any], day: Day) -> dict[str, Any]:
    return {
        "object": "paceline.cost",
        "workload": about,
        "price_date": day,
        "compared_to": lines[0].spending.profile.name,
        "profiles": [line.to_json(lines[0]) for line in lines],
    }


def _table(lines: list[Line], about: dict[str, Any], day: Day) -> Table:
    title = ", ".join(f"{key} {value}" for key, value in about.items() if value is not None)
    table = Table(title=f"{title}; prices of {day}", show_lines=True)
    table.add_column("profile", overflow="fold")
    table.add_column("tier", no_wrap=True)
    for name in ("seconds", "US$", "credits", "a second saved"):
        table.add_column(name, justify="right")
    first = lines[0]
    for line in lines:
        spending = line.spending
        table.add_row(
            spending.profile.name,
            line.offer.tier,
            _cell(f"{line.seconds:,.2f}", spending.certainty),
            _money(line, "usd"),
            _money(line, "credits"),
            _second(line, first),
        )
    return table


def _money(line: Line, unit: Unit) -> Text:
    amount = line.amount(unit)
    if amount.total is not None:
        sign = "≈ " if amount.from_credits else ""
        return _cell(sign + plain(amount.total), amount.certainty)
    if amount.missing:
        return Text(NOT_PUBLISHED, style="dim")
    if not line.spending.usages:
        return Text("nothing served", style="dim")
    return Text("API: in US$" if line.offer.sold_in == "usd" else "–", style="dim")


def _second(line: Line, first: Line) -> Text:
    """The price of a second saved: in credits too where the profile is sold in them."""
    if line is first:
        return Text("compared to", style="dim")
    usd = line.per_second_saved(first, "usd")
    credits_ = line.per_second_saved(first, "credits")
    shown = [] if usd is None else [f"{'≈ ' if line.usd.from_credits else ''}{usd:.6f} US$"]
    if credits_ is not None and (line.offer.sold_in == "credits" or usd is None):
        shown.insert(0, f"{credits_:.6f} credits")
    if shown:
        unit: Unit = "credits" if usd is None else "usd"
        return _cell("\n".join(shown), line.per_second_class(first, unit))
    if line.spending.refused != first.spending.refused:
        return Text("other work", style="dim")
    if line.spending.total_ns >= first.spending.total_ns:
        return Text("none saved", style="dim")
    return Text(NOT_PUBLISHED, style="dim")


def _cell(shown: str, certainty: SourceClass | None) -> Text:
    text = Text(shown)
    if certainty is not None:
        text.append(f"\n{certainty}", style=_STYLES[certainty])
    return text


def _notes(lines: list[Line]) -> list[Text]:
    """What isn't published, what doesn't fit, and where each price comes from."""
    notes: list[str] = []
    sources: dict[tuple[str, str, str], list[str]] = {}
    for line in lines:
        name, spending = line.spending.profile.name, line.spending
        if spending.refused:
            notes.append(f"{name}: {spending.refused} requests don't fit its limits")
        if line.surcharged:
            notes.append(f"{name}: {line.surcharged} requests paid the long-context surcharge")
        for amount in (line.usd, line.credits):
            if amount.missing:
                notes.append(f"{name}: {NOT_PUBLISHED} for {', '.join(amount.missing)}")
            _collect(sources, line.model, amount)
    for (model, kind, text), keys in sources.items():
        notes.append(f"{model} {', '.join(keys)}: {kind}: {text}")
    notes.append("Seconds: the model's, by each profile; paceline profiles show NAME has sources.")
    return [Text(f"• {note}") for note in dict.fromkeys(notes)]


def _collect(sources: dict[tuple[str, str, str], list[str]], model: str, amount: Amount) -> None:
    for key, source in amount.used.items():
        keys = sources.setdefault((model, source.kind, source.text), [])
        if key not in keys:
            keys.append(key)
