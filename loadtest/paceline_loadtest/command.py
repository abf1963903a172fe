"""The `paceline loadtest` commands: from flags to a load test, and from its results to a report.

Nothing of a load test is imported before one is asked for: the other commands start without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli import ProfilePaths, fail

app = typer.Typer(
    help="Run an agent's loops on each tier, and say where the time went.",
    no_args_is_help=True,
)


@app.command()
def run(
    scenario: Annotated[str, typer.Argument(help="A scenario that ships, or a .toml file.")],
    *,
    tiers: Annotated[
        list[str] | None,
        typer.Option(help="Models, with a tier where need be: gpu-40,gpt-5.6-sol:fast"),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="label=model or label=model@tier; may be repeated.")
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="A running server, as in http://localhost:8000/v1; default: its own."),
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="The environment variable that holds the key.")
    ] = None,
    profiles: ProfilePaths = None,
    client: Annotated[str, typer.Option(help="sdk: as a user's program; lean: for load.")] = "sdk",
    dialect: Annotated[
        str | None,
        typer.Option(help="chat, responses, responses-websocket, messages; default: its own."),
    ] = None,
    loops: Annotated[
        int | None, typer.Option(min=1, help="Loops in all; default: one a user, or no end.")
    ] = None,
    users: Annotated[int, typer.Option(min=1, help="Loops at once, one after another each.")] = 1,
    think: Annotated[float, typer.Option(min=0, help="Seconds between two loops of a user.")] = 0,
    rate: Annotated[
        float | None, typer.Option(help="Loops that begin a second, whatever the server does.")
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(
            help="poisson, constant, gamma:BURSTINESS, ramp:TO,SECONDS, spike:PEAK,AT,SECONDS, "
            "trace:FILE"
        ),
    ] = None,
    max_in_flight: Annotated[
        int | None, typer.Option(min=1, help="Calls at once; default: no bound.")
    ] = None,
    duration: Annotated[
        float | None, typer.Option(min=0, help="Seconds after which no loop begins.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed, other loops.")] = None,
    retries: Annotated[int, typer.Option(min=0, help="Retries of a refused call.")] = 2,
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds without a byte that fail a call.")
    ] = 120.0,
    max_late_ms: Annotated[
        float, typer.Option(min=0, help="The client's own p99 lateness that spoils a run.")
    ] = 5.0,
    fail_if: Annotated[
        list[str] | None, typer.Option(help="As in ttft_p99>2 (seconds); may be repeated.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the results to this file.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="Write a page to this file.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Results of an earlier run to compare with.")
    ] = None,
    points: Annotated[
        Path | None, typer.Option(help="Append a point a target for paceline fit (.jsonl).")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write the first target's requests as a trace.")
    ] = None,
    max_tokens_total: Annotated[
        int | None, typer.Option(min=1, help="Cap; an endpoint that isn't Paceline needs one.")
    ] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option(min=0, help="Cap; an endpoint that isn't Paceline needs one.")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(help="Dollars a million tokens of input and output, as in 2.50,10."),
    ] = None,
) -> None:
    """Run a scenario's loops on every target, and report.

    Exit codes: 0 fine, 1 a --fail-if came true or nothing succeeded, 2 wrong options or no server,
    3 the client was too late for its times to be trusted, 130 Ctrl-C.
    """
    from paceline_loadtest.options import Options  # noqa: PLC0415 - see above
    from paceline_loadtest.session import run_session  # noqa: PLC0415 - see above

    options = Options(
        scenario=scenario,
        tiers=tuple(tiers or ()),
        targets=tuple(target or ()),
        base_url=base_url,
        api_key_env=api_key_env,
        profiles=tuple(profiles or ()),
        client=client,
        dialect=dialect,
        loops=loops,
        users=users,
        think_s=think,
        rate=rate,
        arrivals=arrivals,
        max_in_flight=max_in_flight,
        duration_s=duration,
        seed=seed,
        retries=retries,
        timeout_s=timeout,
        max_late_ms=max_late_ms,
        fail_if=tuple(fail_if or ()),
        json_file=json_file,
        html_file=html_file,
        compare=compare,
        points=points,
        trace=trace,
        max_tokens_total=max_tokens_total,
        max_cost_usd=max_cost_usd,
        price=price,
    )
    with _told("the load test"):
        code = run_session(options)
    raise typer.Exit(code)


@app.command("compare")
def compare_runs(
    before: Annotated[Path, typer.Argument(help="Results of a run (--json).")],
    after: Annotated[Path, typer.Argument(help="Those of a later one.")],
    html_file: Annotated[
        Path | None, typer.Option("--html", help="Write the later one's page, with both.")
    ] = None,
) -> None:
    """Compare two runs."""
    from paceline_loadtest.session import compare_files  # noqa: PLC0415 - see above

    with _told("the comparison"):
        compare_files(before, after, html_file)


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="Results of a run (--json), or several.")],
    html_file: Annotated[Path | None, typer.Option("--html", help="Write a page.")] = None,
) -> None:
    """Report a run again, or several of one scenario, as under other loads, as one."""
    from rich.console import Console  # noqa: PLC0415 - see above

    from paceline_loadtest.report.files import report_files  # noqa: PLC0415 - see above

    with _told("the report"):
        report_files(results, html_file, Console())


@app.command()
def scenarios() -> None:
    """List the scenarios that ship."""
    from paceline_loadtest.scenario_files import (  # noqa: PLC0415 - see above
        load_scenario,
        shipped_scenarios,
    )

    for name in shipped_scenarios():
        typer.echo(f"{name:20} {load_scenario(name).title}")


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Say what can't be used, and end with exit code 2; `what` failed where no file is named."""
    from paceline_loadtest.errors import LoadTestError  # noqa: PLC0415 - see above

    try:
        yield
    except LoadTestError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or what}: {error.strerror or error}")
