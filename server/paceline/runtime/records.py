"""What happened to each request, kept for a while: what one request's own page shows.

A record is opened when a request arrives, gets one entry for every write that left for its
client, and is read as JSON. Everything is bounded: the number of finished records, and the bytes
of all timing entries together. A request that is still running is never evicted; when the budget
is spent it stops getting entries and says so. Nothing here reads a clock.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.core.ledger import Amount
from paceline.core.money import digits
from paceline.core.plan import Pieces
from paceline.core.usage import Usage

RecordState = Literal["running", "finished", "aborted", "failed"]

GRANT_ENTRIES = 512
"""Entries that a track may add before it asks the store for more room."""

ENTRY_BYTES = 20
"""Bytes of one entry: two times of 8 bytes and a count of 4."""

RECORD_BYTES = 2048
"""What a record is taken to weigh apart from its entries."""


class Track:
    """The writes of one choice, as parallel arrays; one entry is one write.

    `add` is on the token path: it costs some tenths of a microsecond.
    """

    __slots__ = (
        "_detached",
        "_due",
        "_left",
        "_room",
        "_store",
        "_tokens",
        "index",
        "pieces",
        "skipped",
    )

    def __init__(self, store: RecordStore, index: int, pieces: Pieces | None = None) -> None:
        self.index = index
        self.pieces = pieces
        self.skipped = 0
        """Writes that found no room in the store's budget."""
        self._store = store
        self._detached = False
        self._room = 0
        self._due = array("q")
        self._left = array("q")
        self._tokens = array("I")

    def __len__(self) -> int:
        return len(self._due)

    def add(self, tokens: int, due_ns: int, left_ns: int) -> None:
        """Note one write: its tokens, when the oldest of them was due, when it left."""
        room = self._room
        if not room:
            room = 0 if self._detached else self._store.grant()
            if not room:
                self.skipped += 1
                return
        self._room = room - 1
        self._due.append(due_ns)
        self._left.append(left_ns)
        self._tokens.append(tokens)

    @property
    def nbytes(self) -> int:
        """Bytes of the budget that this track holds, its unused room included."""
        return (len(self._due) + self._room) * ENTRY_BYTES

    @property
    def last_left_ns(self) -> int | None:
        """When the last noted write left."""
        return self._left[-1] if self._left else None

    @property
    def first_left_ns(self) -> int | None:
        """When the first noted write left."""
        return self._left[0] if self._left else None

    def close(self) -> int:
        """Take no more entries and give up the unused room; returns its bytes."""
        unused = self._room * ENTRY_BYTES
        self._room = 0
        self._detached = True
        return unused

    def to_json(self, origin_ns: int) -> dict[str, Any]:
        """The entries in milliseconds since `origin_ns`, with token ids where they are known."""
        chunks = []
        position = 0
        for due, left, tokens in zip(self._due, self._left, self._tokens, strict=True):
            chunk: dict[str, Any] = {
                "due_ms": _ms(due - origin_ns),
                "left_ms": _ms(left - origin_ns),
                "tokens": tokens,
            }
            if self.pieces is not None:
                end = min(position + tokens, len(self.pieces))
                chunk["token_ids"] = self.pieces.ids(min(position, end), end)
            position += tokens
            chunks.append(chunk)
        return {"index": self.index, "chunks": chunks, "chunks_not_kept": self.skipped}


@dataclass(slots=True)
class RequestRecord:
    """One request's times (nanoseconds of the pacing clock), counts and writes.

    The times follow the request's way: received by the server, arrived at the engine's queue
    (after the API layer's part), admitted to a batch, first token due, last token due. None means
    "not yet", or "never" where the request has ended.
    """

    id: str
    received_ns: int
    created_s: float
    """Unix time of the arrival, to tell people when it was."""
    endpoint: str = ""
    model: str = ""
    profile: str = ""
    tier: str = "default"
    """What served; `tier_asked` is what was asked for."""
    tier_asked: str = "auto"
    billed_as: str = ""
    """The rate card's model, "" where none sells the profile."""
    stream: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    engine_arrived_ns: int | None = None
    admitted_ns: int | None = None
    first_due_ns: int | None = None
    last_due_ns: int | None = None
    ended_ns: int | None = None
    state: RecordState = "running"
    finish_reason: str | None = None
    usage: Usage | None = None
    """What it is billed for, once it has ended."""
    cost: Amount | None = None
    tracks: list[Track] = field(default_factory=list)

    def split(self) -> dict[str, float | None]:
        """Where the time went, in milliseconds; the parts add up to the whole.

        `overhead`: API layer, before the queue. `queue`: until admitted. `prefill`: until the
        first token was due. `decode`: from the first to the last due token. `lateness`: what the
        server added, from the last due time to the end.
        """
        points = (
            self.received_ns,
            self.engine_arrived_ns,
            self.admitted_ns,
            self.first_due_ns,
            self.last_due_ns,
            self.ended_ns,
        )
        names = ("overhead", "queue", "prefill", "decode", "lateness")
        parts: dict[str, float | None] = {
            name: None if start is None or end is None else _ms(end - start)
            for name, start, end in zip(names, points[:-1], points[1:], strict=True)
        }
        parts["total"] = None if self.ended_ns is None else _ms(self.ended_ns - self.received_ns)
        return parts

    def bill(self) -> dict[str, Any] | None:
        """What it was billed, in exact digits; None before its end.

        An amount without a published rate is null.
        """
        cost, usage = self.cost, self.usage
        if cost is None or usage is None:
            return None
        return {
            "billed_as": self.billed_as or None,
            "cost_usd": None if cost.usd is None else digits(cost.usd),
            "credits": None if cost.credits is None else digits(cost.credits),
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "output_tokens": usage.completion_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
        }

    def to_json(self) -> dict[str, Any]:
        """The record for people and scripts: every time in milliseconds since the arrival."""
        origin = self.received_ns
        first_left = [t.first_left_ns for t in self.tracks if t.first_left_ns is not None]
        last_left = [t.last_left_ns for t in self.tracks if t.last_left_ns is not None]
        return {
            "id": self.id,
            "object": "paceline.request",
            "created": self.created_s,
            "received_ns": self.received_ns,
            "endpoint": self.endpoint,
            "model": self.model,
            "profile": self.profile,
            "service_tier": self.tier,
            "service_tier_asked": self.tier_asked,
            "stream": self.stream,
            "state": self.state,
            "finish_reason": self.finish_reason,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "output_tokens": self.output_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "bill": self.bill(),
            "times_ms": {
                "received": 0.0,
                "engine_arrived": _since(origin, self.engine_arrived_ns),
                "admitted": _since(origin, self.admitted_ns),
                "first_token_due": _since(origin, self.first_due_ns),
                "first_token_left": _since(origin, min(first_left, default=None)),
                "last_token_due": _since(origin, self.last_due_ns),
                "last_token_left": _since(origin, max(last_left, default=None)),
                "ended": _since(origin, self.ended_ns),
            },
            "split_ms": self.split(),
            "choices": [track.to_json(origin) for track in self.tracks],
        }


class RecordStore:
    """The records by request id: running ones, and the latest finished ones.

    `max_requests` is how many finished records stay (0: records are kept only while running);
    `max_bytes` bounds the timing entries and finished records together.
    """

    def __init__(self, max_requests: int = 1024, max_bytes: int = 64 << 20) -> None:
        if max_requests < 0 or max_bytes < 0:
            raise ValueError("max_requests and max_bytes must not be negative")
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._used = 0
        self._live: dict[str, RequestRecord] = {}
        self._ended: OrderedDict[str, RequestRecord] = OrderedDict()

    def __len__(self) -> int:
        return len(self._live) + len(self._ended)

    @property
    def live(self) -> int:
        """Records of requests that are still running."""
        return len(self._live)

    @property
    def used_bytes(self) -> int:
        """Bytes of the budget in use."""
        return self._used

    def open(self, record: RequestRecord) -> RequestRecord:
        """Keep a new record; an older one of the same id is forgotten."""
        self._forget(record.id)
        self._live[record.id] = record
        self._used += RECORD_BYTES
        return record

    def track(self, record: RequestRecord, index: int, pieces: Pieces | None = None) -> Track:
        """A track for the writes of choice `index`; the pieces give it token ids."""
        track = Track(self, index, pieces)
        record.tracks.append(track)
        return track

    def grant(self) -> int:
        """Room for a track: how many entries it may add, 0 when the budget is spent."""
        wanted = GRANT_ENTRIES * ENTRY_BYTES
        while self._used + wanted > self._max_bytes:
            if not self._ended:
                return 0
            self._evict()
        self._used += wanted
        return GRANT_ENTRIES

    def close(
        self,
        record: RequestRecord,
        ended_ns: int,
        *,
        state: RecordState = "finished",
        finish_reason: str | None = None,
    ) -> None:
        """The request has ended; its record becomes one of the finished ones. Idempotent."""
        if record.state != "running":
            return
        record.state = state
        record.finish_reason = finish_reason
        record.ended_ns = ended_ns
        self._used -= sum(track.close() for track in record.tracks)
        if self._live.get(record.id) is not record:
            return
        del self._live[record.id]
        self._ended[record.id] = record
        while self._ended and (
            len(self._ended) > self._max_requests or self._used > self._max_bytes
        ):
            self._evict()

    def get(self, request_id: str) -> RequestRecord | None:
        """The record of a request id, None when it is unknown or was evicted."""
        return self._live.get(request_id) or self._ended.get(request_id)

    def recent(self, count: int = 100) -> list[RequestRecord]:
        """The running records, then the latest finished ones, newest first; `count` at most."""
        found = list(reversed(self._live.values()))[:count]
        for record in reversed(self._ended.values()):
            if len(found) >= count:
                break
            found.append(record)
        return found

    def _evict(self) -> None:
        _, record = self._ended.popitem(last=False)
        self._release(record)

    def _forget(self, request_id: str) -> None:
        record = self._live.pop(request_id, None) or self._ended.pop(request_id, None)
        if record is not None:
            self._release(record)

    def _release(self, record: RequestRecord) -> None:
        self._used -= RECORD_BYTES + sum(track.nbytes for track in record.tracks)
        # A running record may be released too, by a newer one of its id: its writes go on, but
        # must neither take room nor give any back.
        for track in record.tracks:
            track.close()


def _ms(ns: int) -> float:
    return round(ns / 1e6, 6)


def _since(origin_ns: int, ns: int | None) -> float | None:
    return None if ns is None else _ms(ns - origin_ns)
