"""The openai package under limits, judged as run_limits.py judges every client; and the judge."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
import run_limits
from limits import LIMITS, Limit, staged
from limits_clients import CLIENTS, OPENAI, Asked, Ran
from limits_judge import WrongError, judge, waits
from limits_stage import MODEL, spend_requests
from limits_tap import Exchange, Message, Tap

BY_NAME = {limit.name: limit for limit in LIMITS}


# -- the package, in this process ----------------------------------------------------------------


def _ask(asked: Asked) -> Ran:
    tier: Any = {"service_tier": asked.tier} if asked.tier else {}
    begun = time.monotonic()
    said = ""
    with openai.OpenAI(base_url=asked.url + "/v1", api_key=asked.key) as client:
        try:
            with client.chat.completions.create(
                model=asked.model,
                messages=[{"role": "user", "content": "Say hello."}],
                max_tokens=10,
                stream=True,
                **tier,
            ) as stream:
                assert list(stream)
        except openai.APIError as error:
            said = f"{type(error).__name__}: {error.message}"
    return Ran(not said, said, time.monotonic() - begun, begun)


QUICK = replace(OPENAI, run=_ask)


def _do(limit: Limit, folder: Path) -> str:
    with staged(limit, folder) as stage:
        known = {record["id"] for record in stage.server.records()}
        tier = QUICK.tier if limit.tier else None
        ran = QUICK.run(Asked(stage.server.url, limit.with_key, MODEL, folder, tier))
        records = [record for record in stage.server.records() if record["id"] not in known]
        return judge(limit, QUICK, ran, stage.tap.exchanges, records)


def test_it_waits_as_told_and_then_succeeds(tmp_path: Path) -> None:
    # One every 3 s.
    limit = replace(BY_NAME["requests a minute"], key="rpm = 20", before=spend_requests(20))
    assert _do(limit, tmp_path).endswith("then answered")


@pytest.mark.parametrize(
    ("name", "did"),
    [
        ("requests a day", "429: stops at once"),
        ("5-hour window", "429: stops at once"),
        ("budget in dollars", "429: stops at once"),
        ("wrong key", "401: stops at once"),
        ("tier not entitled, `default`", "answered, as `default`"),
        ("tier not entitled, `refuse`", "403: stops at once"),
        ("tier full, `default`", "answered, as `default`"),
    ],
)
def test_it_does_as_the_table_says(name: str, did: str, tmp_path: Path) -> None:
    assert _do(BY_NAME[name], tmp_path) == did


# -- the judge -----------------------------------------------------------------------------------

WAITS = Limit("l", "waits")
STOPS = Limit("l", "stops", words="spent", code="gone")
DONE = Ran(True, "", 1.0, 0.0)
GONE = Ran(False, "all spent", 1.0, 0.0)
STUCK = Ran(False, "", 9.0, 0.0, stopped=True)


def _refused(
    at: float, told_ms: int | None = None, code: str = "gone", body: bytes = b"{}"
) -> Exchange:
    headers = {} if told_ms is None else {"retry-after-ms": str(told_ms), "retry-after": "9"}
    answer = json.dumps({"error": {"code": code}}).encode()
    return Exchange("POST", at, body, at + 0.1, 429, headers, answer)


def _answered(at: float) -> Exchange:
    return Exchange("POST", at, b"{}", at + 0.1, 200)


def _record(tier: str, queue_ms: float = 0.0) -> dict[str, Any]:
    return {"service_tier": tier, "split_ms": {"queue": queue_ms}}


def test_a_wait_is_from_the_refusal_to_the_next_request() -> None:
    (wait,) = waits([_refused(0.0, 500), _answered(0.8)])
    assert wait.told_s == 0.5
    assert wait.waited_s == pytest.approx(0.7)
    assert judge(WAITS, OPENAI, DONE, [_refused(0.0, 500), _answered(0.8)], []) == (
        "told 0.5 s, waited 0.7 s; then answered"
    )


def test_a_frame_that_asks_for_no_answer_is_not_retried() -> None:
    prewarm = _refused(0.0, 500, body=b'{"type": "response.create", "generate": false}')
    (wait,) = waits([prewarm, _refused(0.2, 400), _answered(0.9)])
    assert wait.told_s == 0.4
    assert wait.waited_s == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("limit", "ran", "exchanges", "records", "why"),
    [
        (WAITS, DONE, [_refused(0.0, 500), _answered(0.5)], [], "came again after 0.400 s"),
        (WAITS, GONE, [_refused(0.0, 500)], [], "no answer"),
        (WAITS, DONE, [_answered(0.0)], [], "nothing was refused"),
        (WAITS, STUCK, [_refused(0.0, 500)], [], "no end after 9 s"),
        (STOPS, DONE, [_refused(0.0)], [], "it has an answer"),
        (STOPS, replace(GONE, said="no"), [_refused(0.0)], [], "it says 'no'"),
        (STOPS, GONE, [_refused(0.0, code="other")], [], "codes are {'other'}"),
        (STOPS, GONE, [], [], "nothing was refused"),
        (Limit("l", "goes on waiting"), GONE, [_refused(0.0, 10**7)], [], "didn't wait"),
        (Limit("l", "downgraded"), DONE, [_refused(0.0)], [], "1 requests were refused"),
        (Limit("l", "downgraded"), DONE, [], [_record("priority")], "served as {'priority'}"),
        (Limit("l", "queued"), DONE, [], [_record("priority", 50.0)], "queued for"),
        (Limit("l", "queued"), DONE, [], [_record("default", 500.0)], "served as {'default'}"),
    ],
)
def test_what_goes_otherwise_is_wrong(
    limit: Limit,
    ran: Ran,
    exchanges: list[Exchange],
    records: list[dict[str, Any]],
    why: str,
) -> None:
    with pytest.raises(WrongError) as wrong:
        judge(limit, OPENAI, ran, exchanges, records)
    assert why in str(wrong.value)


def test_what_goes_right_is_told_in_words() -> None:
    tries = [_refused(float(i)) for i in range(3)]
    assert judge(STOPS, OPENAI, GONE, tries, []) == "429: stops after 3 tries in 2.0 s"
    waiting = Limit("l", "stops", unlike={"openai": "goes on waiting"})
    told = judge(waiting, OPENAI, STUCK, [_refused(0.0, 86_400_000)], [])
    assert told == "told 86,400.0 s, says nothing and waits (stopped after 9 s)"
    queued = judge(Limit("l", "queued"), OPENAI, DONE, [], [_record("priority", 1500.0)])
    assert queued == "waits in the server's queue for 1.5 s; then answered"


# -- the tap -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "sent", "status", "told_s"),
    [
        ("text", {"type": "response.created"}, 200, None),
        ("text", {"type": "error", "status": 429, "headers": {"Retry-After": "3"}}, 429, 3.0),
        ("bytes", {"type": "error", "status": 401}, 401, None),
    ],
)
async def test_a_frame_is_answered_by_the_next(
    kind: Literal["text", "bytes"], sent: dict[str, Any], status: int, told_s: float | None
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        text = json.dumps({"error": {"code": "c"}, **sent})
        await send({"type": "websocket.send", kind: text if kind == "text" else text.encode()})
        await send({"type": "websocket.send", "text": '{"type": "response.completed"}'})

    async def receive() -> Message:
        return {"type": "websocket.receive", "text": '{"type": "response.create"}'}

    passed: list[Message] = []

    async def send(message: Message) -> None:
        passed.append(message)

    tap = Tap(app)
    await tap({"type": "websocket", "path": "/v1/responses"}, receive, send)
    (exchange,) = tap.exchanges
    assert len(passed) == 2
    assert (exchange.method, exchange.status, exchange.told_s) == ("WEBSOCKET", status, told_s)
    assert exchange.error.get("code") == (None if status == 200 else "c")


# -- the page ------------------------------------------------------------------------------------


def test_the_page_names_every_limit_and_client() -> None:
    text = run_limits.PAGE.read_text("utf-8")
    rows = text.partition(run_limits.BEGIN)[2].partition(run_limits.END)[0]
    for limit in LIMITS:
        for client in CLIENTS:
            assert f"| {limit.name} | {client.name} " in rows
    assert "FAILS" not in rows


def test_rows_are_written_without_what_changes_from_run_to_run(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"head\n{run_limits.BEGIN}old\n{run_limits.END}tail\n")
    said = "at http://127.0.0.1:1234/v1,\nrequest req_0af1 | " + "x" * 300
    row = run_limits.Row("l", "c", "1.0", True, "stops", said, 1.0)
    run_limits.write(run_limits.table([row]), path)
    text = path.read_text()
    assert "old" not in text
    assert text.startswith("head\n")
    assert text.endswith("tail\n")
    assert "“at http://localhost:8000/v1, request req_… / xxx" in text
    assert "x" * 201 not in text
    path.write_text("nothing")
    with pytest.raises(ValueError, match=r"page\.md"):
        run_limits.write("", path)
