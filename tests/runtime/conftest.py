"""What is made of the vocabulary: once for all tests."""

from __future__ import annotations

import pytest

from paceline.core.profile import Engine, Limits, Output, Profile
from paceline.runtime.planner import Planner
from paceline.runtime.prompts import PromptCounter
from paceline.runtime.text import Ring
from paceline.runtime.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def ring(tokenizer: Tokenizer) -> Ring:
    return Ring(tokenizer)


@pytest.fixture(scope="session")
def small_ring(tokenizer: Tokenizer) -> Ring:
    """A ring so short that most windows go over its joint."""
    return Ring(tokenizer, tokens=150)


@pytest.fixture(scope="session")
def planner(tokenizer: Tokenizer, ring: Ring) -> Planner:
    return Planner(tokenizer, ring, PromptCounter(tokenizer))


@pytest.fixture(scope="session")
def profile() -> Profile:
    return Profile(
        name="bench",
        title="A profile for tests",
        engine=Engine(step_ms=1.0),
        limits=Limits(context_tokens=10_000, max_output_tokens=2_000),
        output=Output(tokens_p50=60.0, tokens_p90=200.0),
    )
