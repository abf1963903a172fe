"""What the tests of the command share."""

from __future__ import annotations

import pytest

from paceline import commands
from paceline.cli import app


@pytest.fixture(scope="session")
def commands_registered() -> None:
    """The command line knows all its commands; registering twice would list them twice."""
    names = {command.callback.__name__ for command in app.registered_commands if command.callback}
    if "fit" not in names:
        commands.register()
