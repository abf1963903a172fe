from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from paceline.recording.document import Request
from paceline.recording.match import VOLATILE, Match, Tape, canonical, redacted
from tests.recording.rig import exchange

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "n": 1}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "other",
    [
        dict(reversed(BODY.items())),
        {**BODY, "n": 1.0},
        {**BODY, "user": "somebody", "metadata": {"run": "7"}, "prompt_cache_key": "x"},
    ],
)
def test_bodies_that_are_the_same(other: Any) -> None:
    assert canonical(encoded(other)) == canonical(json.dumps(BODY, indent=3).encode())


@pytest.mark.parametrize(
    "other",
    [
        {**BODY, "stream": True},
        {**BODY, "n": 1.5},
        {**BODY, "messages": [{"role": "user", "content": "hi "}]},
        # Only at the top is it the request's own.
        {**BODY, "messages": [{"role": "user", "content": "hi", "user": "x"}]},
    ],
)
def test_bodies_that_are_not(other: Any) -> None:
    assert canonical(encoded(other)) != canonical(encoded(BODY))


@pytest.mark.parametrize("body", [b"", b"text", b"{broken", b"\xff", b"[" * 100_000])
def test_what_isnt_json_is_compared_as_it_is(body: bytes) -> None:
    assert canonical(body) == body


def test_recordings_of_one_key_answer_in_turn() -> None:
    tape = Tape([exchange((1, data), body=BODY) for data in (b"1", b"2", b"3")])
    key = tape.key("POST", "/chat/completions", "", encoded(BODY))
    found = [tape.take(key) for _ in range(7)]
    assert [each.body for each in found if each] == [b"1", b"2", b"3", b"1", b"2", b"3", b"1"]


@pytest.mark.parametrize(
    ("match", "path", "body", "hits"),
    [
        ("body", "/v1/chat/completions", BODY, True),
        ("body", "/chat/completions", BODY, True),
        ("body", "/v1/chat/completions", {"model": "m"}, False),
        ("path", "/v1/chat/completions", {"model": "m"}, True),
        ("path", "/v1/responses", BODY, False),
        ("order", "/v1/responses", {}, True),
    ],
)
def test_how_much_has_to_be_the_same(match: Match, path: str, body: Any, hits: bool) -> None:
    tape = Tape([exchange((1, b"x"), body=BODY)], match)
    assert (tape.take(tape.key("POST", path, "", encoded(body))) is not None) is hits


@pytest.mark.parametrize(
    ("upstream", "recorded", "asked"),
    [
        ("https://api.test/v1", "/models", "/v1/models"),
        ("https://api.test", "/v1/models", "/v1/models"),
        ("https://api.test", "/v1/models", "/models"),
        ("https://api.test/api/v1", "/models", "/v1/models"),
        ("https://api.test/api/v1", "/models", "/api/v1/models"),
        ("https://api.test/openai", "/v1/models", "/openai/v1/models"),
    ],
)
def test_the_base_address_is_not_part_of_a_path(upstream: str, recorded: str, asked: str) -> None:
    one = replace(exchange((1, b"x"), upstream=upstream), request=Request("GET", recorded))
    tape = Tape([one])
    assert tape.take(tape.key("GET", asked, "", b"")) is one


def test_a_querys_order_doesnt_count_but_its_values_do() -> None:
    one = replace(exchange((1, b"x")), request=Request("GET", "/items", "a=1&b=2"))
    tape = Tape([one])
    assert tape.take(tape.key("GET", "/v1/items", "b=2&a=1", b"")) is one
    assert tape.take(tape.key("GET", "/v1/items", "b=2&a=3", b"")) is None


def test_two_callers_keys_make_no_difference() -> None:
    found = []
    for key in ("first-key-of-somebody", "second-and-longer-key-of-another"):
        body = encoded({"input": f"my key is {key}", "api_key": key})
        found.append(redacted([("authorization", f"Bearer {key}")], f"key={key}", body))
    assert found[0] == found[1]


def test_only_what_has_its_end_is_on_tape() -> None:
    tape = Tape(
        [
            exchange((1, b"x"), end="client_left"),
            exchange((1, b"y"), end="recorder_stopped"),
            exchange((1, b"z"), end="upstream_dropped"),
        ]
    )
    assert [each.body for each in tape.exchanges] == [b"z"]
    assert tape.left_out == 2


def test_a_miss_names_what_was_looked_for_and_what_is_nearest() -> None:
    far = {"model": "m", "messages": [], "tools": [{}]}
    near = {**BODY, "messages": [{"role": "user", "content": "ho"}], "user": "x"}
    tape = Tape([exchange((1, b"x"), body=far), exchange((1, b"x"), body=near)])
    said = tape.miss("POST", "/v1/chat/completions", "", encoded(BODY))
    assert said.startswith("No recording of POST /chat/completions with this body (key ")
    assert said.endswith("The nearest of 2 differs in messages[0].")
    said = tape.miss("GET", "/v1/models", "limit=1", b"")
    assert said == "No recording of GET /models?limit=1; there is POST /chat/completions."
    assert "the body" in tape.miss("POST", "/chat/completions", "", b"not json")


def test_the_volatile_fields_are_the_documented_ones() -> None:
    assert {
        "client_metadata", "metadata", "prompt_cache_key", "safety_identifier", "stream_id", "user",
    } == VOLATILE  # fmt: skip
