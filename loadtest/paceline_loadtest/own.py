"""A server of the load test's own, for as long as it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from paceline.race.own_server import ServerError
from paceline.race.own_server import own_server as start
from paceline_loadtest.errors import LoadTestError

_TIMING_REQUESTS = "PACELINE_TIMING_REQUESTS"
_KEPT = "100000"
"""Requests whose times the server keeps: they are read when the run is over."""


@contextmanager
def own_server(models: Sequence[str], profiles: Sequence[Path]) -> Iterator[str]:
    """Start a server with every profile, and those given; gives its base URL.

    Raises LoadTestError if it isn't ready in time.
    """
    before = os.environ.get(_TIMING_REQUESTS)
    os.environ.setdefault(_TIMING_REQUESTS, _KEPT)
    try:
        started = start(models, profiles)
        url = started.__enter__()
    except ServerError as error:
        raise LoadTestError(str(error)) from error
    finally:
        if before is None:
            del os.environ[_TIMING_REQUESTS]
    try:
        yield url
    finally:
        started.__exit__(None, None, None)
