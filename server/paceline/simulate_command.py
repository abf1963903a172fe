"""`paceline simulate`: what a load test would say, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from paceline.cli import ProfilePaths, fail
from paceline.core.profile import Profile
from paceline.runtime.profile_files import ProfileFileError, ProfileRegistry
from paceline.scenario_simulation import LoopLoad, simulate_scenario
from paceline.simulation import articles as article
from paceline.simulation import picture, report
from paceline.simulation.arrivals import Drawn, TraceWorkload
from paceline.simulation.capacity import Capacity, Probe, find_capacity
from paceline.simulation.chart import Chart, svg_document
from paceline.simulation.lengths import WorkloadError, parse_length
from paceline.simulation.load import REQUESTS, Load
from paceline.simulation.prices import Prices, parse_prices
from paceline.simulation.slo import Slo, parse_slo
from paceline.simulation.statistics import Summary, summarise
from paceline.simulation.traces import TraceError, load_trace

app = typer.Typer(
    help="Run arrivals through profiles in virtual time.", invoke_without_command=True
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SvgFile = Annotated[Path | None, typer.Option("--svg", help="Write the picture to this file.")]
HtmlFile = Annotated[Path | None, typer.Option("--html", help="Write a page with it.")]

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_LOOPS = 20
_FOR_LOOPS = frozenset(
    {
        "profile",
        "profiles",
        "replicas",
        "users",
        "think_s",
        "seed",
        "sources",
        "scenario",
        "loops",
        "client_ms",
        "as_json",
    }
)


@app.callback()
def simulate(
    context: typer.Context,
    *,
    profile: Annotated[
        list[str] | None, typer.Option("--profile", help="Profile to run; may be repeated.")
    ] = None,
    profiles: ProfilePaths = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Replicas, not the profile's.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Arrivals from an Azure CSV, Mooncake JSON lines or a recording."),
    ] = None,
    speedup: Annotated[float, typer.Option(help="Run the trace so many times as fast.")] = 1.0,
    repeat: Annotated[int, typer.Option(min=1, help="Run the trace so many times over.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="Requests of the trace at most.")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second, by themselves.")] = None,
    burstiness: Annotated[
        float, typer.Option(help="Shape of the gaps' gamma distribution; 1 is Poisson.")
    ] = 1.0,
    users: Annotated[
        int | None, typer.Option(min=1, help="Users who each ask again after their answer.")
    ] = None,
    think_s: Annotated[float, typer.Option(min=0, help="Seconds a user takes to ask again.")] = 0.0,
    ramp_s: Annotated[float, typer.Option(min=0, help="Seconds over which users begin.")] = 0.0,
    input_: Annotated[
        str,
        typer.Option("--input", help="Prompt tokens: N, uniform:LOW,HIGH or lognormal:P50,P90."),
    ] = "1024",
    output: Annotated[str, typer.Option(help="Output tokens, in the same form.")] = "256",
    effort: Annotated[
        str | None, typer.Option(help="Add the profile's reasoning tokens of this effort.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option(min=1, help="Drawn requests (1,000, or 10 a user).")
    ] = None,
    warmup: Annotated[int, typer.Option(min=0, help="First requests that don't count.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same run.")] = 0,
    slo: Annotated[str | None, typer.Option(help="Limits in ms: ttft:2000,tpot:50,e2e:…")] = None,
    percentile: Annotated[float, typer.Option(help="The SLO's percentile, for --capacity.")] = 99.0,
    capacity: Annotated[
        bool, typer.Option("--capacity", help="Find the highest load that holds the SLO.")
    ] = False,
    price: Annotated[
        str | None, typer.Option(help="US$ a million tokens: input:4,cached:0.4,output:20")
    ] = None,
    sources: Annotated[
        bool, typer.Option("--sources", help="Print every number's class and source.")
    ] = False,
    scenario: Annotated[
        str | None,
        typer.Option(help="Run an agent's loops: a shipped scenario's name, or a .toml file."),
    ] = None,
    loops: Annotated[
        int | None, typer.Option(min=1, help="Loops of the scenario (20, or one a user).")
    ] = None,
    client_ms: Annotated[
        float, typer.Option(min=0, help="What a call costs beyond the server's waiting, in ms.")
    ] = 0.0,
    as_json: AsJson = False,
    svg: SvgFile = None,
    html: HtmlFile = None,
) -> None:
    """Run arrivals through one or several profiles; all times are the model's, none a clock's."""
    if context.invoked_subcommand is not None:
        return
    if not profile:
        fail("say which profile: --profile NAME (paceline profiles lists them)")
    chosen = [_profile(name, profiles, replicas) for name in dict.fromkeys(profile)]
    if scenario is not None:
        _only_for_loops(context)
        own_seed = None if _left_out(context, "seed") else seed
        count = max(loops or _LOOPS, users or 1)
        agents = LoopLoad(count, users or 1, think_s, own_seed, client_ms / 1000.0)
        simulate_scenario(scenario, chosen, agents, as_json=as_json, with_sources=sources)
        return
    if loops is not None or client_ms:
        fail("--loops and --client-ms are for a --scenario")
    if trace is None and rate is None and users is None and not capacity:
        fail("say what arrives: --trace FILE, --rate R, --users N or --scenario NAME")
    if trace is not None and rate is not None:
        fail("--trace has its own arrivals: --speedup changes their rate")
    if users is not None and rate is not None:
        fail("users ask when they have their answer: give --users or --rate")
    if trace is None and (speedup, repeat, limit) != (1.0, 1, None):
        fail("--speedup, --repeat and --limit are for a --trace")
    if trace is not None and (requests, effort) != (None, None):
        fail("--requests and --effort are for drawn requests: --limit cuts a trace")
    if capacity and (price, svg, html) != (None, None, None):
        fail("--capacity prints its search: --price, --svg and --html are for a single run")
    if effort is not None and effort not in _EFFORTS:
        fail(f"--effort must be one of {', '.join(_EFFORTS)}")
    try:
        wanted = parse_slo(slo, percentile)
        prices = None if price is None else parse_prices(price)
        drawn = Drawn(
            parse_length(input_, "--input"),
            parse_length(output, "--output"),
            requests or REQUESTS,
            seed,
            rate,
            burstiness,
            effort,
        )
        source = None if trace is None else _trace(trace, speedup, repeat, limit)
    except (WorkloadError, TraceError) as error:
        fail(str(error))
    load = Load(source, drawn, requests, users, think_s, ramp_s, seed, warmup)
    if capacity:
        _capacity(chosen, load, wanted, as_json=as_json)
        return
    summaries = [summarise(load.run(p, load.amount), wanted) for p in chosen]
    charts = _charts(summaries, load) if svg is not None or html is not None else []
    table = report.rows(summaries, wanted, prices)
    _write(charts, "Paceline: a simulation", table, svg=svg, html=html)
    if as_json:
        _print_json(_as_json(summaries, load, wanted, prices))
        return
    console = _console()
    console.print(report.rendered(table, _title(load)))
    console.print(report.notes(chosen, with_sources=sources))


@app.command()
def articles(
    *,
    profiles: ProfilePaths = None,
    as_json: AsJson = False,
    svg: SvgFile = None,
    html: HtmlFile = None,
) -> None:
    """Show users at 340 tok/s in a megawatt of B300, at 750 on wafers, and why they differ."""
    sides = []
    for name, rate in ((article.GPU, article.GPU_TOK_S), (article.WAFER, article.WAFER_TOK_S)):
        try:
            sides.append(article.side(_profile(name, profiles, None), rate))
        except ValueError as error:
            fail(str(error))
    words = article.explanation(*sides)
    table = article.rows(sides)
    _write(article.charts(sides), "Users at a rate", table, svg=svg, html=html, words=words)
    if as_json:
        found = {
            "object": "paceline.articles",
            "prompt_tokens": article.PROMPT_TOKENS,
            "output_tokens": article.OUTPUT_TOKENS,
            "sides": [s.to_json() for s in sides],
            "explanation": words,
            "assumptions": {s.profile.name: report.assumptions(s.profile) for s in sides},
        }
        _print_json(found)
        return
    console = _console()
    console.print(report.rendered(table, "Users at a rate"))
    for word in words:
        console.print(Text(f"• {word}"))
    console.print(report.notes([s.profile for s in sides], with_sources=True))


def _left_out(context: typer.Context, name: str) -> bool:
    """Whether an option stands at its default because nobody gave it."""
    source = context.get_parameter_source(name)
    return source is None or source.name in {"DEFAULT", "DEFAULT_MAP"}


def _only_for_loops(context: typer.Context) -> None:
    """Refuse the options that a scenario has no use for."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in _FOR_LOOPS and not _left_out(context, name):
            fail(f"{max(parameter.opts, key=len)} is not for a --scenario")


def _capacity(chosen: list[Profile], load: Load, slo: Slo, *, as_json: bool) -> None:
    if not slo.limits:
        fail("--capacity needs an --slo to hold, such as ttft:2000,tpot:50")
    if load.warmup and load.kind == "users":
        fail("--warmup with --capacity would mean another share of each number of users")
    found = [(p, _search(p, load, slo)) for p in chosen]
    if as_json:
        searches = [report.capacity_json(p, load.kind, slo, c) for p, c in found]
        about: dict[str, Any] = {
            "object": "paceline.capacity",
            "workload": load.describe(searched=True),
        }
        about["slo_ms"] = slo.limits
        _print_json({**about, "profiles": searches})
        return
    console = _console()
    for profile, answer in found:
        console.print(report.capacity_table(profile, load.kind, slo, answer))
    console.print(Text(f"Each run: {_title(load, searched=True)}.", style="dim"))


def _search(profile: Profile, load: Load, slo: Slo) -> Capacity:
    def measure(amount: float) -> Probe:
        summary = summarise(load.run(profile, amount), slo)
        measured = {name: summary.stated(name) for name in slo.limits}
        good = bool(summary.requests) and all(measured[n] <= slo.limit(n) for n in measured)
        return Probe(amount, measured, good)

    most = 1e5 if load.kind == "users" else 1e7
    return find_capacity(measure, start=load.amount, whole=load.kind == "users", most=most)


def _charts(summaries: list[Summary], load: Load) -> list[Chart]:
    workload = load.workload(load.amount)
    curves = [(s.run.profile.name, picture.pareto(s.run.profile, workload)) for s in summaries]
    over_time = picture.ttft_chart([s.run for s in summaries])
    shown = [curve for curve in curves if curve[1]]
    return [picture.pareto_chart(shown), over_time] if shown else [over_time]


def _as_json(
    summaries: list[Summary], load: Load, slo: Slo, prices: Prices | None
) -> dict[str, Any]:
    found = []
    for summary in summaries:
        figures = report.profile_json(summary, slo, prices)
        found.append({**figures, "assumptions": report.assumptions(summary.run.profile)})
    return {
        "object": "paceline.simulation",
        "workload": load.describe(),
        "slo_ms": slo.limits or None,
        "profiles": found,
    }


def _title(load: Load, *, searched: bool = False) -> str:
    about = load.describe(searched=searched)
    return ", ".join(f"{key} {value}" for key, value in about.items() if value is not None)


def _trace(path: Path, speedup: float, repeat: int, limit: int | None) -> TraceWorkload:
    if not 0 < speedup <= 1e9:
        raise WorkloadError("the speedup must be above 0 and at most 1e9")
    trace, _ = load_trace(path)
    return TraceWorkload(trace, path.name, speedup, repeat, limit)


def _profile(name: str, paths: ProfilePaths, replicas: int | None) -> Profile:
    try:
        registry = ProfileRegistry.load(paths or [])
    except ProfileFileError as error:
        fail(str(error))
    found = registry.get(name)
    if found is None:
        near = registry.close_names(name)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        fail(f"no profile is called {name!r}.{hint}")
    if replicas is None:
        return found
    return replace(found, engine=replace(found.engine, replicas=replicas))


def _write(
    charts: list[Chart],
    title: str,
    table: list[list[str]],
    *,
    svg: Path | None,
    html: Path | None,
    words: list[str] | None = None,
) -> None:
    pages: list[tuple[Path | None, Callable[[], str]]] = [
        (svg, lambda: svg_document(charts, title)),
        (html, lambda: picture.html_page(title, charts, table, words or [])),
    ]
    for path, page in pages:
        if path is None:
            continue
        try:
            path.write_text(page(), encoding="utf-8")
        except OSError as error:
            fail(f"{path}: {error.strerror or error}")


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _console() -> Console:
    return Console(soft_wrap=False)
