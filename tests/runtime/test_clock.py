from __future__ import annotations

import pytest

from paceline.runtime.clock import ManualClock, ScaledClock


@pytest.mark.parametrize("speed", [0.5, 1.0, 3.0, 10.0, 1000.0])
def test_a_scaled_clock_runs_at_its_speed_and_its_timers_fire_on_time(speed: float) -> None:
    machine = ManualClock(now_ns=7_000_000_123)
    clock = ScaledClock(speed, machine)
    begun_ns = clock.now_ns()
    fired: list[int] = []
    timer = clock.timer(lambda: fired.append(clock.now_ns()))
    timer.arm(begun_ns + 1_000_001)
    machine.advance(int(1_000_001 / speed) - 1)
    assert fired == []
    machine.advance(3)
    (at_ns,) = fired
    assert 0 <= at_ns - (begun_ns + 1_000_001) <= max(speed, 1.0)
    machine.advance(1_000_000)
    assert clock.now_ns() - begun_ns == pytest.approx((machine.now_ns() - 7_000_000_123) * speed)
    timer.arm(0)
    timer.close()
    machine.advance(1_000_000)
    assert len(fired) == 1


@pytest.mark.parametrize("speed", [0.0, -2.0, float("inf"), float("nan")])
def test_a_speed_that_is_none_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed"):
        ScaledClock(speed, ManualClock())
