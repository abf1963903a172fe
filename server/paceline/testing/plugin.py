"""pytest's side: the fixture `paceline_server`, the marker `paceline`, and a factory.

pytest finds this module by its entry point; `pytest_plugins = ["paceline.testing.plugin"]` says
the same by hand. It imports the server only when a test asks for one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from paceline.testing.server import TestServer

MARKER = "paceline"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(profile, script=..., speed=..., instant=..., **settings): "
        "how the fixture paceline_server is started; see paceline.testing.serve",
    )


@pytest.fixture
def paceline_serve() -> Iterator[Callable[..., TestServer]]:
    """Starts servers, with the arguments of `paceline.testing.serve`; they end with the test."""
    from paceline.testing.server import serve  # noqa: PLC0415 - only for tests that want one

    with contextlib.ExitStack() as stack:

        def start(*args: Any, **options: Any) -> TestServer:
            return stack.enter_context(serve(*args, **options))

        yield start


@pytest.fixture
def paceline_server(
    request: pytest.FixtureRequest, paceline_serve: Callable[..., TestServer]
) -> TestServer:
    """A server of the test's own, as the marker `paceline` says; without one it is instant.

    Markers on a module, a class and a test add up, the nearest having the last word.
    """
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(MARKER))):
        args = mark.args or args
        options.update(mark.kwargs)
    return paceline_serve(*args, **options)
