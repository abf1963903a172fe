from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.runtime.vectors import DEFAULT_DIMENSIONS, unit_vector


@given(st.text() | st.lists(st.integers(0, 200_018), min_size=1), st.integers(1, 4096))
def test_vectors_have_length_one_and_are_the_same_each_time(
    key: str | list[int], dimensions: int
) -> None:
    vector = unit_vector(key, dimensions)
    assert len(vector) == dimensions
    assert math.sqrt(math.fsum(x * x for x in vector)) == pytest.approx(1.0, abs=1e-6)
    assert unit_vector(key, dimensions) == vector


def test_any_change_of_the_key_gives_another_direction() -> None:
    keys: list[str | list[int]] = ["", "a", "b", "a ", [1], [1, 2], [2, 1], "1"]
    vectors = [unit_vector(key) for key in keys]
    for i, one in enumerate(vectors):
        assert len(one) == DEFAULT_DIMENSIONS
        for other in vectors[:i]:
            assert abs(math.fsum(x * y for x, y in zip(one, other, strict=True))) < 0.15


def test_a_vector_holds_to_known_numbers() -> None:
    # Stored vectors must stay comparable from one release to the next.
    assert unit_vector("paceline", 4).tolist() == pytest.approx(KNOWN, abs=1e-6)


KNOWN = [0.2829538, -0.8300124, -0.0068022, 0.4805937]


def test_no_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        unit_vector("a", 0)
