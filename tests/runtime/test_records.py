from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.runtime.records import (
    ENTRY_BYTES,
    GRANT_ENTRIES,
    RECORD_BYTES,
    RecordStore,
    RequestRecord,
)

MS = 1_000_000
GRANT = GRANT_ENTRIES * ENTRY_BYTES


class Numbers:
    """Pieces whose token ids are their own positions."""

    dense = True

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def escaped(self, start: int, stop: int) -> list[bytes]:
        return [b"x"] * (stop - start)

    def text(self) -> str:
        return "x" * self.count

    def ids(self, start: int, stop: int) -> list[int]:
        return list(range(start, stop))

    def tokens(self, start: int, stop: int) -> list[str]:
        return ["x"] * (stop - start)


def record(name: str = "req_1", **fields: Any) -> RequestRecord:
    return RequestRecord(id=name, received_ns=1_000 * MS, created_s=1.75e9, **fields)


def test_a_request_from_arrival_to_end() -> None:
    store = RecordStore()
    req = store.open(
        record(model="gpt-5.6", profile="gpt-5.6-sol", endpoint="/v1/chat/completions", stream=True)
    )
    req.prompt_tokens, req.cached_tokens, req.output_tokens = 12, 0, 3
    req.engine_arrived_ns = 1_400 * MS
    req.admitted_ns = 1_410 * MS
    req.first_due_ns = 1_435 * MS
    track = store.track(req, 0, Numbers(3))
    track.add(1, 1_435 * MS, 1_435 * MS + 100_000)
    track.add(2, 1_460 * MS, 1_485 * MS + 200_000)
    req.last_due_ns = 1_485 * MS
    assert store.live == 1
    store.close(req, 1_485 * MS + 250_000, finish_reason="stop")
    assert store.live == 0

    found = store.get("req_1")
    assert found is req
    data = json.loads(json.dumps(found.to_json()))
    assert data["state"] == "finished"
    assert data["finish_reason"] == "stop"
    assert data["service_tier"] == "default"
    assert data["times_ms"] == {
        "received": 0.0,
        "engine_arrived": 400.0,
        "admitted": 410.0,
        "first_token_due": 435.0,
        "first_token_left": 435.1,
        "last_token_due": 485.0,
        "last_token_left": 485.2,
        "ended": 485.25,
    }
    assert data["split_ms"] == {
        "overhead": 400.0,
        "queue": 10.0,
        "prefill": 25.0,
        "decode": 50.0,
        "lateness": 0.25,
        "total": 485.25,
    }
    assert data["choices"] == [
        {
            "index": 0,
            "chunks": [
                {"due_ms": 435.0, "left_ms": 435.1, "tokens": 1, "token_ids": [0]},
                {"due_ms": 460.0, "left_ms": 485.2, "tokens": 2, "token_ids": [1, 2]},
            ],
            "chunks_not_kept": 0,
        }
    ]


@given(st.lists(st.integers(0, 10**12), min_size=6, max_size=6))
def test_parts_of_the_split_add_up(points: list[int]) -> None:
    points.sort()
    req = RequestRecord(
        id="x",
        received_ns=points[0],
        created_s=0.0,
        engine_arrived_ns=points[1],
        admitted_ns=points[2],
        first_due_ns=points[3],
        last_due_ns=points[4],
        ended_ns=points[5],
    )
    split = req.split()
    total = split.pop("total")
    assert total == pytest.approx(sum(part or 0.0 for part in split.values()), abs=1e-4)


def test_a_running_or_aborted_record_says_what_is_not_known() -> None:
    store = RecordStore()
    req = store.open(record())
    data = req.to_json()
    assert data["state"] == "running"
    assert data["split_ms"]["total"] is None
    assert data["times_ms"]["first_token_left"] is None
    req.engine_arrived_ns = 1_400 * MS
    store.close(req, 1_500 * MS, state="aborted")
    data = req.to_json()
    assert (data["state"], data["finish_reason"]) == ("aborted", None)
    assert data["split_ms"] == {
        "overhead": 400.0,
        "queue": None,
        "prefill": None,
        "decode": None,
        "lateness": None,
        "total": 500.0,
    }


def test_token_ids_only_where_pieces_are_known_and_never_past_them() -> None:
    store = RecordStore()
    req = store.open(record())
    store.track(req, 0).add(2, 0, 0)
    short = store.track(req, 1, Numbers(1))
    short.add(3, 0, 0)
    short.add(1, 0, 0)
    plain, numbered = req.to_json()["choices"]
    assert "token_ids" not in plain["chunks"][0]
    assert [chunk["token_ids"] for chunk in numbered["chunks"]] == [[0], []]


def test_finished_records_are_bounded_and_the_oldest_goes_first() -> None:
    store = RecordStore(max_requests=3)
    live = store.open(record("live"))
    for i in range(10):
        store.close(store.open(record(f"r{i}")), 2_000 * MS, finish_reason="stop")
    assert store.get("live") is live
    assert [r.id for r in store.recent()] == ["live", "r9", "r8", "r7"]
    assert [r.id for r in store.recent(2)] == ["live", "r9"]
    assert store.get("r6") is None
    assert len(store) == 4


def test_nothing_is_kept_where_nothing_is_asked_for() -> None:
    store = RecordStore(max_requests=0)
    req = store.open(record())
    store.track(req, 0).add(1, 0, 0)
    assert store.get("req_1") is req
    store.close(req, 2_000 * MS)
    assert store.get("req_1") is None
    assert store.used_bytes == 0


def test_bytes_are_bounded_by_evicting_the_finished() -> None:
    store = RecordStore(max_requests=100, max_bytes=2 * GRANT + 4 * RECORD_BYTES)
    for i in range(20):
        req = store.open(record(f"r{i}"))
        track = store.track(req, 0)
        for k in range(GRANT_ENTRIES):
            track.add(1, k, k)
        assert track.skipped == 0
        store.close(req, 2_000 * MS)
        assert store.used_bytes <= 2 * GRANT + 4 * RECORD_BYTES
    assert store.get("r19") is not None
    assert store.get("r0") is None


def test_a_running_request_is_never_evicted_but_stops_getting_entries() -> None:
    store = RecordStore(max_bytes=GRANT + 2 * RECORD_BYTES)
    first, second = store.open(record("a")), store.open(record("b"))
    one, two = store.track(first, 0), store.track(second, 0)
    one.add(1, 0, 0)
    two.add(1, 0, 0)
    two.add(1, 0, 0)
    assert (len(one), len(two), two.skipped) == (1, 0, 2)
    assert store.get("a") is first
    assert second.to_json()["choices"][0]["chunks_not_kept"] == 2
    # Room that the first gives back serves the second.
    store.close(first, 2_000 * MS)
    two.add(1, 0, 0)
    assert len(two) == 1


def test_unused_room_is_given_back() -> None:
    store = RecordStore()
    req = store.open(record())
    track = store.track(req, 0)
    track.add(1, 0, 0)
    assert store.used_bytes == RECORD_BYTES + GRANT
    store.close(req, 2_000 * MS)
    assert store.used_bytes == RECORD_BYTES + ENTRY_BYTES
    store.close(req, 3_000 * MS, state="aborted")
    assert (req.state, req.ended_ns) == ("finished", 2_000 * MS)
    assert store.used_bytes == RECORD_BYTES + ENTRY_BYTES


def test_a_closed_track_takes_no_more() -> None:
    store = RecordStore()
    req = store.open(record())
    track = store.track(req, 0)
    track.add(1, 0, 0)
    store.close(req, 2_000 * MS)
    track.add(1, 0, 0)
    assert (len(track), track.skipped) == (1, 1)


def test_a_newer_request_of_the_same_id_takes_the_place() -> None:
    store = RecordStore()
    old = store.open(record())
    track = store.track(old, 0)
    track.add(1, 0, 0)
    new = store.open(record())
    assert store.get("req_1") is new
    track.add(1, 0, 0)
    assert store.used_bytes == RECORD_BYTES
    store.close(old, 2_000 * MS)
    assert store.get("req_1") is new
    assert store.used_bytes == RECORD_BYTES
    store.close(new, 2_000 * MS)
    again = store.open(record())
    assert store.get("req_1") is again
    assert len(store) == 1


@given(
    st.lists(st.tuples(st.sampled_from(["open", "add", "close"]), st.integers(0, 5)), max_size=120)
)
def test_the_budget_is_exact_whatever_happens(steps: list[tuple[str, int]]) -> None:
    limit = 3 * GRANT
    store = RecordStore(max_requests=3, max_bytes=limit)
    live: dict[int, RequestRecord] = {}
    for action, i in steps:
        if action == "open":
            live[i] = store.open(record(f"r{i}"))
            store.track(live[i], 0)
        elif i in live and action == "add":
            for _ in range(300):
                live[i].tracks[0].add(1, 0, 0)
        elif i in live:
            store.close(live.pop(i), 2_000 * MS)
        kept = store.recent(1000)
        entries = sum(track.nbytes for r in kept for track in r.tracks)
        assert store.used_bytes == entries + RECORD_BYTES * len(kept)
        assert entries <= limit
        assert len(store) - store.live <= 3


def test_limits_must_make_sense() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        RecordStore(max_requests=-1)
