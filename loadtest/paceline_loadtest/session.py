"""One run of `paceline loadtest run`: what it was told, checked; the run; its report."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvloop
from rich.console import Console

from paceline.client.stream import BaseUrl
from paceline_loadtest.clients import CLIENTS, ClientKind, make_client
from paceline_loadtest.errors import LoadTestError
from paceline_loadtest.exports import add_points, write_trace
from paceline_loadtest.load import Stop
from paceline_loadtest.measure import INTERRUPTED, Plan, measure
from paceline_loadtest.model import DIALECTS, Target
from paceline_loadtest.options import (
    Options,
    caps_of,
    load_of,
    one_of,
    registry_of,
    rules_of,
    scenario_of,
)
from paceline_loadtest.own import own_server
from paceline_loadtest.progress import watcher
from paceline_loadtest.report import (
    Results,
    Threshold,
    compare,
    html_report,
    print_comparison,
    print_report,
    to_json,
)
from paceline_loadtest.report.files import read_results
from paceline_loadtest.retries import Retries
from paceline_loadtest.statistics import Slo, calls_of, statistics
from paceline_loadtest.targets import api_key_of, is_paceline, parse_targets
from paceline_loadtest.thresholds import Threshold as Rule
from paceline_loadtest.thresholds import evaluate

FINE, FAILED, SPOILED, BROKEN_OFF = 0, 1, 3, 130


def run_session(options: Options) -> int:
    """Run it, report, and tell the exit code. Raises LoadTestError for what can't be used."""
    console = Console()
    options.check()
    scenario = scenario_of(options.scenario)
    rules = rules_of(options.fail_if)
    earlier = None if options.compare is None else read_results(options.compare)
    client = one_of("--client", options.client, CLIENTS)
    dialect = one_of("--dialect", options.dialect or scenario.dialect, DIALECTS)
    load = load_of(options, scenario)
    registry = registry_of(options.profiles)
    api_key = api_key_of(options.api_key_env)
    # An extra that isn't there is told before a server is started.
    _check_client(client)
    with contextlib.ExitStack() as stack:
        targets = _targets(options, api_key, stack, console)
        caps = caps_of(options, targets)
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
    found = compare(read_results(before), later := read_results(after))
    print_comparison(found, Console())
    if html_file is not None:
        html_file.write_text(html_report(later, found), encoding="utf-8")


# -- what it was told ------------------------------------------------------------------------------


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
        # Nothing was measured of a target that never answered, or wasn't asked: that is no success.
        calls = list(calls_of(run.loops))
        failed = failed or not any(call.ok for call in calls)
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
