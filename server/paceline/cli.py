"""The `paceline` command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from paceline import __version__
from paceline.runtime.scripts import ScriptError
from paceline.runtime.settings import Settings, SettingsError, load_settings
from paceline.runtime.toml_files import FileError

app = typer.Typer(
    name="paceline",
    help="An OpenAI-compatible server with no model behind it, at the pace of real hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ProfilePaths = Annotated[
    list[Path] | None,
    typer.Option("--profiles", help="A profile file, or a folder of them; may be repeated."),
]
ConfigPath = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with settings (or PACELINE_CONFIG).")
]


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] != ["serve"]:
        # A server would carry the code of all the others as long as it runs.
        from paceline import commands  # noqa: PLC0415 - the commands import this module's app

        commands.register()
    app()


def settings_of(config: Path | None, **flags: Any) -> Settings:
    """The settings of a command; a mistake in them ends it with exit code 2 and a clear word."""
    try:
        return load_settings(flags, config)
    except SettingsError as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    """End the command: something that the user gave can't be used."""
    typer.secho(f"paceline: {message}", err=True, fg=typer.colors.RED)
    raise typer.Exit(2)


@app.command()
def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one.")] = None,
    profiles: ProfilePaths = None,
    config: ConfigPath = None,
    accept_any_model: Annotated[
        str | None, typer.Option(help="Profile for model names that nobody knows.")
    ] = None,
    tokens_per_chunk: Annotated[int | None, typer.Option(help="Tokens in a chunk.")] = None,
    show_reasoning: Annotated[
        bool | None, typer.Option(help="Send reasoning tokens as reasoning_content.")
    ] = None,
    max_body_bytes: Annotated[int | None, typer.Option(help="Largest request body.")] = None,
    keepalive_s: Annotated[
        float | None, typer.Option(help="Seconds an idle connection stays.")
    ] = None,
    grace_s: Annotated[
        float | None, typer.Option(help="Seconds that running requests get at the end.")
    ] = None,
    cors_origins: Annotated[
        list[str] | None, typer.Option(help="Origins whose pages may call; may be repeated.")
    ] = None,
    pacer_utilisation: Annotated[
        float | None, typer.Option(help="Most of the core that writing may take.")
    ] = None,
    timing_requests: Annotated[
        int | None, typer.Option(help="Finished requests whose timing is kept.")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="SQLite file of what requests cost, a URL, or off.")
    ] = None,
    rates: Annotated[
        list[Path] | None,
        typer.Option(help="A rate card, or a folder of them; may be repeated."),
    ] = None,
    price_date: Annotated[
        str | None, typer.Option(help="Day whose rates hold, as 2026-08-21; today without.")
    ] = None,
    cost_in_body: Annotated[
        bool | None, typer.Option(help="Tell the cost beside the usage.")
    ] = None,
    when_full: Annotated[
        str | None, typer.Option(help="A tier without a free slot: queue, default or refuse.")
    ] = None,
    when_not_entitled: Annotated[
        str | None, typer.Option(help="A tier that a key may not use: default or refuse.")
    ] = None,
    responses_bytes: Annotated[
        int | None, typer.Option(help="Memory for stored responses and conversations.")
    ] = None,
    websocket: Annotated[
        bool | None, typer.Option(help="Serve /v1/responses over WebSockets too.")
    ] = None,
    websocket_limit_s: Annotated[
        float | None, typer.Option(help="Seconds a WebSocket connection may live.")
    ] = None,
    websocket_deflate: Annotated[
        bool | None, typer.Option(help="Compress WebSocket frames on offer.")
    ] = None,
    scripts: Annotated[
        list[Path] | None,
        typer.Option(help="Script file or folder, or the name of a shipped one; may be repeated."),
    ] = None,
    tool_calls_per_turn: Annotated[
        int | None, typer.Option(help="Rounds of tool calls before an answer is text.")
    ] = None,
    keys_file: Annotated[
        Path | None, typer.Option(help="TOML file of the API keys that are let in.")
    ] = None,
    api_key: Annotated[
        list[str] | None,
        typer.Option(help="An API key that is let in (or PACELINE_API_KEY); may be repeated."),
    ] = None,
    rpm: Annotated[int | None, typer.Option(help="Requests a minute a key and model.")] = None,
    tpm: Annotated[int | None, typer.Option(help="Tokens a minute a key and model.")] = None,
    rpd: Annotated[int | None, typer.Option(help="Requests a day a key and model.")] = None,
    max_streams: Annotated[
        int | None, typer.Option(help="Answers at once a key and model.")
    ] = None,
    replay: Annotated[
        str | None, typer.Option(help="Recordings to answer from: a folder or a file.")
    ] = None,
    replay_timing: Annotated[
        str | None, typer.Option(help="recorded, scaled or profile: when chunks leave.")
    ] = None,
    replay_speed: Annotated[
        float | None, typer.Option(help="Times as fast as recorded, with 'scaled'.")
    ] = None,
    replay_match: Annotated[
        str | None, typer.Option(help="body, path or order: what has to be the same.")
    ] = None,
    replay_miss: Annotated[
        str | None, typer.Option(help="synthetic or error: for what isn't recorded.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="critical … debug.")] = None,
    access_log: Annotated[bool | None, typer.Option(help="Log each request.")] = None,
) -> None:
    """Start the server with every profile."""
    settings = settings_of(
        config,
        host=host,
        port=port,
        profiles=profiles,
        accept_any_model=accept_any_model,
        tokens_per_chunk=tokens_per_chunk,
        show_reasoning=show_reasoning,
        max_body_bytes=max_body_bytes,
        keepalive_s=keepalive_s,
        grace_s=grace_s,
        cors_origins=cors_origins,
        pacer_utilisation=pacer_utilisation,
        timing_requests=timing_requests,
        ledger=ledger,
        rates=rates,
        price_date=price_date,
        cost_in_body=cost_in_body,
        when_full=when_full,
        when_not_entitled=when_not_entitled,
        responses_bytes=responses_bytes,
        websocket=websocket,
        websocket_limit_s=websocket_limit_s,
        websocket_deflate=websocket_deflate,
        scripts=scripts,
        tool_calls_per_turn=tool_calls_per_turn,
        keys_file=keys_file,
        api_key=api_key,
        rpm=rpm,
        tpm=tpm,
        rpd=rpd,
        max_streams=max_streams,
        replay=replay,
        replay_timing=replay_timing,
        replay_speed=replay_speed,
        replay_match=replay_match,
        replay_miss=replay_miss,
        log_level=log_level,
        access_log=access_log,
    )
    # Imported here so that the other commands start without the server.
    from paceline.runtime.ledger.database import LedgerError  # noqa: PLC0415
    from paceline.serve import serve as run  # noqa: PLC0415

    try:
        run(settings)
    except (FileError, LedgerError, ScriptError) as error:
        fail(str(error))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)
