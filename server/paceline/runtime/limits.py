"""Rate limits: token buckets, one set for each API key and model. Time is an argument.

A bucket holds a minute's worth and is refilled continuously, a limit of 60 by one a second. So in
any minute no more than twice the limit can pass, and only after a pause: what a full bucket holds
and what flows in meanwhile. All arithmetic is in whole numbers: a wait that is told is exact.

A request is let in when there is room for the most it may use (prompt and asked output), and pays
for what its answer will come to, which its plan knows; so nothing has to be paid back later. One
that is refused pays nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MINUTE_NS = 60_000_000_000
_SWEEP_FROM = 1024
"""Accounts from which on those that are full and idle are forgotten."""

LimitName = Literal["requests", "tokens", "streams"]


class Bucket:
    """So many units a minute; full at first.

    Inside, a unit counts 60e9: a nanosecond brings exactly `limit` of those.
    """

    __slots__ = ("_at_ns", "_level", "limit")

    def __init__(self, limit: int, now_ns: int) -> None:
        """`limit` is at least 1."""
        self.limit = limit
        self._level = limit * MINUTE_NS
        self._at_ns = now_ns

    def _refill(self, now_ns: int) -> None:
        if now_ns > self._at_ns:
            gained = (now_ns - self._at_ns) * self.limit
            self._level = min(self._level + gained, self.limit * MINUTE_NS)
            self._at_ns = now_ns

    def remaining(self, now_ns: int) -> int:
        """Whole units that are there."""
        self._refill(now_ns)
        return self._level // MINUTE_NS

    def wait_ns(self, units: int, now_ns: int) -> int:
        """How long until so many are there if nobody else takes any: 0 when they are.

        For more than the limit it is the time until the bucket is full, which is no help.
        """
        self._refill(now_ns)
        missing = min(units, self.limit) * MINUTE_NS - self._level
        return -(-missing // self.limit) if missing > 0 else 0

    def full_in_ns(self, now_ns: int) -> int:
        """How long until it is full if nobody takes any."""
        return self.wait_ns(self.limit, now_ns)

    def take(self, units: int, now_ns: int) -> None:
        """Take units, which have to be there."""
        self._refill(now_ns)
        assert units * MINUTE_NS <= self._level, "looked at before"
        self._level -= units * MINUTE_NS


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


class Account:
    """The buckets of one API key and model; a limit that is 0 has none."""

    __slots__ = ("max_streams", "requests", "streams", "tokens")

    def __init__(self, rpm: int, tpm: int, max_streams: int, now_ns: int) -> None:
        self.requests = Bucket(rpm, now_ns) if rpm else None
        self.tokens = Bucket(tpm, now_ns) if tpm else None
        self.max_streams = max_streams
        self.streams = 0

    def idle(self, now_ns: int) -> bool:
        """Whether a new account would be just like it."""
        buckets = (self.requests, self.tokens)
        return not self.streams and not any(b and b.full_in_ns(now_ns) for b in buckets)

    def refusal(self, most_tokens: int, now_ns: int) -> Refusal | None:
        """What stands against a request that may use so many tokens; of several the longest."""
        found: Refusal | None = None
        asked: tuple[tuple[LimitName, Bucket | None, int], ...] = (
            ("requests", self.requests, 1),
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
        if found is None and self.max_streams and self.streams >= self.max_streams:
            return Refusal("streams", self.max_streams, self.streams, 1, None)
        return found

    def take(self, tokens: int, now_ns: int) -> None:
        """A request comes in: it pays, and is under way until `Admission.end`."""
        if self.requests is not None:
            self.requests.take(1, now_ns)
        if self.tokens is not None:
            self.tokens.take(tokens, now_ns)
        self.streams += 1


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
            self.account.streams -= 1


class Limits:
    """The accounts of everybody; requests without a key share one."""

    def __init__(self, rpm: int = 0, tpm: int = 0, max_streams: int = 0) -> None:
        """Requests and tokens a minute, and answers at once; 0 switches a limit off."""
        self._sizes = rpm, tpm, max_streams
        self._accounts: dict[tuple[str, str], Account] = {}
        self._sweep_at = _SWEEP_FROM

    def __bool__(self) -> bool:
        """Whether anything is limited."""
        return any(self._sizes)

    def __len__(self) -> int:
        return len(self._accounts)

    def account(self, key_id: str, model: str, now_ns: int) -> Account:
        """A key's account for a model."""
        found = self._accounts.get((key_id, model))
        if found is None:
            if len(self._accounts) >= self._sweep_at:
                self._sweep(now_ns)
            found = self._accounts[key_id, model] = Account(*self._sizes, now_ns)
        return found

    def _sweep(self, now_ns: int) -> None:
        """Forget the accounts that a new one would be just like: keys are anybody's invention."""
        self._accounts = {k: a for k, a in self._accounts.items() if not a.idle(now_ns)}
        self._sweep_at = max(2 * len(self._accounts), _SWEEP_FROM)
