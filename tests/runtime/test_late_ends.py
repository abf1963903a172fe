"""Ends that are long work: they wait for everybody's tokens, and nobody is forgotten."""

from __future__ import annotations

import pytest

from paceline.runtime import pacer
from tests.runtime.pacing import MS, Rig, ms, profile


def test_a_late_end_comes_behind_the_tokens_in_the_same_pass() -> None:
    rig = Rig(profile())
    _, reader = rig.ask(3, late_end=True)
    rig.run_out()
    assert ms(reader.left[0]) == [10.0, 20.0, 30.0]
    assert reader.ended is not None
    assert ms([reader.ended]) == [30.0]
    assert reader.body == b"0:0-1 0:1-2 0:2-3 0:end done"
    assert rig.idle()


def test_ends_take_turns_and_tokens_don_t_wait_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacer, "_CLOSING_NS", 0)
    rig = Rig(profile())
    readers = [rig.ask(3, late_end=True)[1] for _ in range(5)]
    rig.run_out()
    for reader, answer in zip(readers, rig.answers, strict=True):
        assert reader.left[0] == [answer.seqs[0].due(token) for token in range(3)]
        assert reader.body.endswith(b"0:end done")
    ends = [reader.ended for reader in readers if reader.ended is not None]
    assert ends == sorted(ends)
    assert len(set(ends)) == 5, "one a pass"
    assert max(ends) - max(reader.left[0][-1] for reader in readers) < 10 * MS
    assert rig.idle()


def test_whoever_leaves_before_its_end_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacer, "_CLOSING_NS", 0)
    rig = Rig(profile())
    (_, first), (gone, second), (broken, third) = (rig.ask(2, late_end=True) for _ in range(3))
    rig.run(20.0)
    assert first.ended is not None
    assert second.ended is None
    assert not gone.over
    rig.abort(gone)
    rig.pacer.break_off(broken, "bye")
    rig.run_out()
    assert second.ended is None
    assert third.body.endswith(b"failed: server_shutting_down")
    assert third.body.count(b"end") == 0
    assert rig.idle()


def test_an_answer_without_tokens_ends_at_once() -> None:
    rig = Rig(profile())
    _, reader = rig.ask(0, late_end=True)
    rig.run_out()
    assert reader.body == b"0:end done"
