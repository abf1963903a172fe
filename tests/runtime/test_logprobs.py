from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.logprobs import TokenLogprob
from paceline.runtime.logprobs import LogprobSource
from paceline.runtime.text import Ring
from paceline.runtime.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def source(tokenizer: Tokenizer, ring: Ring) -> LogprobSource:
    return LogprobSource(tokenizer, ring)


def _check(entry: TokenLogprob, top: int, seen: str, data: bytes) -> None:
    assert entry.token == seen
    assert entry.data == data
    assert math.isfinite(entry.logprob)
    assert entry.logprob <= 0
    assert len(entry.top) == top
    if top:
        assert (entry.top[0].token, entry.top[0].logprob) == (entry.token, entry.logprob)
    values = [item.logprob for item in entry.top]
    assert values == sorted(values, reverse=True)
    assert all(math.isfinite(value) for value in values)
    assert sum(map(math.exp, values)) <= 1.0 + 1e-9
    assert len({item.token for item in entry.top}) == top
    for item in entry.top[1:]:
        assert item.token.encode() == item.data


@given(
    seed=st.integers(0, 2**64 - 1),
    ids=st.lists(st.integers(0, 199_997), max_size=5),
    top=st.integers(0, 20),
)
def test_entries_are_finite_ordered_and_distinct(
    source: LogprobSource, tokenizer: Tokenizer, seed: int, ids: list[int], top: int
) -> None:
    entries = source.tokens(seed, seed % 200_000, ids, top)
    assert len(entries) == len(ids)
    for entry, token in zip(entries, ids, strict=True):
        _check(entry, top, tokenizer.token_text(token), tokenizer.token_bytes(token))


def test_default_text_has_distinct_alternatives(source: LogprobSource, ring: Ring) -> None:
    window = ring.window(4, 300)
    entries = source.tokens(9, 0, window.ids(0, 300), 20)
    for entry, text in zip(entries, window.tokens(0, 300), strict=True):
        _check(entry, 20, text, text.encode())


def test_runs_joined_are_the_whole(source: LogprobSource, ring: Ring) -> None:
    ids = ring.window(4, 30).ids(0, 30)
    whole = source.tokens(9, 0, ids, 3)
    assert source.tokens(9, 0, ids[:11], 3) + source.tokens(9, 11, ids[11:], 3) == whole
    assert source.tokens(10, 0, ids, 3) != whole
    assert len({entry.logprob for entry in whole}) > 20
