"""Every request that was let in is settled once, or released, whatever becomes of its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.ledger import FREE, Amount, Entry, Times
from paceline.core.profile import PrefixCache
from paceline.core.usage import Usage
from paceline.runtime.admission import Claim, NoLedger
from paceline.runtime.price_book import NOT_SOLD, PriceBook
from paceline.runtime.stream import Answer
from tests.runtime.books import MICRO, SOL, Books
from tests.runtime.pacing import MS, Reader, Rig, profile


def ask(rig: Rig, books: Books, *tokens: int, **options: object) -> tuple[Answer, Reader]:
    """A request that the books let in."""
    number = len(rig.answers)
    answer, reader = rig.ask(*tokens, **options)  # type: ignore[arg-type]  # the rig's own options
    answer.admitted = books.admit(number, rig.metrics)
    return answer, reader


def clean(rig: Rig) -> bool:
    """Whether nothing is held any more."""
    metrics = rig.metrics
    accounts = [a.admitted.account for a in rig.answers if a.admitted is not None]
    assert not any(each.account.streams for each in accounts if each is not None)
    return (metrics.holds, metrics.held_usd, metrics.held_credits) == (0, 0, 0)


@pytest.mark.parametrize("stream", [True, False])
def test_a_finished_answer_is_billed_exactly(stream: bool) -> None:
    rig, books = Rig(profile(step_ms_per_prefill_token=1.0)), Books()
    answer, _ = ask(rig, books, 5, prompt=3, reasoning=2, stream=stream)
    assert rig.metrics.holds == 1
    rig.run_out()
    (entry,) = books.entries
    assert (entry.state, entry.finish_reason) == ("finished", "length")
    assert entry.usage == Usage(3, 5, reasoning_tokens=2)
    assert entry.cost == Amount((3 * 4 + 5 * 20) * MICRO, (3 * 100 + 5 * 500) * MICRO)
    assert entry.times == Times(13 * MS, 0, 13 * MS, 40 * MS, 53 * MS)
    assert (answer.record.cost, answer.record.usage) == (entry.cost, entry.usage)
    assert rig.metrics.cost_usd == entry.cost.usd
    assert clean(rig)


@pytest.mark.parametrize("late_end", [True, False])
def test_the_end_of_a_stream_waits_for_its_entry_and_nothing_else_does(late_end: bool) -> None:
    rig, books = Rig(profile()), Books(slow=True)
    answer, reader = ask(rig, books, 3, late_end=late_end)
    rig.run(31)
    assert reader.body == b"0:0-1 0:1-2 0:2-3 0:end "
    assert reader.usage is None
    assert len(books.entries) == 1
    assert answer.over
    rig.run(100)
    books.commit()
    assert reader.body == b"0:0-1 0:1-2 0:2-3 0:end done"
    assert answer.said
    assert clean(rig)


def test_a_whole_answer_waits_for_its_entry() -> None:
    rig, books = Rig(profile()), Books(slow=True)
    _, reader = ask(rig, books, 3, stream=False)
    rig.run(100)
    assert len(books.entries) == 1
    assert reader.ended is None
    books.commit()
    assert reader.usage is not None
    assert reader.usage.completion_tokens == 3


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("cause", ["client_gone", "shutdown"])
def test_an_end_in_the_gap_before_the_commit_changes_nothing(
    stream: bool, cause: Literal["client_gone", "shutdown"]
) -> None:
    rig, books = Rig(profile()), Books(slow=True)
    answer, reader = ask(rig, books, 3, stream=stream)
    rig.run(100)
    rig.pacer.abort(answer, cause)
    rig.pacer.break_off(answer, "bye")
    books.commit()
    assert [entry.state for entry in books.entries] == ["finished"]
    assert reader.refused is None
    assert rig.metrics.aborted_by == {}
    assert clean(rig)


@pytest.mark.parametrize(
    ("after_ms", "prompt", "output", "reasoning"),
    [
        (3, 0, 0, 0),  # in its prefill
        (9.5, 0, 0, 0),
        (10.5, 4, 1, 1),
        (35, 4, 3, 2),
        (55, 4, 5, 2),
    ],
)
def test_a_client_that_leaves_pays_for_what_was_sent(
    after_ms: float, prompt: int, output: int, reasoning: int
) -> None:
    rig, books = Rig(profile()), Books()
    answer, _ = ask(rig, books, 100, prompt=4, reasoning=2)
    rig.run(after_ms)
    rig.abort(answer)
    rig.abort(answer)
    rig.run_out()
    (entry,) = books.entries
    assert (entry.state, entry.finish_reason) == ("cut", None)
    assert entry.usage == Usage(prompt, output, reasoning_tokens=reasoning)
    assert entry.cost.usd == (4 * prompt + 20 * output) * MICRO
    assert entry.times.total_ns == round(after_ms * MS)
    assert clean(rig)


def test_of_a_whole_answer_that_was_cut_nothing_was_sent_but_the_prompt_was_read() -> None:
    rig, books = Rig(profile()), Books()
    answer, _ = ask(rig, books, 100, prompt=4, stream=False)
    rig.run(500)
    rig.abort(answer)
    assert books.entries[0].usage == Usage(4, 0)
    assert books.entries[0].cost.usd == 16 * MICRO


def test_what_the_cache_held_is_cheaper_in_a_cut_answer_too() -> None:
    made = replace(profile(), prefix_cache=PrefixCache(min_tokens=0, block_tokens=4))
    rig, books = Rig(made), Books()
    for cached, written in ((0, 8), (8, 0)):
        answer, reader = ask(rig, books, 100, 100, prompt=10, blocks=(11, 12))
        rig.run(45)
        rig.abort(answer)
        rig.run_out()
        usage = books.entries[-1].usage
        assert (usage.prompt_tokens, usage.cached_tokens) == (10, cached)
        assert usage.cache_write_tokens == written
        assert usage.completion_tokens == sum(map(len, reader.left.values())) == 7


@pytest.mark.parametrize("cause", ["shutdown", "error"])
def test_what_the_server_breaks_off_costs_nothing(cause: Literal["shutdown", "error"]) -> None:
    rig, books = Rig(profile()), Books()
    answer, _ = ask(rig, books, 100, prompt=4)
    rig.run(35)
    rig.pacer.abort(answer, cause)
    (entry,) = books.entries
    assert (entry.state, entry.cost) == ("failed", FREE)
    assert entry.usage == Usage(4, 3)
    assert rig.metrics.cost_usd == 0
    assert clean(rig)


def test_an_answer_that_its_way_out_spoils_has_failed() -> None:
    rig, books = Rig(profile()), Books(slow=True)
    answer, reader = ask(rig, books, 3, prompt=4, stream=False)
    answer.spoiled = True
    rig.run(100)
    (entry,) = books.entries
    assert (entry.state, entry.cost, entry.usage) == ("failed", FREE, Usage(4, 0))
    assert reader.ended is not None, "its client need not wait for what costs nothing"
    assert rig.metrics.endings["error"] == 1
    assert answer.record.state == "failed"


def test_an_encoder_that_breaks_at_the_end_tells_its_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig, books = Rig(profile()), Books()
    answer, reader = ask(rig, books, 3)

    def broken(usage: Usage) -> bytes:
        raise RuntimeError("broken")

    assert answer.encoder is not None
    answer.encoder.end = broken  # type: ignore[method-assign]  # as a fault in it would
    rig.run_out()
    assert reader.body.endswith(b"failed: server_error")
    assert len(books.entries) == 1
    assert "could not be made" in caplog.text
    assert clean(rig)


def test_release_leaves_no_entry_and_nothing_held() -> None:
    books = Books()
    left: list[int] = []
    admitted = books.admit(claim=Claim(left.append, 2))
    for _ in range(2):
        admitted.release()
    assert left == [-2]
    assert len(books.released) == 1
    assert not books.open
    called: list[int] = []
    assert admitted.settle("finished", Usage(1, 1), then=lambda: called.append(1)) == FREE
    assert (called, books.entries) == ([1], [])


def test_what_nobody_sells_is_served_and_counted() -> None:
    rig, books = Rig(profile()), Books()
    answer, _ = ask(rig, books, 3)
    assert answer.admitted is not None
    answer.admitted.service = replace(answer.admitted.service, sale=NOT_SOLD)
    rig.run_out()
    assert books.entries[0].cost == Amount(None, None)
    assert rig.metrics.unpriced == {"usd": 1, "credits": 1}
    assert rig.metrics.cost_usd == 0


async def test_no_ledger_lets_everybody_in() -> None:
    books, none = Books(), NoLedger()
    admitted = books.admit()
    assert await none.hold(admitted.hold, admitted.caller.terms) is None
    called: list[int] = []
    none.settle(Entry(admitted.hold, "finished", 0), lambda: called.append(1))
    assert called == [1]
    assert (await none.standing("", admitted.caller.terms, 0)).held == FREE


counts = st.integers(0, 400_000)


@given(
    counts,
    st.integers(0, 200_000),
    counts,
    counts,
    st.sampled_from(["gpt-5.6-sol", "gpt-5.6-luna"]),
)
def test_no_bill_is_above_its_hold(
    prompt: int, output: int, cached: int, written: int, model: str
) -> None:
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    book = PriceBook.load(day="2026-09-01")
    for tier in (None, "flex", "fast", "ultrafast"):
        sale = book.sale(model, model, tier)
        cost = sale.cost(Usage(prompt, output, cached, written, output // 2))
        most = sale.most(prompt, output)
        for spent, held in ((cost.usd, most.usd), (cost.credits, most.credits)):
            assert spent is None or held is not None
            assert (spent or 0) <= (held or 0)


steps = st.tuples(
    st.sampled_from(["ask", "cut", "fail", "break", "commit", "run"]), st.integers(0, 60)
)


@given(st.lists(steps, max_size=30), st.booleans())
def test_once_whatever_comes_first(script: list[tuple[str, int]], slow: bool) -> None:
    rig, books = Rig(profile(max_num_seqs=2, step_ms_per_prefill_token=2.0)), Books(slow)
    for what, number in script:
        if what == "ask":
            ask(rig, books, 1 + number % 7, prompt=1 + number % 5, stream=number % 2 == 0)
        elif what == "run":
            rig.run(number)
        elif what == "commit":
            books.commit()
        elif rig.answers:
            answer = rig.answers[number % len(rig.answers)]
            if what == "cut":
                rig.abort(answer)
            elif what == "fail":
                rig.pacer.abort(answer, "error")
            else:
                rig.pacer.break_off(answer, "bye")
    rig.run_out()
    books.commit()
    ids = [entry.hold.id for entry in books.entries]
    assert sorted(ids) == sorted(f"answer-{i}" for i in range(len(rig.answers)))
    assert not books.open
    assert not books.released
    assert all(answer.said for answer in rig.answers)
    for entry in books.entries:
        paid = FREE if entry.state == "failed" else SOL.cost(entry.usage)
        assert entry.cost == paid
    assert rig.metrics.cost_usd == sum(entry.cost.usd or 0 for entry in books.entries)
    assert clean(rig)
    assert rig.idle()
