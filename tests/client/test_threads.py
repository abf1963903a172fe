from __future__ import annotations

import contextlib
import sys

import pytest

from paceline.client.threads import quick_threads


def test_threads_take_quicker_turns_until_the_end_of_it() -> None:
    before = sys.getswitchinterval()
    with contextlib.suppress(ZeroDivisionError), quick_threads():
        assert sys.getswitchinterval() == pytest.approx(0.0005)
        raise ZeroDivisionError
    assert sys.getswitchinterval() == before
