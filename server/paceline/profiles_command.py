"""`paceline profiles`: what there is, and where each number comes from."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paceline.cli import ProfilePaths, fail
from paceline.core.profile import Profile
from paceline.runtime import profile_table
from paceline.runtime.profile_files import ProfileFileError, ProfileRegistry

app = typer.Typer(
    help="List the profiles, or show one with its sources.", invoke_without_command=True
)

_STYLES = {
    "official": "green",
    "measured": "cyan",
    "estimate": "yellow",
    "hypothesis": "magenta",
    "default": "dim",
}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def list_profiles(
    context: typer.Context, *, profiles: ProfilePaths = None, as_json: AsJson = False
) -> None:
    """List every profile with its speed, its first token's wait and its limits."""
    if context.invoked_subcommand is not None:
        return
    summaries = [profile_table.summary(p) for p in _registry(profiles).profiles()]
    if as_json:
        typer.echo(json.dumps([s.to_json() for s in summaries], indent=2, ensure_ascii=False))
        return
    table = Table(title="Profiles", caption="flat-RATE and instant need no file.")
    table.add_column("name", no_wrap=True)
    table.add_column("tok/s a user", justify="right")
    table.add_column("class")
    table.add_column("first token", justify="right")
    table.add_column("class")
    table.add_column("what it is")
    for s in summaries:
        table.add_row(
            s.name,
            f"{s.ceiling_tok_s:g}" if s.ceiling_tok_s < 1e9 else "unlimited",
            _styled(s.ceiling_class),
            f"{s.first_token_ms:,.0f} ms",
            _styled(s.first_token_class),
            s.title,
        )
    _console().print(table)


@app.command()
def show(name: str, *, profiles: ProfilePaths = None, as_json: AsJson = False) -> None:
    """Print every number of a profile with its class and source."""
    profile = _find(name, _registry(profiles))
    rows = profile_table.rows(profile)
    if as_json:
        summary = profile_table.summary(profile).to_json()
        numbers = [row.to_json() for row in rows]
        typer.echo(json.dumps({**summary, "numbers": numbers}, indent=2, ensure_ascii=False))
        return
    table = Table(title=f"{profile.name}: {profile.title}", caption=profile.notes or None)
    table.add_column("number", no_wrap=True)
    table.add_column("value", justify="right")
    table.add_column("class")
    table.add_column("from")
    for row in rows:
        table.add_row(row.key, _plain(row.value), _styled(row.certainty), row.source)
    _console().print(table)
    if profile.models:
        _console().print("also served as:", ", ".join(profile.models))


def _registry(paths: ProfilePaths) -> ProfileRegistry:
    try:
        return ProfileRegistry.load(paths or [])
    except ProfileFileError as error:
        fail(str(error))


def _find(name: str, registry: ProfileRegistry) -> Profile:
    profile = registry.get(name)
    if profile is None:
        near = registry.close_names(name)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        fail(f"no profile is called {name!r}.{hint}")
    return profile


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} points"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _styled(certainty: str) -> str:
    return f"[{_STYLES[certainty]}]{certainty}[/]"


def _console() -> Console:
    return Console(soft_wrap=False)
