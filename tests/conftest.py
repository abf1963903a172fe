"""What every test shares: one event loop flavour, and calm settings for Hypothesis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from paceline.runtime.tokenizer import Tokenizer
from tests.live import Server, close_clients

# No deadline: a machine shared with other work is slow at times, and slowness of one example
# is no finding. Derandomized: a run that fails here fails everywhere, until someone explores
# with `pytest --hypothesis-profile=explore`.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile(
    "explore",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """Coroutine tests run on the loop that the server runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module", autouse=True)
def closed_clients() -> Iterator[None]:
    """No test file leaves a connection behind."""
    yield
    close_clients()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server process for all tests that don't need settings of their own."""
    with Server() as running:
        yield running


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """The vocabulary takes a quarter of a second to load: once for all tests."""
    return Tokenizer()
