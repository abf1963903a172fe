"""Which profile serves a tier that was asked for, what the answer calls it, and at what price."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.core.ledger import Amount
from paceline.core.profile import Profile
from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.core.usage import Usage
from paceline.runtime.clock import ManualClock
from paceline.runtime.engine import LiveEngine
from paceline.runtime.keys import Caller, WhenFull, WhenNotEntitled
from paceline.runtime.price_book import PriceBook
from paceline.runtime.profile_files import ProfileRegistry
from paceline.runtime.settings import Settings
from paceline.runtime.tiers import TierRefusedError, Tiers, UnknownModelError

REGISTRY = ProfileRegistry.load()
BOOK = PriceBook.load(day="2026-09-01")
SOL, FAST, ULTRA = "gpt-5.6-sol", "gpt-5.6-sol-api-fast", "gpt-5.6-sol-ultrafast"
MILLION = Usage(0, 1_000_000)
"""A million output tokens: the bill is the rate itself."""


def usd(dollars: float) -> int:
    return round(dollars * 10**12)


def tiers(
    full: tuple[str, ...] = (),
    when_full: WhenFull = "queue",
    when_not_entitled: WhenNotEntitled = "default",
) -> Tiers:
    def room(profile: Profile, sequences: int) -> bool:
        assert sequences == 1
        return profile.name not in full

    return Tiers(
        REGISTRY, BOOK, room=room, when_full=when_full, when_not_entitled=when_not_entitled
    )


@pytest.mark.parametrize(
    ("model", "tier", "profile", "served", "cost"),
    [
        (SOL, None, SOL, "default", Amount(usd(20), usd(500))),
        (SOL, "auto", SOL, "default", Amount(usd(20), usd(500))),
        (SOL, "scale", SOL, "default", Amount(usd(20), usd(500))),
        (SOL, "fast", FAST, "priority", Amount(usd(40), usd(1250))),
        (SOL, "priority", FAST, "priority", Amount(usd(40), usd(1250))),
        (SOL, "ultrafast", ULTRA, "ultrafast", Amount(usd(120), None)),
        (SOL, "flex", "gpt-5.6-sol-flex", "flex", Amount(usd(10), None)),
        ("gpt-5.6", "priority", FAST, "priority", Amount(usd(40), usd(1250))),
        # Named by itself a profile is what it sells, in the unit in which it sells it.
        (FAST, None, FAST, "priority", Amount(usd(40), None)),
        (FAST, "ultrafast", FAST, "priority", Amount(usd(40), None)),
        (
            "gpt-5.6-sol-codex-fast",
            None,
            "gpt-5.6-sol-codex-fast",
            "priority",
            Amount(None, usd(1250)),
        ),
        (ULTRA, "default", ULTRA, "ultrafast", Amount(usd(120), None)),
        # One deployment, two prices.
        ("gpt-5.6-terra", "flex", "gpt-5.6-terra", "flex", Amount(usd(6), None)),
        ("gpt-5.6-luna", "fast", "gpt-5.6-luna-api-fast", "priority", Amount(usd(2.4), usd(75))),
        ("gpt-5.6-luna", "ultrafast", "gpt-5.6-luna", "default", Amount(usd(1.2), usd(30))),
        ("claude-opus-4-8", "fast", "claude-opus-4-8-fast", "priority", Amount(usd(50), None)),
        ("claude-fable-5", "fast", "claude-fable-5", "default", Amount(usd(50), None)),
        ("gpt-5.3-codex-spark", None, "gpt-5.3-codex-spark", "default", Amount(None, None)),
        ("wafer-750", "priority", "wafer-750", "default", Amount(None, None)),
    ],
)
def test_what_serves_and_what_for(
    model: str, tier: str | None, profile: str, served: str, cost: Amount
) -> None:
    found = tiers().choose(model, tier)
    assert (found.profile.name, found.served) == (profile, served)
    assert found.asked == (tier or "auto")
    assert found.sale.cost(MILLION) == cost


def test_auto_is_what_the_key_has_for_it() -> None:
    caller = Caller(default_tier="priority")
    for asked in (None, "auto"):
        found = tiers().choose(SOL, asked, caller)
        assert (found.asked, found.served) == ("auto", "priority")
    assert tiers().choose(SOL, "default", caller).served == "default"
    assert tiers().choose("wafer-750", None, caller).served == "default"


@pytest.mark.parametrize("model", [SOL, ULTRA])
def test_a_tier_that_the_key_may_not_use(model: str) -> None:
    caller = Caller(tiers=frozenset({"priority"}))
    found = tiers().choose(model, "ultrafast", caller)
    assert (found.profile.name, found.asked, found.served) == (SOL, "ultrafast", "default")
    assert found.sale.cost(MILLION) == Amount(usd(20), usd(500))
    with pytest.raises(TierRefusedError) as refused:
        tiers(when_not_entitled="refuse").choose(model, "ultrafast", caller)
    assert (refused.value.why, refused.value.tier) == ("not_entitled", "ultrafast")
    own = Caller(tiers=frozenset(), when_not_entitled="refuse")
    with pytest.raises(TierRefusedError):
        tiers().choose(model, "ultrafast", own)
    # What a model doesn't have needs no entitlement.
    assert tiers().choose("gpt-5.6-luna", "ultrafast", own).served == "default"


def test_a_profile_that_is_no_models_tier_has_nothing_to_fall_back_to() -> None:
    with pytest.raises(TierRefusedError):
        tiers().choose("gpt-5.6-sol-codex-fast", None, Caller(tiers=frozenset()))


@pytest.mark.parametrize("model", [SOL, ULTRA])
def test_a_tier_without_room(model: str) -> None:
    full = (ULTRA,)
    assert tiers(full).choose(model, "ultrafast").served == "ultrafast"
    found = tiers(full, when_full="default").choose(model, "ultrafast")
    assert (found.profile.name, found.served) == (SOL, "default")
    assert found.sale.cost(MILLION) == Amount(usd(20), usd(500))
    with pytest.raises(TierRefusedError) as refused:
        tiers(full, when_full="refuse").choose(model, "ultrafast")
    assert (refused.value.why, refused.value.tier) == ("full", "ultrafast")
    # The key's own word counts before the server's.
    patient = Caller(when_full="queue")
    assert tiers(full, when_full="refuse").choose(model, "ultrafast", patient).served == "ultrafast"


def test_the_default_tier_without_room_waits_unless_it_is_to_be_refused() -> None:
    assert tiers((SOL,), when_full="default").choose(SOL).profile.name == SOL
    with pytest.raises(TierRefusedError):
        tiers((SOL,), when_full="refuse").choose(SOL)


def test_an_unknown_model_has_no_tiers() -> None:
    with pytest.raises(UnknownModelError):
        tiers().choose("nope", "fast")
    lenient = Tiers(REGISTRY, BOOK, accept_any_model=SOL)
    assert lenient.choose("nope", "fast").profile.name == FAST


async def test_a_plan_says_what_serves_it() -> None:
    engine = LiveEngine(Settings(), REGISTRY, ManualClock())
    prompt = ChatPrompt((Message("user", "hi"),))
    request = GenerationRequest(SOL, (prompt,), service_tier="fast")
    plan = await engine.plan(request, engine.tiers.choose(SOL, "fast"))
    assert (plan.tier, plan.profile.name) == ("priority", FAST)


def test_the_day_moves_on() -> None:
    now_s = [1_787_183_999.0]  # a second before 20 August 2026 is over
    cards = BOOK._book.cards.values()
    book = PriceBook(cards, clock_s=lambda: now_s[0])
    assert book.sale(SOL, SOL).cost(MILLION).usd == usd(30)
    now_s[0] += 1
    assert book.sale(SOL, SOL).cost(MILLION).usd == usd(30)
    now_s[0] += 86_400
    sale = book.sale(SOL, SOL)
    assert sale.cost(MILLION).usd == usd(20)
    assert sale.since == "2026-08-21"
    # The clock had been wrong.
    now_s[0] -= 86_400
    assert book.sale(SOL, SOL).cost(MILLION).usd == usd(30)


def test_invented_profiles_fill_no_memory() -> None:
    book = PriceBook(BOOK._book.cards.values(), "2026-08-21")
    for rate in range(1, 5000):
        assert book.sale(f"flat-{rate}", f"flat-{rate}").model == ""
    assert len(book._sales) <= 1024
    assert book.sale(SOL, SOL).model == SOL


def test_a_card_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'model = "mine"\ntitle = "x"\n[profiles]\n"gpu-40" = { tier = "default" }\n'
        "[[cards]]\nusd = { input = 1, output = 3 }\n"
        '[cards.sources]\nusd = { class = "official", from = "the invoice" }\n',
        "utf-8",
    )
    sale = PriceBook.load([file]).sale("gpu-40", "gpu-40")
    assert (sale.model, sale.cost(MILLION)) == ("mine", Amount(usd(3), None))
