"""A load whose amount is still open: users, a rate, or a trace's speed, as a search varies it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from paceline.core.profile import Profile
from paceline.simulation.arrivals import Drawn, TraceWorkload, Workload
from paceline.simulation.capacity import LoadKind
from paceline.simulation.run import Run, run_closed, run_open

REQUESTS, _REQUESTS_A_USER = 1000, 10
"""How many are drawn where nobody says: in all, or for each user."""


@dataclass(frozen=True, slots=True)
class Load:
    """What arrives, before its amount is settled.

    With `users` each asks again `think_s` seconds after an answer, and they begin over `ramp_s`;
    else requests come by themselves, as drawn or as the trace has them. The first `warmup` of them
    don't count.
    """

    trace: TraceWorkload | None
    drawn: Drawn
    requests: int | None
    users: int | None
    think_s: float
    ramp_s: float
    seed: int
    warmup: int

    @property
    def kind(self) -> LoadKind:
        """What a search for capacity varies."""
        if self.users is not None:
            return "users"
        return "speedup" if self.trace is not None else "rate"

    @property
    def amount(self) -> float:
        """How much of it was asked for."""
        if self.users is not None:
            return self.users
        return self.trace.speedup if self.trace is not None else self.drawn.rate or 1.0

    def workload(self, amount: float) -> Workload:
        """The requests for so many users, such a rate or speed."""
        if self.trace is not None:
            return self.trace if self.users is not None else replace(self.trace, speedup=amount)
        if self.users is None:
            return replace(self.drawn, rate=amount, requests=self.requests or REQUESTS)
        requests = self.requests or _REQUESTS_A_USER * int(amount)
        return replace(self.drawn, rate=None, requests=max(requests, int(amount)))

    def run(self, profile: Profile, amount: float) -> Run:
        """Run it."""
        workload = self.workload(amount)
        if self.users is None:
            return run_open(profile, workload, seed=self.seed, warmup=self.warmup)
        return run_closed(
            profile,
            workload,
            int(amount),
            think_s=self.think_s,
            ramp_s=self.ramp_s,
            seed=self.seed,
            warmup=self.warmup,
        )

    def describe(self, *, searched: bool = False) -> dict[str, Any]:
        """What it is, for a report; `searched` leaves out the amount, which a search varies."""
        about = self.workload(self.amount).describe()
        if self.users is not None:
            about |= {"users": self.users, "think_s": self.think_s, "ramp_s": self.ramp_s}
        if searched:
            del about[self.kind]
            if self.users is not None and self.requests is None and self.trace is None:
                about["requests"] = f"{_REQUESTS_A_USER} a user"
        return about | {"warmup": self.warmup}
