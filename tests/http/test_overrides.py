"""What one request fixes for itself, by header and by body; and the models without a file."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.live import CHAT, COMPLETIONS, EMBEDDINGS, Server, chat, compl, content_of, contents


def usage(server: Server, model: str, headers: dict[str, str] | None = None, **own: Any) -> Any:
    body = chat(model, paceline=own or None)
    return server.post(CHAT, body, headers).object["usage"]


@pytest.mark.parametrize("model", ["quick", "instant", "flat-1000"])
def test_output_and_reasoning_tokens(server: Server, model: str) -> None:
    assert usage(server, model, output_tokens=77)["completion_tokens"] == 77
    assert usage(server, model, {"X-Paceline-Output-Tokens": "33"})["completion_tokens"] == 33
    found = usage(server, model, output_tokens=50, reasoning_tokens=20)
    assert found["completion_tokens"] == 50
    assert found["completion_tokens_details"]["reasoning_tokens"] == 20
    found = usage(server, model, {"x-paceline-reasoning-tokens": "5"}, output_tokens=6)
    assert found["completion_tokens_details"]["reasoning_tokens"] == 5


def test_a_header_beats_the_body(server: Server) -> None:
    found = usage(server, "quick", {"X-Paceline-Output-Tokens": "3"}, output_tokens=9)
    assert found["completion_tokens"] == 3


def test_max_tokens_still_holds(server: Server) -> None:
    body = chat("quick", max_tokens=4, paceline={"output_tokens": 9})
    answer = server.post(CHAT, body).object
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["choices"][0]["finish_reason"] == "length"


def test_a_seed_decides_the_text(server: Server) -> None:
    def text(headers: dict[str, str] | None = None, **fields: Any) -> str:
        return content_of(server.post(CHAT, chat("instant", **fields), headers).object)

    assert text(paceline={"seed": 5}) == text({"X-Paceline-Seed": "5"}) == text(seed=5)
    assert text(seed=1, paceline={"seed": 5}) == text(seed=5) != text(seed=1)


@pytest.mark.realtime
@pytest.mark.parametrize("model", ["quick", "instant", "flat-40"])
@pytest.mark.parametrize("by", ["header", "body"])
def test_rate_and_time_to_first_token(server: Server, model: str, by: str) -> None:
    own = {"ttft_ms": 150, "rate": 200, "output_tokens": 41}
    if by == "body":
        answer = server.post(CHAT, chat(model, stream=True, paceline=own))
    else:
        headers = {
            "X-Paceline-TTFT-Ms": "150",
            "X-Paceline-Rate": "200",
            "X-Paceline-Output-Tokens": "41",
        }
        answer = server.post(CHAT, chat(model, stream=True), headers)
    record = server.record(answer.header("x-request-id") or "")
    assert record["times_ms"]["first_token_due"] == pytest.approx(150.0, abs=1e-3)
    assert record["split_ms"]["decode"] == pytest.approx(200.0, abs=1e-3)
    first, last = answer.arrivals[0][0], answer.arrivals[-1][0]
    assert last - first == pytest.approx(0.2, abs=0.15)


@pytest.mark.realtime
@pytest.mark.parametrize("model", ["quick", "instant", "flat-500", "narrow"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("own", [{"ttft_ms": 0}, {"ttft_ms": 100}, {"rate": 2000}, {"rate": 1e9}])
def test_either_of_the_two_alone(
    server: Server, model: str, stream: bool, own: dict[str, float]
) -> None:
    answer = server.post(CHAT, chat(model, stream=stream, max_tokens=5, paceline=own))
    assert answer.status == 200
    record = server.record(answer.header("x-request-id") or "")
    assert record["state"] == "finished"
    if "ttft_ms" in own:
        due_ms = record["times_ms"]["first_token_due"]
        assert own["ttft_ms"] <= due_ms + 1e-3 < own["ttft_ms"] + 50
    for other in (chat(model, max_tokens=1), chat("flat-500", max_tokens=1)):
        assert server.post(CHAT, other).status == 200


@pytest.mark.realtime
def test_an_own_clock_takes_no_slot(server: Server) -> None:
    """One may run at a time, but this one isn't there."""
    server.wait_idle("narrow")
    start = time.monotonic()
    answer = server.post(CHAT, chat("narrow", max_tokens=2, paceline={"rate": 1000.0}))
    assert answer.status == 200
    assert time.monotonic() - start < 1.0


@pytest.mark.parametrize("name", ["ttft_ms", "rate", "output_tokens", "seed", "mode", "nope"])
def test_bad_ones_are_refused_by_name(server: Server, name: str) -> None:
    answer = server.post(CHAT, chat("quick", paceline={name: [1]}))
    assert answer.status == 400
    assert answer.error["param"] == f"paceline.{name}"
    header = f"X-Paceline-{name.replace('_', '-').title()}"
    answer = server.post(CHAT, chat("quick"), {header: "no, thanks"})
    assert answer.status == 400
    assert (answer.error["param"] or "").lower() == header.lower()


@pytest.mark.parametrize("text", ["Hello, you.", "", " ", "日本 👩‍🚀", "\r\n\tb", "<|endoftext|>"])
@pytest.mark.parametrize("model", ["quick", "instant"])
def test_echo_says_it_back(server: Server, model: str, text: str) -> None:
    for body in (
        chat(model, text, paceline={"mode": "echo"}),
        chat(model, [{"type": "text", "text": text}], paceline={"mode": "echo"}),
    ):
        assert content_of(server.post(CHAT, body).object) == text
        assert contents(server.post(CHAT, {**body, "stream": True}).events) == text
    answer = server.post(
        COMPLETIONS, compl(model, text, max_tokens=50), {"X-Paceline-Mode": "echo"}
    )
    assert answer.object["choices"][0]["text"] == text


def test_echo_takes_the_last_of_the_user(server: Server) -> None:
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": "last"},
        {"role": "assistant", "content": "neither"},
    ]
    body = {"model": "instant", "messages": messages, "paceline": {"mode": "echo"}}
    assert content_of(server.post(CHAT, body).object) == "last"


@pytest.mark.realtime
@pytest.mark.parametrize(
    ("model", "step_ms"), [("flat-40", 25.0), ("flat-1250.5", 0.79968), ("flat-100", 10.0)]
)
def test_flat_rates(server: Server, model: str, step_ms: float) -> None:
    answer = server.post(CHAT, chat(model, stream=True, max_tokens=11, ignore_eos=True))
    record = server.record(answer.header("x-request-id") or "")
    assert record["split_ms"]["decode"] == pytest.approx(10 * step_ms, abs=1e-4)
    dues = [chunk["due_ms"] for chunk in record["choices"][0]["chunks"]]
    assert dues[0] < 50.0


@pytest.mark.parametrize("name", ["flat-0", "flat-", "flat--1", "flat-1e9", "flat-nan", "Instant"])
def test_rates_that_are_none(server: Server, name: str) -> None:
    assert server.post(CHAT, chat(name)).status == 404


@pytest.mark.realtime
def test_instant_takes_no_time(server: Server) -> None:
    body = chat("instant", max_tokens=20_000, ignore_eos=True)
    server.post(CHAT, body)
    for stream in (True, False):
        start = time.monotonic()
        answer = server.post(CHAT, {**body, "stream": stream})
        assert time.monotonic() - start < 2.0, "at 1000 a second it would take 20"
        assert len(contents(answer.events) if stream else content_of(answer.object)) > 20_000


@pytest.mark.realtime
def test_embeddings_take_the_time_they_are_told(server: Server) -> None:
    start = time.monotonic()
    body = {"model": "quick", "input": "x", "paceline": {"ttft_ms": 200}}
    assert server.post(EMBEDDINGS, body).status == 200
    assert time.monotonic() - start >= 0.2
