"""One run of `paceline loadtest run`: what it was told, checked; the run; its report."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console

from paceline.client.stream import BaseUrl
from paceline.runtime.profile_files import ProfileFileError, ProfileRegistry
from paceline_loadtest.arrivals import Arrivals, parse_arrivals
from paceline_loadtest.caps import Caps, parse_price
from paceline_loadtest.clients import CLIENTS, ClientKind, make_client
from paceline_loadtest.errors import LoadTestError
from paceline_loadtest.exports import add_points, write_trace
from paceline_loadtest.load import Load, Stop
from paceline_loadtest.measure import INTERRUPTED, Plan, measure
from paceline_loadtest.model import DIALECTS, Target
from paceline_loadtest.own import own_server
from paceline_loadtest.progress import watcher
from paceline_loadtest.report import (
    Results,
    ResultsError,
    Threshold,
    compare,
    from_json,
    html_report,
    print_comparison,
    print_report,
    to_json,
)
from paceline_loadtest.retries import Retries
from paceline_loadtest.scenario import Scenario
from paceline_loadtest.scenario_files import ScenarioError, load_scenario
from paceline_loadtest.statistics import Slo, calls_of, statistics
from paceline_loadtest.targets import api_key_of, is_paceline, parse_targets
from paceline_loadtest.thresholds import Threshold as Rule
from paceline_loadtest.thresholds import ThresholdError, evaluate, parse_threshold

FINE, FAILED, SPOILED, BROKEN_OFF = 0, 1, 3, 130

_NEVER_TOLD = frozenset({"scenario", "json_file", "html_file", "compare", "points", "trace"})
"""Of the options: not part of how a run was made."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `paceline loadtest run` was told."""

    scenario: str
    tiers: Sequence[str] = ()
    targets: Sequence[str] = ()
    base_url: str | None = None
    api_key_env: str | None = None
    profiles: Sequence[Path] = ()
    client: str = "sdk"
    dialect: str | None = None
    loops: int | None = None
    users: int = 1
    think_s: float = 0.0
    rate: float | None = None
    arrivals: str | None = None
    max_in_flight: int | None = None
    duration_s: float | None = None
    seed: int | None = None
    retries: int = 2
    timeout_s: float = 120.0
    max_late_ms: float = 5.0
    fail_if: Sequence[str] = ()
    json_file: Path | None = None
    html_file: Path | None = None
    compare: Path | None = None
    points: Path | None = None
    trace: Path | None = None
    max_tokens_total: int | None = None
    max_cost_usd: float | None = None
    price: str | None = None

    def told(self) -> dict[str, str]:
        """How the run was made, for its results: what differs from nothing at all."""
        found: dict[str, str] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _NEVER_TOLD and value not in (None, (), 0.0):
                found[field.name] = _shown(value)
        return found


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def run_session(options: Options) -> int:
    """Run it, report, and tell the exit code. Raises LoadTestError for what can't be used."""
    console = Console()
    scenario = _scenario(options.scenario)
    rules = _rules(options.fail_if)
    earlier = None if options.compare is None else _read(options.compare)
    client = _one_of("--client", options.client, CLIENTS)
    dialect = _one_of("--dialect", options.dialect or scenario.dialect, DIALECTS)
    load = _load(options, scenario)
    registry = _profiles(options.profiles)
    api_key = api_key_of(options.api_key_env)
    # An extra that isn't there is told before a server is started.
    _check_client(client)
    with contextlib.ExitStack() as stack:
        targets = _targets(options, api_key, stack, console)
        caps = _caps(options, targets)
        plan = Plan(
            scenario=scenario,
            targets=targets,
            load=load,
            seed=load.seed,
            client=client,
            dialect=dialect,
            late_limit_s=options.max_late_ms / 1e3,
            retries=Retries(most=options.retries),
            idle_timeout_s=options.timeout_s,
            caps=caps,
            profile_of=registry.get,
            settings=options.told(),
        )
        results, interrupted = _run(plan, console)
    return _report(
        options, results, rules, earlier, console, slo=scenario.slo, interrupted=interrupted
    )


def compare_files(before: Path, after: Path, html_file: Path | None) -> None:
    """Print what changed between two runs, and write a page. Raises LoadTestError and OSError."""
    found = compare(_read(before), later := _read(after))
    print_comparison(found, Console())
    if html_file is not None:
        html_file.write_text(html_report(later, found), encoding="utf-8")


# -- what it was told ------------------------------------------------------------------------------


def _scenario(name: str) -> Scenario:
    try:
        return load_scenario(name)
    except ScenarioError as error:
        raise LoadTestError(str(error)) from error


def _rules(texts: Sequence[str]) -> list[Rule]:
    try:
        return [parse_threshold(text) for text in texts]
    except ThresholdError as error:
        raise LoadTestError(f"--fail-if: {error}") from error


def _read(path: Path) -> Results:
    try:
        return from_json(path.read_bytes())
    except ResultsError as error:
        raise LoadTestError(f"{path}: {error}") from error


def _one_of(flag: str, value: str, known: Sequence[Any]) -> Any:
    if value not in known:
        raise LoadTestError(f"{flag}: {value!r} is none of {', '.join(known)}")
    return value


def _load(options: Options, scenario: Scenario) -> Load:
    arrivals: Arrivals | None = None
    if options.rate is not None or options.arrivals is not None:
        if options.users != 1 or options.think_s:
            raise LoadTestError("--users and --think are a closed load's; --rate is an open one's")
        arrivals = parse_arrivals(options.arrivals or "poisson", options.rate)
    loops = options.loops
    if loops is None and options.duration_s is None:
        loops = len(arrivals.times) if arrivals and arrivals.times else options.users
        if arrivals is not None and not arrivals.times:
            raise LoadTestError("--rate: an open load needs an end: --loops or --duration")
    return Load(
        users=options.users,
        think_s=options.think_s,
        arrivals=arrivals,
        loops=loops,
        duration_s=options.duration_s,
        slots=options.max_in_flight,
        seed=scenario.seed if options.seed is None else options.seed,
    )


def _profiles(paths: Sequence[Path]) -> ProfileRegistry:
    try:
        return ProfileRegistry.load(paths)
    except ProfileFileError as error:
        raise LoadTestError(str(error)) from error


def _check_client(kind: ClientKind) -> None:
    async def make() -> None:
        client = make_client(
            kind, "http://localhost/v1", "none", retries=Retries(), idle_timeout_s=1.0
        )
        await client.aclose()

    asyncio.run(make())


def _targets(
    options: Options, api_key: str, stack: contextlib.ExitStack, console: Console
) -> list[Target]:
    paceline = True
    url = options.base_url
    if url is not None:
        try:
            base = BaseUrl.parse(url)
        except ValueError as error:
            raise LoadTestError(f"--base-url: {error}") from error
        paceline = is_paceline(base, api_key)
        url = str(base)
    found = parse_targets(options.tiers, options.targets, url or "", api_key, paceline=paceline)
    if url is not None:
        return found
    with console.status("Starting a server") if console.is_terminal else contextlib.nullcontext():
        url = stack.enter_context(own_server([t.model for t in found], options.profiles))
    return parse_targets(options.tiers, options.targets, url, api_key, paceline=True)


def _caps(options: Options, targets: Sequence[Target]) -> Caps | None:
    tokens, usd = options.max_tokens_total, options.max_cost_usd
    if all(target.paceline for target in targets) and tokens is None and usd is None:
        return None
    if tokens is None or usd is None or options.price is None:
        missing = [
            flag
            for flag, value in (
                ("--max-tokens-total", tokens),
                ("--max-cost-usd", usd),
                ("--price", options.price),
            )
            if value is None
        ]
        raise LoadTestError(
            f"{', '.join(missing)}: an endpoint that isn't Paceline may cost money, and is only "
            "asked with all three"
        )
    return Caps(tokens, usd, parse_price(options.price))


# -- the run ---------------------------------------------------------------------------------------


def _run(plan: Plan, console: Console) -> tuple[Results, bool]:
    async def main() -> tuple[Results, bool]:
        stop = Stop()
        with watcher(console) as seen, _signals(stop):
            results = await measure(plan, stop, seen)
        return results, stop.why == INTERRUPTED

    return uvloop.run(main())


@contextlib.contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C, a closed terminal and a polite kill end the run with a report of what there is."""
    loop = asyncio.get_running_loop()
    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in caught:
        loop.add_signal_handler(number, stop.set, INTERRUPTED)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)


def _report(
    options: Options,
    results: Results,
    rules: Sequence[Rule],
    earlier: Results | None,
    console: Console,
    *,
    slo: Slo | None,
    interrupted: bool,
) -> int:
    failed = False
    for run in results.targets:
        # Nothing was measured of a target that never answered: that is no success.
        calls = list(calls_of(run.loops))
        failed = failed or (bool(calls) and not any(call.ok for call in calls))
        for rule in evaluate(rules, statistics(run.loops, slo)):
            failed = failed or rule.failed
            results.thresholds.append(
                Threshold(str(rule.threshold), rule.outcome, rule.value, run.target.label)
            )
    print_report(results, console)
    found = None if earlier is None else compare(earlier, results)
    if found is not None:
        print_comparison(found, console)
    if options.json_file is not None:
        options.json_file.write_text(to_json(results), encoding="utf-8")
    if options.html_file is not None:
        options.html_file.write_text(html_report(results, found), encoding="utf-8")
    if options.points is not None and add_points(results, options.points) < len(results.targets):
        console.print(
            f"{options.points}: a target is left out: a fit needs streams of prompts that no "
            "cache knew"
        )
    if options.trace is not None:
        write_trace(results, options.trace)
    if interrupted:
        return BROKEN_OFF
    if any(run.lateness is not None and run.lateness.spoils for run in results.targets):
        return SPOILED
    return FAILED if failed else FINE
