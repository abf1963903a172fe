from __future__ import annotations

from typing import Any

import pytest

from paceline.core.request import Fault
from paceline.wire.errors import ApiError
from paceline.wire.faults import NAMES, parse_fault
from paceline.wire.overrides import parse_overrides
from paceline.wire.retry import reset_text, retry_headers, wait_text

BODY = "paceline.fault"
HEADER = "X-Paceline-Fault"


@pytest.mark.parametrize(
    ("text", "field", "fault"),
    [
        ("none", {"name": "none"}, Fault("none")),
        ("error", {"name": "error"}, Fault("error")),
        ("error:503", {"name": "error", "status": 503}, Fault("error", status=503)),
        (
            "error:418,2.5",
            {"name": "error", "status": 418, "retry_after_s": 2.5},
            Fault("error", status=418, retry_after_s=2.5),
        ),
        ("fail_after:3", {"name": "fail_after", "tokens": 3}, Fault("fail_after", tokens=3)),
        (
            "fail_after:0,slow_down",
            {"name": "fail_after", "tokens": 0, "code": "slow_down"},
            Fault("fail_after", code="slow_down"),
        ),
        ("drop_after: 7", {"name": "drop_after", "tokens": 7}, Fault("drop_after", tokens=7)),
        (
            "Stall_After:3, 500",
            {"name": "stall_after", "tokens": 3, "ms": 500},
            Fault("stall_after", tokens=3, ms=500.0),
        ),
        ("slice", {"name": "slice", "seed": None}, Fault("slice")),
        ("slice:2,-9", {"name": "slice", "max_bytes": 2, "seed": -9}, Fault("slice", seed=-9)),
    ],
)
def test_header_and_body_say_the_same(text: str, field: dict[str, Any], fault: Fault) -> None:
    by_header = parse_overrides({"x-paceline-fault": text}, None).fault
    by_body = parse_overrides({}, {"fault": field}).fault
    assert by_header is not None
    assert by_body is not None
    assert (by_header.param, by_body.param) == (HEADER, BODY)
    if fault.name == "slice":
        assert by_header.max_bytes == (2 if fault.seed else 4)
    same = ("name", "tokens", "ms", "seed", "status", "code", "message", "retry_after_s")
    for name in same:
        assert getattr(by_header, name) == getattr(by_body, name) == getattr(fault, name)
    assert parse_fault(text, BODY) == by_body


@pytest.mark.parametrize(
    ("preset", "status", "type_", "code", "wait_s"),
    [
        ("rate_limit", 429, "requests", "rate_limit_exceeded", 1.0),
        ("insufficient_quota", 429, "insufficient_quota", "insufficient_quota", None),
        ("usage_limit_reached", 429, "usage_limit_reached", "usage_limit_reached", None),
        ("overloaded", 503, None, "server_is_overloaded", None),
        ("unauthorized", 401, "invalid_request_error", "invalid_api_key", None),
    ],
)
def test_presets(
    preset: str, status: int, type_: str | None, code: str, wait_s: float | None
) -> None:
    fault = parse_fault(f"error:{preset}", HEADER)
    assert (fault.status, fault.type, fault.code, fault.retry_after_s) == (
        status,
        type_,
        code,
        wait_s,
    )
    own = parse_fault({"name": "error", "preset": preset, "message": "No.", "status": 499}, BODY)
    assert (own.message, own.status, own.code) == ("No.", 499, code)


def test_a_used_up_plan_tells_its_wait_in_its_body_alone() -> None:
    fault = parse_fault("error:usage_limit_reached,90", HEADER)
    assert (fault.retry_after_s, fault.resets_in_s) == (None, 90.0)


@pytest.mark.parametrize(
    ("value", "param", "code"),
    [
        ("nope", "", "invalid_value"),
        ("", "", "invalid_value"),
        ("none:1", "", "invalid_value"),
        ("fail_after", "", "invalid_value"),
        ("fail_after:", "", "invalid_value"),
        ("fail_after:1,2,3", "", "invalid_value"),
        ("fail_after:-1", "", "integer_below_min_value"),
        ("fail_after:1.5", "", "invalid_type"),
        ("fail_after:many", "", "invalid_type"),
        ("stall_after:3", "", "invalid_value"),
        ("slice:0", "", "integer_below_min_value"),
        ("error:200", "", "integer_below_min_value"),
        ("error:600", "", "integer_above_max_value"),
        ("error:odd", "", "invalid_value"),
        ("error:429,-1", "", "decimal_below_min_value"),
        (3, "", "invalid_type"),
        ([], "", "invalid_type"),
        ({}, ".name", "missing_required_parameter"),
        ({"name": "nope"}, ".name", "invalid_value"),
        ({"name": 1}, ".name", "invalid_type"),
        ({"name": "fail_after"}, ".tokens", "missing_required_parameter"),
        ({"name": "fail_after", "tokens": None}, ".tokens", "missing_required_parameter"),
        ({"name": "fail_after", "tokens": "3"}, ".tokens", "invalid_type"),
        ({"name": "stall_after", "tokens": 3}, ".ms", "missing_required_parameter"),
        ({"name": "slice", "tokens": 3}, ".tokens", "unknown_parameter"),
        ({"name": "error", "status": 99}, ".status", "integer_below_min_value"),
        ({"name": "error", "preset": "odd"}, ".preset", "invalid_value"),
    ],
)
def test_a_bad_fault_is_refused_by_name(value: Any, param: str, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_fault(value, BODY)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, BODY + param, code)


def test_every_name_is_one_that_text_can_say() -> None:
    arguments = {"fail_after": ":1", "drop_after": ":1", "stall_after": ":1,2"}
    for name in NAMES:
        assert parse_fault(name + arguments.get(name, ""), HEADER).name == name


MS, S = 1_000_000, 1_000_000_000


@pytest.mark.parametrize(
    ("wait_ns", "words", "reset", "seconds", "ms"),
    [
        (0, "0ms", "0ms", "0", "0"),
        (1, "1ms", "1ms", "1", "1"),
        (12 * MS, "12ms", "12ms", "1", "12"),
        (999 * MS + 1, "1s", "1s", "1", "1000"),
        (S + 200 * MS, "1.2s", "1.2s", "2", "1200"),
        (75 * S + 1, "75.001s", "1m15.001s", "76", "75001"),
        (360 * S, "360s", "6m0s", "360", "360000"),
        (3603 * S, "3603s", "1h0m3s", "3603", "3603000"),
    ],
)
def test_a_wait_in_words(wait_ns: int, words: str, reset: str, seconds: str, ms: str) -> None:
    assert wait_text(wait_ns) == words
    assert reset_text(wait_ns) == reset
    assert retry_headers(wait_ns) == {"Retry-After": seconds, "retry-after-ms": ms}
