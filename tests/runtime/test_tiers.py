"""Which profile serves a tier that was asked for, and what the answer calls it."""

from __future__ import annotations

import pytest

from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.runtime.clock import ManualClock
from paceline.runtime.engine import LiveEngine, UnknownModelError
from paceline.runtime.profile_files import ProfileRegistry
from paceline.runtime.settings import Settings


@pytest.fixture(scope="module")
def engine() -> LiveEngine:
    return LiveEngine(Settings(), ProfileRegistry.load(), ManualClock())


@pytest.mark.parametrize(
    ("model", "tier", "profile", "served"),
    [
        ("gpt-5.6-sol", None, "gpt-5.6-sol", "default"),
        ("gpt-5.6-sol", "auto", "gpt-5.6-sol", "default"),
        ("gpt-5.6-sol", "fast", "gpt-5.6-sol-api-fast", "priority"),
        ("gpt-5.6-sol", "priority", "gpt-5.6-sol-api-fast", "priority"),
        ("gpt-5.6-sol", "ultrafast", "gpt-5.6-sol-ultrafast", "ultrafast"),
        ("gpt-5.6-sol", "flex", "gpt-5.6-sol", "flex"),
        ("gpt-5.6", "priority", "gpt-5.6-sol-api-fast", "priority"),
        ("gpt-5.6-luna", "fast", "gpt-5.6-luna-api-fast", "priority"),
        ("gpt-5.6-luna", "ultrafast", "gpt-5.6-luna", "default"),
        ("claude-opus-4-8", "fast", "claude-opus-4-8-fast", "priority"),
        ("claude-fable-5", "fast", "claude-fable-5", "default"),
        ("wafer-750", "priority", "wafer-750", "default"),
    ],
)
async def test_what_serves(
    engine: LiveEngine, model: str, tier: str | None, profile: str, served: str
) -> None:
    found = engine.profile(model, tier)
    assert found.name == profile
    prompt = ChatPrompt((Message("user", "hi"),))
    plan = await engine.plan(GenerationRequest(model, (prompt,), service_tier=tier), found)
    assert plan.tier == served


def test_an_unknown_model_has_no_tiers(engine: LiveEngine) -> None:
    with pytest.raises(UnknownModelError):
        engine.profile("nope", "fast")
    settings = Settings(accept_any_model="gpt-5.6-sol")
    lenient = LiveEngine(settings, engine.registry, ManualClock())
    assert lenient.profile("nope", "fast").name == "gpt-5.6-sol-api-fast"
