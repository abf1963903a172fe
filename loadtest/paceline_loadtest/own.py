"""A server of the load test's own, for as long as it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from paceline.race.own_server import ServerError
from paceline.race.own_server import own_server as start
from paceline_loadtest.errors import LoadTestError


@contextmanager
def own_server(models: Sequence[str], profiles: Sequence[Path]) -> Iterator[str]:
    """Start a server with every profile, and those given; gives its base URL.

    Raises LoadTestError if it isn't ready in time.
    """
    try:
        with start(models, profiles) as url:
            yield url
    except ServerError as error:
        raise LoadTestError(str(error)) from error
