from __future__ import annotations

from typing import Any

import pytest

from paceline.core.request import NO_OVERRIDES, Overrides
from paceline.wire.errors import ApiError
from paceline.wire.overrides import parse_overrides


def test_nothing_given_is_the_shared_nothing() -> None:
    assert parse_overrides({"host": "x", "x-request-id": "1"}, None) is NO_OVERRIDES
    assert parse_overrides({}, {}) is NO_OVERRIDES
    assert parse_overrides({}, {"seed": None}) is NO_OVERRIDES


def test_every_header_arrives_in_any_case() -> None:
    headers = {
        "X-Paceline-Output-Tokens": "20",
        "x-paceline-reasoning-tokens": "5",
        "X-PACELINE-SEED": "-3",
        "x-paceline-ttft-ms": "12.5",
        "x-paceline-rate": "1e3",
        "x-paceline-mode": "Echo",
    }
    assert parse_overrides(headers, None) == Overrides(20, 5, -3, 12.5, 1000.0, True)


def test_every_body_field_arrives() -> None:
    field = {
        "output_tokens": 20,
        "reasoning_tokens": 5,
        "seed": -3,
        "ttft_ms": 0,
        "rate": 40,
        "mode": "prose",
    }
    assert parse_overrides({}, field) == Overrides(20, 5, -3, 0.0, 40.0, False)


def test_a_header_wins_over_the_body() -> None:
    got = parse_overrides({"x-paceline-rate": "750"}, {"rate": 40, "seed": 1})
    assert got == Overrides(rate=750.0, seed=1)
    assert not parse_overrides({"x-paceline-mode": "prose"}, {"mode": "echo"}).echo


@pytest.mark.parametrize(
    ("headers", "field", "param", "code"),
    [
        ({"x-paceline-rate": "0"}, None, "X-Paceline-Rate", "decimal_below_min_value"),
        ({"x-paceline-rate": "1e-320"}, None, "X-Paceline-Rate", "decimal_below_min_value"),
        ({"x-paceline-rate": "fast"}, None, "X-Paceline-Rate", "invalid_type"),
        ({"x-paceline-rate": "nan"}, None, "X-Paceline-Rate", "invalid_type"),
        ({"x-paceline-rate": "inf"}, None, "X-Paceline-Rate", "invalid_type"),
        ({"x-paceline-rate": "1e999"}, None, "X-Paceline-Rate", "invalid_value"),
        ({"x-paceline-rate": ""}, None, "X-Paceline-Rate", "invalid_type"),
        ({"x-paceline-seed": "1_0"}, None, "X-Paceline-Seed", "invalid_type"),
        ({"x-paceline-seed": "1.5"}, None, "X-Paceline-Seed", "invalid_type"),
        ({"x-paceline-seed": "٣"}, None, "X-Paceline-Seed", "invalid_type"),
        (
            {"x-paceline-output-tokens": "-1"},
            None,
            "X-Paceline-Output-Tokens",
            "integer_below_min_value",
        ),
        ({"x-paceline-ttft-ms": "-1"}, None, "X-Paceline-TTFT-Ms", "decimal_below_min_value"),
        ({"x-paceline-mode": "song"}, None, "X-Paceline-Mode", "invalid_value"),
        ({"x-paceline-speed": "9"}, None, "x-paceline-speed", "unknown_parameter"),
        ({}, {"speed": 9}, "paceline.speed", "unknown_parameter"),
        ({}, {"rate": "9"}, "paceline.rate", "invalid_type"),
        ({}, {"rate": float("inf")}, "paceline.rate", "invalid_value"),
        ({}, {"mode": 1}, "paceline.mode", "invalid_type"),
        ({}, [], "paceline", "invalid_type"),
        (
            {},
            {"output_tokens": 3, "reasoning_tokens": 4},
            "paceline.reasoning_tokens",
            "invalid_value",
        ),
        (
            {"x-paceline-reasoning-tokens": "4"},
            {"output_tokens": 3},
            "X-Paceline-Reasoning-Tokens",
            "invalid_value",
        ),
    ],
)
def test_a_bad_override_is_refused_by_name(
    headers: dict[str, str], field: Any, param: str, code: str
) -> None:
    with pytest.raises(ApiError) as caught:
        parse_overrides(headers, field)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, param, code)
