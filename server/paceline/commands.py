"""Every command beside `serve`, brought together for the command line."""

from __future__ import annotations

from paceline import keys_command, profiles_command, simulate_command
from paceline.cli import app
from paceline.cost_command import cost
from paceline.economics_command import economics
from paceline.fit.fit_command import fit
from paceline.race.command import race
from paceline.record_command import record
from paceline_loadtest.command import app as loadtest


def register() -> None:
    """Add the commands to the app."""
    app.command()(cost)
    app.command()(economics)
    app.command()(fit)
    app.command()(race)
    app.command()(record)
    app.add_typer(keys_command.app, name="keys")
    app.add_typer(loadtest, name="loadtest")
    app.add_typer(profiles_command.app, name="profiles")
    app.add_typer(simulate_command.app, name="simulate")
