"""What a client did under a limit, told from what passed over the wire, and whether it is right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from limits import Limit
from limits_clients import Client, Ran
from limits_tap import Exchange

_QUEUED_MS = 100.0
_CLOSE_S = 0.005
"""How much too early a retry may seem: told waits are whole milliseconds, rounded up."""


class WrongError(AssertionError):
    """A client, or the server, did something else than it should."""


@dataclass(frozen=True)
class Wait:
    """A refusal that told a wait, and how long it was until the request came again."""

    told_s: float
    waited_s: float


def is_prewarm(exchange: Exchange) -> bool:
    """Whether it is Codex's frame that asks for no answer, and is never sent again."""
    return b'"generate":false' in exchange.body.replace(b" ", b"")


def waits(exchanges: Sequence[Exchange]) -> list[Wait]:
    """Each refusal with a wait and the next request after it, which is the same one again."""
    real = [exchange for exchange in exchanges if not is_prewarm(exchange)]
    found = []
    for refused, again in pairwise(real):
        if refused.refused and refused.told_s is not None and refused.answered_s is not None:
            found.append(Wait(refused.told_s, again.arrived_s - refused.answered_s))
    return found


def judge(
    limit: Limit,
    client: Client,
    ran: Ran,
    exchanges: Sequence[Exchange],
    records: Sequence[Mapping[str, Any]],
) -> str:
    """What the client did, in a few words. Raises WrongError where it should have done else.

    `records` are the server's own of the client's answers.
    """
    end = limit.end_of(client.name)
    seen = waits(exchanges)
    for wait in seen:
        _need(
            wait.waited_s >= wait.told_s - _CLOSE_S,
            f"it came again after {wait.waited_s:.3f} s and was told {wait.told_s:.3f} s",
        )
    refused = [exchange for exchange in exchanges if exchange.refused]
    if end == "goes on waiting":
        _need(ran.stopped, f"it didn't wait: {ran.said!r}")
        _need(not seen, "it came again")
        (last,) = [exchange for exchange in refused if not is_prewarm(exchange)]
        return f"told {_s(last.told_s)}, says nothing and waits (stopped after {ran.seconds:.0f} s)"
    _need(not ran.stopped, f"no end after {ran.seconds:.0f} s")
    if end == "stops":
        return _stops(limit, client, ran, refused)
    _need(ran.succeeded, f"it has no answer: {ran.said!r}")
    if end == "waits":
        _need(seen, "nothing was refused")
        told = ", ".join(f"told {_s(w.told_s)}, waited {w.waited_s:.1f} s" for w in seen)
        return f"{told}; then answered"
    _need(not refused, f"{len(refused)} requests were refused")
    return _served(end, records)


def _stops(limit: Limit, client: Client, ran: Ran, refused: Sequence[Exchange]) -> str:
    _need(not ran.succeeded, "it has an answer")
    _need(refused, "nothing was refused")
    _need(re.search(limit.words, ran.said), f"it says {ran.said!r}")
    codes = {exchange.error.get("code") for exchange in refused}
    wanted = {None} if client.tier is None else {limit.code}
    _need(codes == wanted, f"the errors' codes are {codes}")
    tries = len(refused)
    over = refused[-1].arrived_s - refused[0].arrived_s
    often = "at once" if tries == 1 else f"after {tries} tries in {over:.1f} s"
    return f"{refused[-1].status}: stops {often}"


def _served(end: str, records: Sequence[Mapping[str, Any]]) -> str:
    tiers = {record["service_tier"] for record in records}
    if end == "downgraded":
        _need(tiers == {"default"}, f"it was served as {tiers}")
        return "answered, as `default`"
    _need(tiers == {"priority"}, f"it was served as {tiers}")
    queued = [record["split_ms"]["queue"] or 0.0 for record in records]
    _need(max(queued) > _QUEUED_MS, f"it queued for {queued} ms")
    return f"waits in the server's queue for {max(queued) / 1000:.1f} s; then answered"


def _s(seconds: float | None) -> str:
    return "nothing" if seconds is None else f"{seconds:,.1f} s"


def _need(holds: object, message: str) -> None:
    if not holds:
        raise WrongError(message)
