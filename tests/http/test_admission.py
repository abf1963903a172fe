"""Letting a request in while the ledger takes its time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.core.ledger import FREE, Hold, Shortage, Terms
from paceline.http.admission import Entrance
from paceline.runtime.admission import NoLedger
from paceline.runtime.caller import Caller
from paceline.runtime.limits import Limits
from paceline.wire.errors import ApiError

SERVICE: Any = SimpleNamespace(
    profile=SimpleNamespace(name="p"),
    sale=SimpleNamespace(model=""),
    asked="auto",
    served="default",
)


class Slow(NoLedger):
    """Something happens between the question and the answer."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile = meanwhile
        self.released: list[Hold] = []

    async def hold(self, hold: Hold, terms: Terms) -> Shortage | None:
        self.meanwhile()
        return await super().hold(hold, terms)

    def release(self, hold: Hold) -> None:
        self.released.append(hold)


async def test_an_account_that_was_forgotten_meanwhile_counts_all_the_same() -> None:
    limits = Limits(max_streams=1)
    ledger = Slow(lambda: limits._sweep(0))
    counters = SimpleNamespace(held=lambda _: None, let_go=lambda _: None)
    engine: Any = SimpleNamespace(
        clock=SimpleNamespace(now_ns=lambda: 0),
        limits=limits,
        ledger=ledger,
        profile_metrics=lambda _profile, _tier: counters,
    )

    async def let_in(name: str) -> Any:
        entrance = Entrance(engine, Caller("k"), "openai", "/v1/x", name, name)
        return await entrance.admit(SERVICE, model="p", stream=True, most=FREE, tokens=(1, 1))

    first = await let_in("first")
    with pytest.raises(ApiError, match="concurrent requests"):
        await let_in("second")
    first.release()
    (await let_in("third")).release()
    assert [hold.id for hold in ledger.released] == ["first", "third"]


async def test_who_comes_in_meanwhile_is_counted_and_the_hold_given_back() -> None:
    limits = Limits(rpm=1)

    def another() -> None:
        account = limits.account(Caller("k"), "p", "default", 0)
        assert account is not None
        account.take(1, 0)

    ledger = Slow(another)
    engine: Any = SimpleNamespace(
        clock=SimpleNamespace(now_ns=lambda: 0), limits=limits, ledger=ledger
    )
    entrance = Entrance(engine, Caller("k"), "openai", "/v1/x", "r", "a")
    with pytest.raises(ApiError, match="requests per min"):
        await entrance.admit(SERVICE, model="p", stream=True, most=FREE, tokens=(1, 1))
    assert [hold.id for hold in ledger.released] == ["a"]
