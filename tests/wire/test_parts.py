from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from paceline.core.plan import CallPlan, ChoicePlan
from paceline.core.tools import Tool
from paceline.wire.parts import Span, spans
from tests.wire.fakes import FakePieces


def _pieces(size: int) -> FakePieces:
    return FakePieces(["x"] * size)


@st.composite
def _choices(draw: st.DrawFn) -> ChoicePlan:
    sizes = st.integers(0, 5)
    calls = [
        CallPlan("call", Tool("t"), _pieces(draw(sizes)), draw(st.integers(1, 4)))
        for _ in range(draw(st.integers(0, 3)))
    ]
    hidden = draw(sizes)
    return ChoicePlan(0, 0, _pieces(draw(sizes)), "stop", hidden, None, 0, calls)


def test_parts_in_order() -> None:
    calls = [CallPlan("a", Tool("t"), _pieces(3), 2), CallPlan("b", Tool("t"), _pieces(1), 1)]
    choice = ChoicePlan(0, 0, _pieces(2), "tool_calls", 4, None, 0, calls)
    assert spans(choice, 0, choice.output_tokens) == [
        Span("reasoning", 0, 0, 4),
        Span("text", 0, 0, 2),
        Span("head", 0, 0, 2),
        Span("arguments", 0, 0, 3),
        Span("head", 1, 0, 1),
        Span("arguments", 1, 0, 1),
    ]
    assert spans(choice, 7, 9) == [Span("head", 0, 1, 2), Span("arguments", 0, 0, 1)]


@given(_choices(), st.data())
def test_runs_cover_each_token_once(choice: ChoicePlan, data: st.DataObject) -> None:
    total = choice.output_tokens
    cuts = data.draw(st.lists(st.integers(0, total), max_size=6))
    edges = sorted({0, total, *cuts})
    seen: dict[tuple[str, int], int] = {}
    for start, stop in itertools.pairwise(edges):
        runs = spans(choice, start, stop)
        assert sum(run.j - run.i for run in runs) == stop - start
        for run in runs:
            assert run.i < run.j
            assert seen.get((run.kind, run.call), 0) == run.i
            seen[run.kind, run.call] = run.j
    assert seen.get(("reasoning", 0), 0) == choice.reasoning_tokens
    assert seen.get(("text", 0), 0) == len(choice.pieces)
    for index, call in enumerate(choice.calls):
        assert seen[("head", index)] == call.head_tokens
        assert seen.get(("arguments", index), 0) == len(call.arguments)


@given(_choices())
def test_past_the_end_is_nothing(choice: ChoicePlan) -> None:
    total = choice.output_tokens
    assert spans(choice, total, total + 3) == []
    assert spans(choice, 0, total + 3) == spans(choice, 0, total)
