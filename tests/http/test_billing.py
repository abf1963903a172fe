"""What every way to an answer's end leaves in the ledger, and what the client hears of its cost."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from websockets.sync.client import connect

from paceline.runtime.ledger.questions import Line
from tests.http.broken import DIALECTS, MESSAGES, RESPONSES, body, create, fault, receive
from tests.http.site import HeldUp, Site, site
from tests.live import CHAT, COMPLETIONS, EMBEDDINGS, PATIENCE_S, Wire, wait_until

STREAMS = (True, False)
MODELS = ("quick", "instant")


@pytest.fixture(scope="module")
def server() -> Iterator[Site]:
    with site(price_date="2026-09-01") as running:
        yield running


def last(server: Site) -> Line:
    """The latest entry, with nothing left open."""
    server.at_rest()
    return server.entries()[0]


def spent(line: Line) -> tuple[int, int]:
    return line.prompt_tokens, line.completion_tokens


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("path", DIALECTS)
def test_finished(server: Site, path: str, stream: bool, model: str) -> None:
    answer = server.post(path, body(path, model, stream=stream), {"X-Request-Id": "mine"})
    assert answer.status == 200
    entry = last(server)
    assert (entry.state, entry.endpoint, entry.stream) == ("finished", path, stream)
    assert (entry.request_id, entry.model, entry.profile) == ("mine", model, model)
    assert entry.completion_tokens == 10
    assert entry.prompt_tokens > 0
    assert entry.id in answer.text


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("path", DIALECTS)
def test_faults_cost_nothing_and_leave_nothing_held(server: Site, path: str, stream: bool) -> None:
    known = len(server.entries())
    refused = server.post(path, body(path, stream=stream, **fault("error:rate_limit")))
    assert refused.status == 429
    server.at_rest()
    assert len(server.entries()) == known, "who was refused is no entry"
    sent = {"fail_after:3": 3, "drop_after:3": 3, "fail_after:0": 0, "drop_after:10": 10}
    for asked, tokens in sent.items():
        with Wire(server) as wire:
            headers = {"Connection": "close"}
            wire.send("POST", path, body(path, stream=stream, **fault(asked)), headers)
            while wire.more():
                pass
        entry = last(server)
        assert entry.state == "failed", asked
        assert (entry.usd, entry.credits) == (0, 0)
        assert entry.completion_tokens == (tokens if stream else 0)
    for asked in ("stall_after:3,20", "none", *(("slice",) if stream else ())):
        assert server.post(path, body(path, stream=stream, **fault(asked))).status == 200
        entry = last(server)
        assert (entry.state, entry.completion_tokens) == ("finished", 10)


@pytest.mark.parametrize("path", DIALECTS)
def test_a_client_that_leaves_pays_for_what_was_sent(server: Site, path: str) -> None:
    asked = body(path, "gpt-5.6-sol", stream=True)
    asked["max_output_tokens" if path == RESPONSES else "max_tokens"] = 5000
    asked["paceline"] = {"output_tokens": 5000, "reasoning_tokens": 0, "ttft_ms": 0, "rate": 1000}
    with Wire(server) as wire:
        wire.send("POST", path, asked)
        seen = b""
        while seen.count(b"data:") < 30:
            seen += wire.more()
    entry = last(server)
    assert entry.state == "cut"
    assert entry.prompt_tokens > 0
    assert 10 <= entry.completion_tokens < 5000
    assert entry.usd == (entry.prompt_tokens * 4 + entry.completion_tokens * 20) * 10**6


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("path", DIALECTS)
def test_a_client_that_leaves_before_its_prompt_is_read_pays_nothing(
    server: Site, path: str, stream: bool
) -> None:
    with Wire(server) as wire:
        wire.send("POST", path, body(path, "gpt-5.6-sol", stream=stream))
        wait_until(lambda: server.metrics().value("paceline_holds") == 1, "it is let in")
    entry = last(server)
    assert (entry.state, entry.usd, entry.credits, *spent(entry)) == ("cut", 0, 0, 0, 0)


def test_embeddings_are_entries_without_a_price(server: Site) -> None:
    answer = server.post(EMBEDDINGS, {"model": "gpt-5.6-sol", "input": ["one", "two words"]})
    assert answer.status == 200
    entry = last(server)
    assert (entry.state, entry.endpoint, entry.billed_as) == ("finished", EMBEDDINGS, "")
    assert spent(entry) == (answer.object["usage"]["prompt_tokens"], 0)
    assert (entry.usd, entry.credits) == (None, None)
    known = len(server.entries())
    for wrong in (
        {"model": "gpt-5.6-sol", "input": []},
        {"model": "gpt-5.6-sol", "input": ["x" * 99_999]},
    ):
        assert server.post(EMBEDDINGS, wrong).status == 400
    server.post(MESSAGES + "/count_tokens", {"model": "instant", "messages": []})
    server.at_rest()
    assert len(server.entries()) == known


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"model": "instant", "max_tokens": -1}, 400),
        ({"model": "instant", "stop": 7}, 400),
        ({"model": "instant", "paceline": {"fault": "error:overloaded"}}, 503),
        ({"model": "quick", "max_tokens": 10**8}, 400),
        ({"model": "quick", "messages": [{"role": "user", "content": "word " * 5000}]}, 400),
    ],
)
def test_who_is_refused_is_no_entry_but_counted(
    server: Site, changes: dict[str, Any], status: int
) -> None:
    known, before = len(server.entries()), server.metrics().value("paceline_refusals_total")
    assert server.post(CHAT, {**body(CHAT), **changes}).status == status
    server.at_rest()
    assert len(server.entries()) == known
    assert server.metrics().value("paceline_refusals_total") == before + 1


def test_refusals_have_few_reasons(server: Site) -> None:
    for number in range(3):
        server.post(CHAT, body(CHAT, **fault({"name": "error", "code": f"invented_{number}"})))
        server.post(CHAT, {**body(CHAT), f"n{number}": 1, "n": -1})
    family = server.metrics().families["paceline_refusals"]
    reasons = {sample.labels["reason"] for sample in family.samples}
    assert {"invalid_request", "fault"} <= reasons
    assert not [reason for reason in reasons if "invented" in reason]


# -- over a WebSocket, and in the background -------------------------------------------------------


def test_over_a_websocket(server: Site) -> None:
    url = f"ws://{server.host}:{server.port}{RESPONSES}"
    with connect(url, proxy=None) as socket:
        for asked, state, tokens in (
            ("none", "finished", 10),
            ("fail_after:3", "failed", 3),
            ("stall_after:3,20", "finished", 10),
        ):
            create(socket, **fault(asked))
            receive(socket)
            entry = last(server)
            assert (entry.state, entry.completion_tokens) == (state, tokens)
            assert (entry.endpoint, entry.stream) == (RESPONSES, True)
        create(socket, model="gpt-5.6-sol")
        json.loads(socket.recv(PATIENCE_S))
        socket.send(json.dumps({"type": "response.cancel"}))
        assert receive_until(socket, "response.incomplete")["response"]["status"] == "cancelled"
        assert last(server).state == "cut"
        create(socket, model="gpt-5.6-sol")
        json.loads(socket.recv(PATIENCE_S))
    assert last(server).state == "cut"
    with connect(url, proxy=None) as socket:
        create(socket, **fault("drop_after:3"))
        time.sleep(0.1)
    assert last(server).state == "failed"


def receive_until(socket: Any, kind: str) -> dict[str, Any]:
    while True:
        frame: dict[str, Any] = json.loads(socket.recv(PATIENCE_S))
        if frame["type"] == kind:
            return frame


@pytest.mark.parametrize("model", MODELS)
def test_in_the_background(server: Site, model: str) -> None:
    answer = server.post(RESPONSES, body(RESPONSES, model, background=True))
    assert answer.object["status"] in {"queued", "completed"}
    entry = last(server)
    assert (entry.id, entry.state, entry.completion_tokens) == (answer.object["id"], "finished", 10)


def test_cancelled_in_the_background(server: Site) -> None:
    answer = server.post(RESPONSES, body(RESPONSES, "gpt-5.6-sol", background=True))
    server.post(f"{RESPONSES}/{answer.object['id']}/cancel", {})
    assert last(server).state == "cut"
    server.post(f"{RESPONSES}/{answer.object['id']}/cancel", {})
    server.at_rest()


# -- ends that wait for the disk -------------------------------------------------------------------


@pytest.fixture
def held_up(tmp_path: Path) -> Iterator[tuple[Site, HeldUp]]:
    with site(ledger="off") as running:
        ledger = HeldUp(tmp_path / "ledger.sqlite")
        engine = running.server.app.engine
        engine.ledger = running.server.app.ledger = ledger
        yield running, ledger
        ledger.go.set()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("path", DIALECTS)
def test_all_but_the_end_leaves_before_the_commit(
    held_up: tuple[Site, HeldUp], path: str, model: str
) -> None:
    server, ledger = held_up
    ends = {RESPONSES: b"response.completed", MESSAGES: b"message_stop"}
    end = ends.get(path, b"[DONE]")
    with Wire(server) as wire:
        wire.send("POST", path, body(path, model, stream=True))
        seen = b""
        # The last thing but the end itself, which each dialect has before it.
        marks = {RESPONSES: b"response.output_item.done", MESSAGES: b"content_block_stop"}
        while marks.get(path, b'"finish_reason":"stop"') not in seen:
            seen += wire.more()
        time.sleep(0.05)
        wire.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            wire.socket.recv(1)
        assert end not in seen
        wire.socket.settimeout(PATIENCE_S)
        assert [line.state for line in server.entries()] == ["finished"]
        ledger.go.set()
        while end not in seen:
            seen += wire.more()
    assert [line.state for line in server.entries()] == ["finished"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("path", [*DIALECTS, EMBEDDINGS])
def test_a_whole_answer_leaves_after_the_commit(
    held_up: tuple[Site, HeldUp], path: str, model: str
) -> None:
    server, ledger = held_up
    asked = {"model": model, "input": "x"} if path == EMBEDDINGS else body(path, model)
    with Wire(server) as wire:
        wire.send("POST", path, asked)
        wait_until(lambda: ledger.waiting == 1, "it is settled")
        wire.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            wire.socket.recv(1)
        wire.socket.settimeout(PATIENCE_S)
        ledger.go.set()
        assert wire.read().status == 200


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("path", DIALECTS)
def test_a_client_that_leaves_in_the_gap_has_had_its_answer(
    held_up: tuple[Site, HeldUp], path: str, stream: bool, model: str
) -> None:
    server, ledger = held_up
    with Wire(server) as wire:
        wire.send("POST", path, body(path, model, stream=stream))
        wait_until(lambda: ledger.waiting == 1, "it is settled")
    time.sleep(0.05)
    ledger.go.set()
    server.at_rest()
    assert [line.state for line in server.entries()] == ["finished"]
    assert server.post(path, body(path, model)).status == 200, "the server goes on"


def test_a_frame_and_a_background_state_wait_too(held_up: tuple[Site, HeldUp]) -> None:
    server, ledger = held_up
    url = f"ws://{server.host}:{server.port}{RESPONSES}"
    with connect(url, proxy=None) as socket:
        create(socket)
        kinds: list[str] = []
        with contextlib.suppress(TimeoutError):
            while True:
                kinds.append(json.loads(socket.recv(0.3))["type"])
        assert kinds[-1] == "response.output_item.done"
        assert ledger.waiting == 1
        ledger.go.set()
        assert receive(socket)[-1]["type"] == "response.completed"
    ledger.go.clear()
    response = server.post(RESPONSES, body(RESPONSES, background=True)).object["id"]
    wait_until(lambda: ledger.waiting == 2, "it is settled")
    assert _status(server, response) == "in_progress"
    ledger.go.set()
    wait_until(lambda: _status(server, response) == "completed", "it is told")
    assert Counter(line.state for line in server.entries()) == {"finished": 2}


def test_a_socket_that_closes_in_the_gap(held_up: tuple[Site, HeldUp]) -> None:
    server, ledger = held_up
    url = f"ws://{server.host}:{server.port}{RESPONSES}"
    for number, model in enumerate(MODELS, 1):
        with connect(url, proxy=None) as socket:
            create(socket, model=model)
            wait_until(lambda: ledger.waiting == number, "it is settled")  # noqa: B023 - asked now
    time.sleep(0.05)
    ledger.go.set()
    server.at_rest()
    assert [line.state for line in server.entries()] == ["finished", "finished"]
    assert server.post(RESPONSES, body(RESPONSES)).status == 200, "the server goes on"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("path", DIALECTS)
def test_an_encoder_that_breaks_in_the_middle_has_failed(
    path: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def broken(self: object, start: int, stop: int) -> bytes:
        calls.append(start)
        raise RuntimeError("broken")

    for module, name in (
        ("paceline.wire.choice", "Choice"),
        ("paceline.wire.responses.choice", "ResponseChoice"),
        ("paceline.wire.anthropic.encode", "_Message"),
    ):
        monkeypatch.setattr(f"{module}.{name}.tokens", broken)
    with site() as server:
        with Wire(server) as wire:
            wire.send("POST", path, body(path, model, stream=True), {"Connection": "close"})
            while wire.more():
                pass
        entry = last(server)
        assert (entry.state, entry.usd, entry.completion_tokens) == ("failed", 0, 0)
        assert server.metrics().value("paceline_streams_aborted_total", cause="error") == 1
    assert calls


def _status(server: Site, response: str) -> str:
    with Wire(server) as wire:
        wire.send("GET", f"{RESPONSES}/{response}", headers={"Connection": "close"})
        return str(wire.read().object["status"])


def test_a_server_that_stops_settles_what_is_under_way(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with contextlib.ExitStack() as later, site(ledger=str(path)) as server:
        # It stays until the server has gone.
        wire = later.enter_context(Wire(server))
        asked = body(CHAT, "gpt-5.6-sol", stream=True)
        asked["paceline"] = {"output_tokens": 50, "reasoning_tokens": 0, "ttft_ms": 0, "rate": 10}
        wire.send("POST", CHAT, asked)
        wire.until(b"content")
    with site(ledger=str(path)) as again:
        (entry,) = again.entries()
    assert (entry.state, entry.usd) == ("failed", 0)
    assert entry.completion_tokens >= 1


def test_churn_leaves_nothing_held_and_every_bill_once(tmp_path: Path) -> None:
    """Many at once, of every kind, some of which go wrong and some of whose clients leave."""
    faults_of = ["", "", "", "fail_after:4", "drop_after:4", "stall_after:4,10", "error:overloaded"]

    def one(where: Site, number: int) -> bool:
        draw = random.Random(number)
        path, stream = draw.choice(DIALECTS), draw.random() < 0.7
        asked = priced(path, draw.choice(["gpt-5.6-sol", "quick", "instant"]), stream=stream)
        asked["paceline"].update({"output_tokens": draw.randrange(200), "rate": 2000})
        wrong = draw.choice(faults_of)
        if wrong:
            asked["paceline"]["fault"] = wrong
        with contextlib.suppress(ConnectionError), Wire(where) as wire:
            wire.send("POST", path, asked, {"Connection": "close", "X-Request-Id": f"r{number}"})
            if draw.random() < 0.4:
                time.sleep(draw.random() * 0.1)
            else:
                while wire.more():
                    pass
        return wrong != "error:overloaded"

    with site(ledger=str(tmp_path / "ledger.sqlite"), price_date="2026-09-01") as server:
        with ThreadPoolExecutor(32) as pool:
            let_in = list(pool.map(partial(one, server), range(300)))
        server.at_rest()
        entries = server.entries()
        metrics = server.metrics()
    known = {entry.request_id for entry in entries}
    assert len(entries) == len(known)
    # Of those who left at once some were never let in.
    assert known <= {f"r{number}" for number, was in enumerate(let_in) if was}
    assert len(known) > 200
    assert {entry.state for entry in entries} == {"finished", "cut", "failed"}
    assert metrics.value("paceline_held_usd") == 0
    paid = sum(entry.usd or 0 for entry in entries)
    assert metrics.value("paceline_cost_usd_total") == pytest.approx(paid / 10**12, rel=1e-12)
    assert all(not entry.usd for entry in entries if entry.state == "failed")


# -- what the client hears -------------------------------------------------------------------------


def priced(path: str, model: str = "gpt-5.6-sol", **fields: Any) -> dict[str, Any]:
    made = body(path, model, **fields)
    made["paceline"].update({"ttft_ms": 0, "rate": 100_000, **fields.get("paceline", {})})
    return made


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("path", DIALECTS)
def test_headers_tell_the_exact_cost(server: Site, path: str, stream: bool) -> None:
    answer = server.post(path, priced(path, stream=stream))
    entry = last(server)
    assert answer.header("x-paceline-tier") == "default"
    usd, credit = 4 * entry.prompt_tokens + 200, 100 * entry.prompt_tokens + 5000
    assert (entry.usd, entry.credits) == (usd * 10**6, credit * 10**6)
    if stream and path == RESPONSES:
        # Its headers leave before its prompt is looked for in the cache.
        assert answer.header("x-paceline-cost-usd") is None
        return
    assert answer.header("x-paceline-cost-usd") == f"0.{usd:06}".rstrip("0")
    assert answer.header("x-paceline-credits") == f"0.{credit:06}".rstrip("0")


def test_what_has_no_published_rate_has_no_cost(server: Site) -> None:
    before = server.metrics().value("paceline_unpriced_requests_total", unit="usd")
    answer = server.post(CHAT, priced(CHAT, "gpt-5.3-codex-spark"))
    assert answer.status == 200
    assert answer.header("x-paceline-cost-usd") is None
    assert answer.header("x-paceline-credits") is None
    entry = last(server)
    assert (entry.billed_as, entry.usd, entry.credits) == ("gpt-5.3-codex-spark", None, None)
    after = server.metrics().value("paceline_unpriced_requests_total", unit="usd")
    assert after == before + 1


def object_of(path: str, text: str) -> dict[str, Any]:
    """The `paceline` object of a stream, and what it stands in, checked by OpenAI's types."""
    found = []
    for line in text.splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line.removeprefix("data: "))
        if path == CHAT:
            ChatCompletionChunk.model_validate(event)
        holder = event.get("response", event) if path == RESPONSES else event
        if "paceline" in holder:
            assert holder["usage"] is not None
            assert "paceline" not in holder["usage"]
            if path == RESPONSES:
                Response.model_validate(holder)
            found.append(holder["paceline"])
    assert len(found) == 1
    return dict(found[0])


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("path", DIALECTS)
def test_the_cost_in_the_body_where_it_is_wanted(server: Site, path: str, stream: bool) -> None:
    options = (
        {"stream_options": {"include_usage": True}}
        if stream and path in {CHAT, COMPLETIONS}
        else {}
    )
    fast = {"speed": "fast"} if path == MESSAGES else {"service_tier": "priority"}
    model = "claude-opus-4-8" if path == MESSAGES else "gpt-5.6-sol"
    asked = priced(path, model, stream=stream, **options, **fast)
    plain = server.post(path, asked)
    assert '"paceline"' not in plain.text
    asked["paceline"]["cost_in_body"] = True
    for headers in ({}, {"X-Paceline-Cost-In-Body": "true"}):
        answer = server.post(path, asked, headers)
        assert answer.status == 200, answer.text
        if stream:
            told = object_of(path, answer.text)
        else:
            told = answer.object["paceline"]
            if path == CHAT:
                ChatCompletion.model_validate(answer.object)
        entry = last(server)
        assert (told["tier_asked"], told["tier_served"]) == (
            "fast" if path == MESSAGES else "priority",
            "priority",
        )
        assert told["profile"] == entry.profile
        assert round(float(told["cost_usd"]) * 10**12) == entry.usd
        assert told["rates_since"] == (None if path == MESSAGES else "2026-08-21")
        asked["paceline"]["cost_in_body"] = None


def test_the_setting_and_the_request_s_own_word() -> None:
    with site(cost_in_body=True) as server:
        assert server.post(CHAT, body(CHAT)).object["paceline"]["cost_usd"] is None
        without = {"X-Paceline-Cost-In-Body": "false"}
        assert "paceline" not in server.post(CHAT, body(CHAT), without).object
        wrong = server.post(CHAT, body(CHAT), {"X-Paceline-Cost-In-Body": "perhaps"})
        assert wrong.error["param"] == "X-Paceline-Cost-In-Body"


def test_the_record_of_a_request_has_its_bill(server: Site) -> None:
    server.post(CHAT, priced(CHAT, service_tier="flex"), {"X-Request-Id": "billed"})
    record = server.server.record("billed")
    entry = last(server)
    assert (record["service_tier"], record["service_tier_asked"]) == ("flex", "flex")
    assert record["bill"] == {
        "billed_as": "gpt-5.6-sol",
        "cost_usd": f"0.{entry.usd // 10**6:06}".rstrip("0") if entry.usd else None,
        "credits": None,
        "prompt_tokens": entry.prompt_tokens,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": 10,
        "reasoning_tokens": 0,
    }
    assert entry.usd == (2 * entry.prompt_tokens + 100) * 10**6, "half of standard"
