"""The wheel: oldest first, but first and last tokens before all others."""

from __future__ import annotations

from paceline.runtime.wheel import Wheel
from tests.runtime.pacing import MS, Rig, flat


def test_an_empty_wheel_has_nothing_due() -> None:
    rig = Rig(flat(100.0))
    wheel = Wheel(rig.clock)
    assert wheel.flush(0) == []
    assert wheel.next_ns() == (1 << 62) - 1


def test_the_last_token_leaves_on_time_however_late_the_others_are() -> None:
    """Writes that take long put the middle tokens off; each stream's first and last stay exact."""
    rig = Rig(flat(1000.0))
    readers = [rig.ask(50)[1] for _ in range(20)]
    rig.clock.late_ns = 7 * MS
    rig.run_out()
    for reader in readers:
        left = reader.left[0]
        assert len(left) == 50
        assert left == sorted(left)
        assert left[0] - rig.answers[0].received_ns <= 8 * MS
        assert left[-1] - left[0] <= 49 * MS + 8 * MS
    assert rig.idle()


def test_streams_that_start_between_others_are_all_served() -> None:
    rig = Rig(flat(400.0))
    readers = []
    for _ in range(30):
        readers.append(rig.ask(40)[1])
        rig.run(0.37)
    rig.run_out()
    assert [len(reader.left[0]) for reader in readers] == [40] * 30
    assert rig.idle()


def test_cut_streams_are_forgotten_before_their_ends_come() -> None:
    """Ends far in the future don't keep what was cut: 5,000 streams leave next to nothing."""
    rig = Rig(flat(0.01))
    for _ in range(5_000):
        answer, _ = rig.ask(50)
        rig.run(0.5)
        rig.abort(answer)
    kept = rig.pacer._wheel._urgent
    assert len(kept) <= 1_026
    assert not any(entry[2].open for entry in kept)
