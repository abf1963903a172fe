"""What is kept of responses: within its budget, and gone without a trace when it goes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from paceline.runtime.responses_store import Conversation, ResponseStore, StoredResponse


@dataclass
class Thing:
    key: str | None
    nbytes: int = 100
    refs: int = 0


def stored(name: str, *items: Thing, status: str = "completed") -> StoredResponse[Thing]:
    return StoredResponse(name, status, b"{}", items, 0, len(items))


def test_a_chain_shares_its_items() -> None:
    store: ResponseStore[Thing] = ResponseStore(1 << 20)
    a, b = Thing("a"), Thing("b")
    store.put(stored("r1", a))
    before = store.bytes
    store.put(stored("r2", a, b))
    assert store.bytes - before < 100 + 100 + 1100
    store.remove("r1")
    assert store.item("a") is a
    store.remove("r2")
    assert store.item("a") is None
    assert store.bytes == 0


def test_the_oldest_goes_first_and_what_runs_stays() -> None:
    store: ResponseStore[Thing] = ResponseStore(5_000)
    store.put(stored("live", Thing(None), status="queued"))
    for i in range(10):
        store.put(stored(f"r{i}", Thing(None)))
        assert store.bytes <= 5_000
    assert store.response("live") is not None
    assert store.response("r9") is not None
    assert store.response("r0") is None


def test_use_keeps_a_response() -> None:
    store: ResponseStore[Thing] = ResponseStore(4_000)
    for i in range(3):
        store.put(stored(f"r{i}", Thing(None)))
    assert store.response("r0") is not None
    store.put(stored("r3", Thing(None)))
    assert store.response("r0") is not None
    assert store.response("r1") is None


def test_an_end_is_kept_only_where_its_beginning_is() -> None:
    store: ResponseStore[Thing] = ResponseStore(1 << 20)
    entry = stored("r", Thing("in"), status="queued")
    store.put(entry)
    assert entry.under_way
    store.finish(entry, "completed", b"{...}", [Thing("out")])
    assert store.item("out") is not None
    assert [item.key for item in entry.input_items] == ["in"]
    store.remove("r")
    assert store.bytes == 0
    store.finish(entry, "completed", b"{...}", [Thing("late")])
    assert store.bytes == 0
    assert store.item("late") is None


@given(
    st.lists(
        st.tuples(st.sampled_from("prxeid"), st.integers(0, 3), st.integers(0, 5)), max_size=40
    ),
    st.integers(0, 6_000),
)
def test_nothing_is_lost_or_counted_twice(steps: list[tuple[str, int, int]], budget: int) -> None:
    store: ResponseStore[Thing] = ResponseStore(budget)
    things = [Thing(f"t{i}", 50 * i) for i in range(6)]
    talks = {f"c{i}": Conversation[Thing](f"c{i}", 0) for i in range(4)}
    for step, who, what in steps:
        if step == "p":
            store.put(stored(f"r{who}", *things[: what + 1]))
        elif step == "r":
            store.response(f"r{who}")
        elif step == "x":
            store.remove(f"r{who}")
        elif step == "e":
            if store.conversation(f"c{who}") is None:
                store.put(talks[f"c{who}"])
            store.extend(talks[f"c{who}"], [(f"k{what}", things[what])])
        elif step == "i":
            store.drop_item(talks[f"c{who}"], f"k{what}")
        else:
            store.remove(f"c{who}")
        assert store.bytes <= budget or len(store) <= 1
    for who in range(4):
        store.remove(f"r{who}")
        store.remove(f"c{who}")
    assert (store.bytes, len(store)) == (0, 0)
    assert [thing.refs for thing in things] == [0] * 6
