"""What can be asked of a ledger, whatever it is kept in, and the shapes of the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from paceline.runtime.ledger.rows import joined
from paceline.runtime.ledger.schema import WIDTHS_S

Dimension = Literal["key_id", "model", "billed_as", "profile", "tier_served", "endpoint", "state"]
"""What sums can be grouped by."""
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

_SECOND_US = 1_000_000
FOREVER_US = 10**7 * 86_400 * _SECOND_US
"""The end of a span that has none: a whole number of days, so that rollups reach it."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries; None is any. Moments are when a request was let in, `until_us` exclusive.

    `models` match the model as it was asked for and as it is billed; `but_endpoints` are left out.
    """

    key_ids: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    tiers: tuple[str, ...] | None = None
    states: tuple[str, ...] | None = None
    endpoints: tuple[str, ...] | None = None
    but_endpoints: tuple[str, ...] | None = None
    request_id: str | None = None
    since_us: int | None = None
    until_us: int | None = None

    def takes(self, series: Sequence[str]) -> bool:
        """Whether rows of a series match, by its values in the order of DIMENSIONS."""
        key_id, model, billed_as, _, tier, endpoint, state = series
        return (
            (self.key_ids is None or key_id in self.key_ids)
            and (self.models is None or model in self.models or billed_as in self.models)
            and (self.tiers is None or tier in self.tiers)
            and (self.states is None or state in self.states)
            and (self.endpoints is None or endpoint in self.endpoints)
            and (self.but_endpoints is None or endpoint not in self.but_endpoints)
        )


ANY = Filter()


class Line(NamedTuple):
    """One entry as it is kept; amounts in thousandths and the pico left, None where unpublished."""

    seq: int
    id: str
    request_id: str
    key_id: str
    model: str
    billed_as: str
    profile: str
    tier_asked: str
    tier_served: str
    endpoint: str
    stream: int
    state: str
    finish_reason: str | None
    created_us: int
    ended_us: int
    prompt_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    usd_milli: int | None
    usd_pico: int | None
    credits_milli: int | None
    credits_pico: int | None
    ttft_ns: int | None
    queue_ns: int | None
    prefill_ns: int | None
    decode_ns: int | None
    total_ns: int | None

    @property
    def usd(self) -> int | None:
        """In pico."""
        if self.usd_milli is None or self.usd_pico is None:
            return None
        return joined(self.usd_milli, self.usd_pico)

    @property
    def credits(self) -> int | None:
        """In pico."""
        if self.credits_milli is None or self.credits_pico is None:
            return None
        return joined(self.credits_milli, self.credits_pico)


@dataclass(frozen=True, slots=True)
class Sums:
    """Entries added up. Amounts are in pico, without the requests whose price isn't published."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    usd: int = 0
    usd_unknown: int = 0
    credits: int = 0
    credits_unknown: int = 0

    @property
    def tokens(self) -> int:
        """Of all kinds."""
        return self.prompt_tokens + self.completion_tokens

    @classmethod
    def of(cls, row: Sequence[int]) -> Sums:
        """From a row of the schema's sums."""
        requests, prompt, cached, written, output, reasoning = row[:6]
        usd_milli, usd_pico, usd_unknown, milli, pico, unknown = row[6:]
        usd, credit = joined(usd_milli, usd_pico), joined(milli, pico)
        return cls(
            requests, prompt, cached, written, output, reasoning, usd, usd_unknown, credit, unknown
        )

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.completion_tokens + other.completion_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.usd + other.usd,
            self.usd_unknown + other.usd_unknown,
            self.credits + other.credits,
            self.credits_unknown + other.credits_unknown,
        )


class Group(NamedTuple):
    """Sums of the entries that share the values that were grouped by, in a bucket's span."""

    start_s: int
    values: tuple[str, ...]
    sums: Sums


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in the list of entries: all that are older come after it."""

    created_us: int
    seq: int


def cover(since_us: int, until_us: int) -> Iterator[tuple[int | None, int, int]]:
    """A span of time in pieces: the widest rollups that fit, and single entries at its ends.

    Each is (width, first start, end) in seconds, or (None, start, end) in microseconds.
    """
    yield from _within(since_us, until_us, [width * _SECOND_US for width in reversed(WIDTHS_S)])


def _within(
    since_us: int, until_us: int, widths_us: list[int]
) -> Iterator[tuple[int | None, int, int]]:
    if since_us >= until_us:
        return
    if not widths_us:
        yield None, since_us, until_us
        return
    width, *narrower = widths_us
    first, last = -(-since_us // width) * width, until_us // width * width
    if first >= last:
        yield from _within(since_us, until_us, narrower)
        return
    yield from _within(since_us, first, narrower)
    yield width // _SECOND_US, first // _SECOND_US, last // _SECOND_US
    yield from _within(last, until_us, narrower)
