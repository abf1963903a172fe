"""`paceline fit`: from measurements to a profile, and how far to trust it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from paceline.cli import fail
from paceline.client.stream import BaseUrl
from paceline.client.threads import quick_threads
from paceline.core.profile import ProfileError
from paceline.fit.deployment import Errors, fit_points, held_out
from paceline.fit.document import Document
from paceline.fit.points import Point, PointsError
from paceline.fit.probe.document import identify, probe_document
from paceline.fit.probe.endpoint import Endpoint, ProbeError
from paceline.fit.probe.plan import Probe
from paceline.fit.readers import read_points
from paceline.fit.search import Known
from paceline.fit.validate import validate

_PERCENT = 100.0


def fit(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="CSV, or result files of vllm bench serve, guidellm or AIPerf (JSON, JSONL)."
        ),
    ] = None,
    *,
    name: Annotated[str, typer.Option(help="The profile's name.")] = "",
    out: Annotated[Path | None, typer.Option(help="Where to write it; default: print it.")] = None,
    deployment: Annotated[
        str | None, typer.Option(help="Which deployment of a file that holds several.")
    ] = None,
    validate_file: Annotated[
        Path | None,
        typer.Option(
            "--validate", help="Fit half of each deployment's points, test on the others."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print errors as JSON.")] = False,
    kv_cache_tokens: Annotated[int, typer.Option(min=0, help="Known KV room, in tokens.")] = 0,
    max_num_seqs: Annotated[int, typer.Option(min=0, help="Known slots.")] = 0,
    max_num_batched_tokens: Annotated[int, typer.Option(min=0, help="Known chunk.")] = 0,
    context: Annotated[int, typer.Option(min=0, help="Known context, in tokens.")] = 0,
    probe: Annotated[
        str | None, typer.Option(help="Ask a live endpoint, as in http://localhost:8000/v1.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model to probe.")] = None,
    max_requests: Annotated[
        int | None, typer.Option(help="Never send a probed endpoint more requests than this.")
    ] = None,
    max_output_tokens: Annotated[
        int, typer.Option(min=32, help="Tokens of each probing answer.")
    ] = 256,
    max_prompt_tokens: Annotated[int, typer.Option(min=256, help="Longest probing prompt.")] = 8000,
    api_key: Annotated[str, typer.Option(help="The key for it.")] = "none",
    replicas: Annotated[
        int, typer.Option(min=0, help="Known replicas behind it; 0: found where they show.")
    ] = 0,
    tenants_running: Annotated[
        float, typer.Option(min=0.0, help="Known other sequences in each replica's batch.")
    ] = 0.0,
) -> None:
    """Fit a profile to measurements, or measure how good such fits are."""
    known = Known(kv_cache_tokens, max_num_seqs, max_num_batched_tokens, context)
    try:
        if validate_file is not None:
            if files or probe:
                fail("--validate takes the only file")
            _validate(validate_file, as_json=as_json)
            return
        if probe is not None:
            if model is None or max_requests is None:
                fail("--probe needs --model and --max-requests")
            endpoint = Endpoint(BaseUrl.parse(probe), api_key, model, max_requests)
            tokens = (max_output_tokens, max_prompt_tokens)
            document = _probe(
                endpoint,
                tokens,
                name=name or _word(model),
                context=context,
                replicas=replicas,
                tenants=tenants_running,
            )
            _write(document, out)
            return
        if not files:
            fail("give a file of measured points, or --validate FILE, or --probe URL")
        chosen_name, points = _choose(files, deployment)
        _fit(points, known, name or _word(chosen_name), out, ", ".join(f.name for f in files))
    except (PointsError, ProfileError, ProbeError, ValueError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror or error}")


def _validate(path: Path, *, as_json: bool) -> None:
    result = validate(read_points([path]))
    if as_json:
        typer.echo(json.dumps(result, indent=2, ensure_ascii=False))
        return
    table = Table(title=f"{path.name}: half of the points fitted, the others predicted")
    table.add_column("deployment", overflow="fold", min_width=20)
    for column in ("fitted", "tested", "TPOT error", "TTFT error"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in result["deployments"]:
        table.add_row(row["name"], str(row["n_train"]), str(row["n_test"]), *_errors(row))
    table.add_section()
    table.add_row("all", "", str(result["held_out"]), *_errors(result))
    table.caption = "errors: median / 90th percentile"
    Console(soft_wrap=False).print(table)


def _errors(row: dict[str, Any]) -> list[str]:
    return [
        f"{percent(row[f'{time}_median'])} / {percent(row[f'{time}_p90'])}"
        for time in ("tpot", "ttft")
    ]


def percent(value: float | None) -> str:
    """A fraction for people."""
    return "-" if value is None else f"{value * _PERCENT:.1f} %"


def _choose(files: list[Path], deployment: str | None) -> tuple[str, list[Point]]:
    """The points of the one deployment that is meant, and its name."""
    deployments = read_points(files)
    if deployment is not None:
        if deployment not in deployments:
            fail(f"no deployment {deployment!r}; there are {', '.join(deployments)}")
        return deployment, deployments[deployment]
    if len(deployments) > 1:
        fail(f"several deployments: name one with --deployment: {', '.join(deployments)}")
    return next(iter(deployments.items()))


def _fit(points: list[Point], known: Known, name: str, out: Path | None, origin: str) -> None:
    """Fit all points, and say how well fits of half of them did on the rest."""
    errors = held_out(points, known)
    errors.merge(held_out(points, known, first=1))
    accuracy = {"held_out": _held_out_text(errors)} if errors.tpot or errors.ttft else {}
    fitted = fit_points(points, known, name=name, origin=origin, accuracy=accuracy)
    _write(fitted.document, out)
    typer.echo(f"{name}: {len(points)} points; {_held_out_text(errors)}", err=True)


def _write(document: Document, out: Path | None) -> None:
    if out is None:
        typer.echo(document.to_toml(), nl=False)
    else:
        out.write_text(document.to_toml(), encoding="utf-8")


def _probe(
    endpoint: Endpoint,
    tokens: tuple[int, int],
    *,
    name: str,
    context: int,
    replicas: int,
    tenants: float,
) -> Document:
    """Ask a live endpoint, and say on stderr what is being asked."""
    output_tokens, prompt_tokens = tokens
    running = Probe(
        endpoint,
        output_tokens=output_tokens,
        longest_prompt=min(prompt_tokens, context - output_tokens) if context else prompt_tokens,
        replicas=replicas,
        told=lambda text: typer.echo(f"  {text}", err=True),
    )
    with quick_threads():
        seen = running.run()
    engine = identify(seen, replicas=replicas, tenants=tenants)
    document = probe_document(seen, engine, name=name, model=endpoint.model, context_tokens=context)
    document.profile()
    typer.echo(f"{name}: {seen.requests} requests", err=True)
    return document


def _held_out_text(errors: Errors) -> str:
    found = errors.to_json()
    return (
        "every second point held out, and then the others: error of TPOT"
        f" {percent(found['tpot_median'])} median, {percent(found['tpot_p90'])} p90"
        f" ({len(errors.tpot)} points); of TTFT {percent(found['ttft_median'])} median,"
        f" {percent(found['ttft_p90'])} p90 ({len(errors.ttft)} points)"
    )


def _word(text: str) -> str:
    """A name that a profile may have."""
    return "-".join(text.replace("/", "-").split()) or "fitted"
