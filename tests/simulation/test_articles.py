"""The articles' figures come out of the shipped profiles."""

from __future__ import annotations

import pytest

from paceline.core.profile import Profile
from paceline.runtime.profile_files import ProfileRegistry
from paceline.simulation import articles
from paceline.simulation.articles import GPU, WAFER, Point, Side


def shipped(name: str) -> Profile:
    found = ProfileRegistry.load().get(name)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def gpu() -> Side:
    return articles.side(shipped(GPU), articles.GPU_TOK_S)


@pytest.fixture(scope="module")
def wafer() -> Side:
    return articles.side(shipped(WAFER), articles.WAFER_TOK_S)


def test_a_megawatt_of_b300_holds_1324_users_at_340(gpu: Side) -> None:
    assert gpu.users == 1324
    assert 340.0 <= gpu.held.user_tok_s < 340.1
    assert gpu.beyond.users == 1325
    assert gpu.beyond.user_tok_s < 340.0
    assert gpu.held.waiting == gpu.beyond.waiting == 0
    assert gpu.held.total_tok_s == pytest.approx(450_000, rel=0.001)


def test_the_rate_falls_with_every_user_beyond(gpu: Side) -> None:
    rates = [p.user_tok_s for p in gpu.curve if p.users > gpu.users]
    assert len(rates) > 5
    assert rates == sorted(rates, reverse=True)
    assert max(rates) < 340.0


def test_wafers_hold_600_and_queue_the_601st(wafer: Side) -> None:
    assert wafer.users == 600
    assert wafer.held.user_tok_s == pytest.approx(750.0, rel=1e-6)
    assert (wafer.held.served, wafer.held.waiting) == (600, 0)
    assert (wafer.beyond.users, wafer.beyond.served, wafer.beyond.waiting) == (601, 600, 1)
    assert wafer.beyond.user_tok_s == pytest.approx(750.0, rel=1e-6)
    # It waits until the first of the others has read its answer.
    assert wafer.beyond.wait_s > articles.OUTPUT_TOKENS / 750


def test_more_users_get_no_more_of_the_wafers(wafer: Side) -> None:
    beyond = [p for p in wafer.curve if p.users >= 600]
    assert len(beyond) > 5
    assert [p.total_tok_s for p in beyond] == pytest.approx([450_000.0] * len(beyond))
    assert [p.waiting for p in beyond] == [p.users - 600 for p in beyond]


def test_rate_a_user_times_users_is_the_rate_in_all(gpu: Side, wafer: Side) -> None:
    for p in (*gpu.curve, *wafer.curve):
        assert p.total_tok_s == pytest.approx(p.user_tok_s * p.served, rel=1e-3)


def test_a_single_step_before_the_batch_is_full_is_no_queue(gpu: Side) -> None:
    """Whoever comes a moment after the first waits for the next step, not for a slot."""
    assert gpu.held.wait_s < 0.003


def test_it_is_said_in_figures(gpu: Side, wafer: Side) -> None:
    text = " ".join(articles.explanation(gpu, wafer))
    for figure in ("1,324 users at 340.01", "601st", "450,000 / 340 = 1,323.5", "0.45 times"):
        assert figure in text


def test_the_table_shows_the_edges(gpu: Side, wafer: Side) -> None:
    lines = articles.rows([gpu, wafer])
    assert {line[1] for line in lines[1:]} >= {"1,324", "1,325", "600", "601"}
    assert {len(line) for line in lines} == {6}


def test_a_profile_that_never_falls_below_has_no_edge() -> None:
    with pytest.raises(ValueError, match="no number of users"):
        articles.side(shipped(WAFER), 751.0)


def test_one_user_alone(gpu: Side) -> None:
    assert isinstance(gpu.curve[0], Point)
    assert gpu.curve[0].users == 1
    assert gpu.curve[0].user_tok_s == pytest.approx(1000 / (2.6176 + 0.0281 / 115), rel=1e-6)
