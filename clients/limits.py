"""The limits that clients are put under, and what each client is to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from limits_stage import (
    FAST,
    KEY,
    MODEL,
    Before,
    Stage,
    hold,
    never,
    nothing,
    one_arrived,
    one_refused,
    spend_all,
    spend_requests,
    spend_tokens,
    tapped,
)
from limits_tap import Exchange

from paceline import testing
from paceline.core.profile import Profile, Tenants
from paceline.runtime.profile_files import load_profiles, shipped_folder

WRONG_KEY = "sk-of-nobody"
_RELEASE_AFTER_S = 0.5
_QUEUED_S = 1.5

End = Literal["waits", "stops", "downgraded", "queued", "goes on waiting"]
"""What a client does. `waits`: it is refused, waits as told, and has its answer. `stops`: it says
what is wrong and ends. `downgraded`: the default tier serves it, and nobody refuses it. `queued`:
it is served when there is a slot. `goes on waiting`: it waits as told, longer than anybody here has
patience for."""


@dataclass(frozen=True)
class Limit:
    """A limit: what the client's key may do, what has happened before, and what is to come."""

    name: str
    end: End
    key: str = ""
    """The lines of its table in the keys file; `{tpm}` is the client's."""
    before: Before = nothing
    with_key: str = KEY
    tier: bool = False
    """Whether the client asks for the tier `priority`, or where it can't for that tier's model."""
    one_slot: bool = False
    """Whether that tier has a real engine, of one slot; else all answers come at once."""
    unlike: Mapping[str, End] = field(default_factory=dict)
    """Clients with another end."""
    words: str = ""
    """What the client's own words must match where it stops."""
    code: str = ""
    """The error's code where it stops; Anthropic's errors have none."""

    def end_of(self, client: str) -> End:
        """What a client must do."""
        return self.unlike.get(client, self.end)


def keys_file(limit: Limit, folder: Path, tokens_a_minute: int = 120_000) -> Path:
    """A file with the client's key alone."""
    path = folder / "keys.toml"
    digest = sha256(KEY.encode()).hexdigest()
    lines = limit.key.replace("{tpm}", str(tokens_a_minute))
    path.write_text(f'[[keys]]\nname = "limited"\nsha256 = "{digest}"\n{lines}\n', "utf-8")
    return path


@contextmanager
def staged(limit: Limit, folder: Path, tokens_a_minute: int = 120_000) -> Iterator[Stage]:
    """A server with a limit in force and whatever comes before it done."""
    with testing.serve(
        MODEL,
        profiles=_profiles() if limit.one_slot else (),
        instant=not limit.one_slot,
        keys_file=keys_file(limit, folder, tokens_a_minute),
    ) as server:
        stage = Stage(server, tapped(server), tokens_a_minute)
        with limit.before(stage):
            # What `before` sent is no doing of the client's.
            stage.tap.clear()
            yield stage


def _profiles() -> tuple[Profile, ...]:
    """The model at once, and its fast tier as one slot of 500 tokens a second."""
    shipped = {profile.name: profile for profile in load_profiles([shipped_folder()])}
    fast = shipped[FAST]
    engine = replace(fast.engine, replicas=1, max_num_seqs=1, step_ms=2.0, step_ms_per_seq=0.0)
    overhead = replace(fast.overhead, api_ms_p50=20.0, api_ms_p90=20.0)
    return (
        replace(shipped[MODEL], kind="instant"),
        replace(fast, engine=engine, overhead=overhead, tenants=Tenants()),
    )


_LONG = {"headers": {"X-Paceline-Rate": "20"}}
"""An answer on a clock of its own, slow enough to outlast a client; it takes no tier's slot."""

_WHEN_FULL: tuple[tuple[str, End, Callable[[Sequence[Exchange]], bool], float], ...] = (
    ("queue", "queued", one_arrived, _QUEUED_S),
    ("default", "downgraded", never, 0.0),
    ("refuse", "waits", one_refused, _RELEASE_AFTER_S),
)
_USED_UP = "usage limit"
_SPENT = r"[Qq]uota|[Cc]redit balance is too low"

LIMITS = (
    Limit("requests a minute", "waits", "rpm = 12", spend_requests(12)),
    Limit("tokens a minute", "waits", "tpm = {tpm}", spend_tokens),
    Limit(
        "requests a day",
        "stops",
        "rpd = 1",
        spend_requests(1),
        unlike=dict.fromkeys(("Codex, SSE", "Codex, WebSocket"), "goes on waiting"),
        words=r"requests per day \(RPD\)",
        code="rate_limit_exceeded",
    ),
    Limit(
        "concurrent streams",
        "waits",
        "max_streams = 1",
        hold(one_refused, _RELEASE_AFTER_S, 5000, **_LONG),
    ),
    *(
        Limit(
            name,
            "stops",
            f'{key} = 40\nplan_type = "plus"',
            spend_all,
            words=_USED_UP,
            code="usage_limit_reached",
        )
        for name, key in (
            ("5-hour window", "window_5h_credits"),
            ("weekly window", "window_week_credits"),
        )
    ),
    *(
        Limit(name, "stops", key, spend_all, words=_SPENT, code="insufficient_quota")
        for name, key in (
            ("budget in dollars", "budget_usd = 2"),
            ("prepaid credits", "prepaid_credits = 40"),
        )
    ),
    Limit(
        "wrong key",
        "stops",
        with_key=WRONG_KEY,
        words="Incorrect API key",
        code="invalid_api_key",
    ),
    Limit(
        "tier not entitled, `default`",
        "downgraded",
        'tiers = []\nwhen_not_entitled = "default"',
        tier=True,
    ),
    Limit(
        "tier not entitled, `refuse`",
        "stops",
        'tiers = []\nwhen_not_entitled = "refuse"',
        tier=True,
        words="may not use service tier priority",
        code="tier_not_entitled",
    ),
    *(
        Limit(
            f"tier full, `{policy}`",
            end,
            f'when_full = "{policy}"',
            hold(until, after_s, 20_000, service_tier="priority"),
            tier=True,
            one_slot=True,
        )
        for policy, end, until, after_s in _WHEN_FULL
    ),
)
