"""What a request's way in costs before the engine, over HTTP and over a WebSocket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.deployment import EngineDeployment
from paceline.core.profile import (
    Engine,
    Overhead,
    Profile,
    ProfileError,
    Tenants,
    WebSocketFactors,
)
from paceline.core.profile_document import parse_profile
from paceline.core.sequence import Sequence
from paceline.core.steps import FOREVER

MS = 1_000_000


def deployment(websocket: WebSocketFactors | None = None) -> EngineDeployment:
    made = Profile(
        name="p",
        title="t",
        engine=Engine(step_ms=1.0),
        overhead=Overhead(
            round_trip_ms=100.0,
            per_token_ms=0.5,
            api_ms_p50=40.0,
            api_ms_p90=40.0,
            pipeline_stages=4,
            stage_ms=5.0,
        ),
        tenants=Tenants(queue_ms_p50=7.0, queue_ms_p90=7.0),
        websocket=websocket or WebSocketFactors(),
    )
    return EngineDeployment(made, keep_history=True)


PUBLISHED = WebSocketFactors(round_trip=0.2, per_token=0.7, ttft=0.5)


def test_each_factor_scales_its_own_part() -> None:
    """100 + 0.5 + (40 + 20) and the queue's 7: a fifth, 0.7, half; the queue stays."""
    made = deployment(websocket=PUBLISHED)
    assert made.overhead_ns(1) == round(167.5 * MS)
    assert made.overhead_ns(1, "websocket") == round((20 + 0.35 + 30 + 7) * MS)


def test_without_factors_both_ways_take_as_long() -> None:
    made = deployment()
    assert made.overhead_ns(1, "websocket") == made.overhead_ns(1)


@pytest.mark.parametrize(("transport", "wait_ms"), [("http", 167.5), ("websocket", 57.35)])
def test_the_rate_is_the_engine_s_either_way(transport: str, wait_ms: float) -> None:
    made = deployment(websocket=PUBLISHED)
    seq = Sequence(0, 5, key=1)
    made.submit([seq], 0, transport=transport)  # type: ignore[arg-type]  # drawn as text
    while made.next_ns < FOREVER:
        made.advance(made.next_ns)
    first = round(wait_ms * MS) + MS
    assert [seq.due(token) for token in range(5)] == [first + token * MS for token in range(5)]


@given(
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(0, 1 << 64),
)
def test_less_of_each_part_is_never_later(
    round_trip: float, per_token: float, ttft: float, key: int
) -> None:
    made = deployment(
        websocket=WebSocketFactors(round_trip=round_trip, per_token=per_token, ttft=ttft)
    )
    assert 7 * MS <= made.overhead_ns(key, "websocket") <= made.overhead_ns(key)


def test_the_api_layer_must_keep_pace_with_the_engine() -> None:
    source = {"class": "hypothesis", "from": "a test"}
    data = {
        "name": "p",
        "title": "t",
        "engine": {"step_ms": 1.0},
        "overhead": {"per_token_ms": 1.5},
        "sources": {"engine": source, "overhead": source},
    }
    with pytest.raises(ProfileError) as caught:
        parse_profile(data)
    assert caught.value.key == "overhead.per_token_ms"
