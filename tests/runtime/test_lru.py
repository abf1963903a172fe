from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline.runtime.lru import ByteLRU


def test_the_longest_unused_goes_first() -> None:
    memory: ByteLRU[str, int] = ByteLRU(30)
    for name in "abc":
        memory.put(name, ord(name), 10)
    assert memory.get("a") == ord("a")
    memory.put("d", 4, 10)
    assert memory.get("b") is None
    assert [memory.get(name) for name in "acd"] == [ord("a"), ord("c"), 4]


def test_what_is_larger_than_everything_is_not_kept() -> None:
    memory: ByteLRU[str, int] = ByteLRU(30)
    memory.put("a", 1, 10)
    memory.put("b", 2, 31)
    assert memory.get("b") is None
    assert memory.get("a") == 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40))))
def test_bytes_are_the_sum_of_what_is_held(puts: list[tuple[int, int]]) -> None:
    memory: ByteLRU[int, int] = ByteLRU(100)
    for key, size in puts:
        memory.put(key, size, size)
        assert memory.bytes <= 100
    held = [memory.get(key) for key in range(10)]
    assert memory.bytes == sum(size for size in held if size is not None)
    assert len(memory) == sum(size is not None for size in held)
