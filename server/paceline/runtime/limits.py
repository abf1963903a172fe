"""Rate limits: token buckets, one set for each API key, model and tier. Time is an argument.

A bucket holds a period's worth (a minute's, a day's) and is refilled continuously, a limit of 60 a
minute by one a second. So in any period no more than twice the limit can pass, and only after a
pause: what a full bucket holds and what flows in meanwhile. All arithmetic is in whole numbers: a
wait that is told is exact.

A request is let in when there is room for the most it may use (prompt and asked output), and pays
for what its answer will come to, which its plan knows; so nothing has to be paid back later. One
that is refused pays nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from paceline.runtime.caller import Caller

MINUTE_NS = 60_000_000_000
DAY_NS = 86_400_000_000_000
_SWEEP_FROM = 1024
"""Accounts from which on those that are full and idle are forgotten."""

LimitName = Literal["requests", "requests_per_day", "tokens", "streams"]


class Sizes(NamedTuple):
    """What a caller may do with one model at one tier; 0 is no limit."""

    rpm: int = 0
    """Requests a minute."""
    tpm: int = 0
    """Tokens a minute, prompt and output together."""
    rpd: int = 0
    """Requests a day."""
    max_streams: int = 0
    """Answers under way at once."""


class OwnSizes(NamedTuple):
    """A key's own limits; None leaves one to the server's setting, 0 is no limit."""

    rpm: int | None = None
    tpm: int | None = None
    rpd: int | None = None
    max_streams: int | None = None

    def over(self, others: Sizes) -> Sizes:
        """These, and where there is none that of the others."""
        pairs = zip(self, others, strict=True)
        return Sizes(*(other if own is None else own for own, other in pairs))

    def before(self, others: OwnSizes) -> OwnSizes:
        """These, and where there is none that of the others, which may have none either."""
        pairs = zip(self, others, strict=True)
        return OwnSizes(*(other if own is None else own for own, other in pairs))


NO_OWN_SIZES = OwnSizes()


class Bucket:
    """So many units a period; full at first.

    Inside, a unit counts as many as the period has nanoseconds: one brings exactly `limit`.
    """

    __slots__ = ("_at_ns", "_level", "limit", "period_ns")

    def __init__(self, limit: int, now_ns: int, period_ns: int = MINUTE_NS, used: int = 0) -> None:
        """`limit` is at least 1; `used` units are gone from it already."""
        self.limit = limit
        self.period_ns = period_ns
        self._level = max(limit - used, 0) * period_ns
        self._at_ns = now_ns

    def _refill(self, now_ns: int) -> None:
        if now_ns > self._at_ns:
            gained = (now_ns - self._at_ns) * self.limit
            self._level = min(self._level + gained, self.limit * self.period_ns)
            self._at_ns = now_ns

    def remaining(self, now_ns: int) -> int:
        """Whole units that are there."""
        self._refill(now_ns)
        return self._level // self.period_ns

    def wait_ns(self, units: int, now_ns: int) -> int:
        """How long until so many are there if nobody else takes any: 0 when they are.

        For more than the limit it is the time until the bucket is full, which is no help.
        """
        self._refill(now_ns)
        missing = min(units, self.limit) * self.period_ns - self._level
        return -(-missing // self.limit) if missing > 0 else 0

    def full_in_ns(self, now_ns: int) -> int:
        """How long until it is full if nobody takes any."""
        return self.wait_ns(self.limit, now_ns)

    def take(self, units: int, now_ns: int) -> None:
        """Take units, which have to be there."""
        self._refill(now_ns)
        assert units * self.period_ns <= self._level, "looked at before"
        self._level -= units * self.period_ns


@dataclass(frozen=True, slots=True)
class Refusal:
    """Which limit is reached, in its units, and how long it takes.

    `wait_ns` is None where nobody knows: a request above the limit itself never gets in, and
    when a stream ends isn't told by a clock.
    """

    limit_name: LimitName
    limit: int
    used: int
    requested: int
    wait_ns: int | None


class Running:
    """How many answers are under way; it outlives a change of the limit."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Account:
    """The buckets of one API key, model and tier; a limit that is 0 has none."""

    __slots__ = ("day", "requests", "running", "sizes", "tokens")

    def __init__(self, sizes: Sizes, now_ns: int, before: Account | None = None) -> None:
        """`before` had other sizes: what was used of them is used of these."""
        self.sizes = sizes
        old = (None, None, None) if before is None else before.buckets
        self.requests = _bucket(sizes.rpm, now_ns, MINUTE_NS, old[0])
        self.day = _bucket(sizes.rpd, now_ns, DAY_NS, old[1])
        self.tokens = _bucket(sizes.tpm, now_ns, MINUTE_NS, old[2])
        self.running: Running = Running() if before is None else before.running

    @property
    def buckets(self) -> tuple[Bucket | None, Bucket | None, Bucket | None]:
        """Requests a minute, requests a day, tokens a minute."""
        return self.requests, self.day, self.tokens

    @property
    def streams(self) -> int:
        """Answers under way."""
        return self.running.count

    def idle(self, now_ns: int) -> bool:
        """Whether a new account would be just like it."""
        return not self.streams and not any(b and b.full_in_ns(now_ns) for b in self.buckets)

    def requests_left(self, now_ns: int) -> Bucket | None:
        """Of the two buckets of requests the one that will say no first; None without either.

        It is the one with fewer whole requests left; of two alike the one that fills later.
        """
        if self.requests is None or self.day is None:
            return self.requests or self.day
        return min(
            (self.requests, self.day),
            key=lambda bucket: (bucket.remaining(now_ns), -bucket.full_in_ns(now_ns)),
        )

    def refusal(self, most_tokens: int, now_ns: int) -> Refusal | None:
        """What stands against a request that may use so many tokens; of several the longest."""
        found: Refusal | None = None
        asked: tuple[tuple[LimitName, Bucket | None, int], ...] = (
            ("requests", self.requests, 1),
            ("requests_per_day", self.day, 1),
            ("tokens", self.tokens, most_tokens),
        )
        for name, bucket, units in asked:
            if bucket is None:
                continue
            used = bucket.limit - bucket.remaining(now_ns)
            if units > bucket.limit:
                return Refusal(name, bucket.limit, used, units, None)
            wait_ns = bucket.wait_ns(units, now_ns)
            if wait_ns and (found is None or wait_ns > (found.wait_ns or 0)):
                found = Refusal(name, bucket.limit, used, units, wait_ns)
        most = self.sizes.max_streams
        if found is None and most and self.streams >= most:
            return Refusal("streams", most, self.streams, 1, None)
        return found

    def take(self, tokens: int, now_ns: int) -> None:
        """A request comes in: it pays, and is under way until `Admission.end`."""
        if self.requests is not None:
            self.requests.take(1, now_ns)
        if self.day is not None:
            self.day.take(1, now_ns)
        if self.tokens is not None:
            self.tokens.take(tokens, now_ns)
        self.running.count += 1


class Admission:
    """A request that was let in, until it ends."""

    __slots__ = ("_ended", "account")

    def __init__(self, account: Account) -> None:
        self.account = account
        self._ended = False

    def end(self) -> None:
        """Its answer is over, however. Idempotent."""
        if not self._ended:
            self._ended = True
            self.account.running.count -= 1


class Limits:
    """The accounts of everybody; requests without a key share one."""

    def __init__(self, rpm: int = 0, tpm: int = 0, max_streams: int = 0, rpd: int = 0) -> None:
        """What a key has that sets none of its own; 0 switches a limit off."""
        self.sizes = Sizes(rpm, tpm, rpd, max_streams)
        self._accounts: dict[tuple[str, str, str], Account] = {}
        self._sweep_at = _SWEEP_FROM

    def __len__(self) -> int:
        return len(self._accounts)

    def account(self, caller: Caller, model: str, tier: str, now_ns: int) -> Account | None:
        """A caller's account for a model (a profile's name) at a tier; None without any limit.

        `tier` is the one that serves, as an answer calls it.
        """
        own = caller.sizes(tier)
        sizes = self.sizes if own is NO_OWN_SIZES else own.over(self.sizes)
        if not any(sizes):
            return None
        key = caller.key_id, model, tier
        found = self._accounts.get(key)
        if found is None or found.sizes != sizes:
            if len(self._accounts) >= self._sweep_at:
                self._sweep(now_ns)
            found = self._accounts[key] = Account(sizes, now_ns, found)
        return found

    def _sweep(self, now_ns: int) -> None:
        """Forget the accounts that a new one would be just like: keys are anybody's invention."""
        self._accounts = {k: a for k, a in self._accounts.items() if not a.idle(now_ns)}
        self._sweep_at = max(2 * len(self._accounts), _SWEEP_FROM)


def _bucket(limit: int, now_ns: int, period_ns: int, before: Bucket | None) -> Bucket | None:
    used = 0 if before is None else before.limit - before.remaining(now_ns)
    return Bucket(limit, now_ns, period_ns, used) if limit else None
