"""What the server noted of calls: read back, and held against what the client stamped."""

from __future__ import annotations

from array import array
from time import perf_counter
from typing import Any

import pytest

from paceline.client.stream import BaseUrl
from paceline_loadtest.caller import Ask
from paceline_loadtest.lean import LeanClient
from paceline_loadtest.model import Call, Dialect
from paceline_loadtest.records import ServerRecords, _late, _name_by_time
from tests.live import Server


async def calls_of(server: Server, dialect: Dialect, count: int = 3) -> list[Call]:
    client = LeanClient(f"{server.url}/v1", "key")
    calls = []
    for number in range(count):
        fixed = {"output_tokens": 12 + number, "reasoning_tokens": 4}
        body: dict[str, Any] = {"model": "flat-400", "paceline": fixed, "input": "Tell me."}
        if dialect in {"chat", "messages"}:
            del body["input"]
            body["messages"] = [{"role": "user", "content": "Tell me."}]
        if dialect == "messages":
            body["max_tokens"] = 100
        if dialect != "responses-websocket":
            body["stream"] = True
        if dialect == "chat":
            body["stream_options"] = {"include_usage": True}
        call = Call(perf_counter())
        await client.call(Ask(dialect, body, "one"), call)
        assert call.error is None
        calls.append(call)
    await client.aclose()
    return calls


@pytest.mark.parametrize("dialect", ["chat", "responses", "responses-websocket", "messages"])
async def test_each_call_s_time_is_split(server: Server, dialect: Dialect) -> None:
    calls = await calls_of(server, dialect)
    records = ServerRecords(BaseUrl.parse(server.url), dialect)
    records.fill(calls)
    late = array("d")
    records.receipt(calls, late)
    for number, call in enumerate(calls):
        record = server.record(call.request_id or "")
        assert record["output_tokens"] == call.output_tokens == 12 + number
        assert call.server.profile == "flat-400"
        assert call.server.overhead_s is not None
        assert call.server.decode_s == pytest.approx((11 + number) / 400)
        assert call.server.prefill_s == pytest.approx(record["split_ms"]["prefill"] / 1e3)
    # Every visible token of theirs, and none took long on the way.
    assert len(late) == sum(8 + number for number in range(3))
    assert all(0.0 <= value < 2.0 for value in late)


def test_a_server_without_records_says_nothing() -> None:
    call = Call(0.0, request_id="req_1")
    records = ServerRecords(BaseUrl.parse("http://127.0.0.1:9"), "chat")
    records.fill([call])
    late = array("d")
    records.receipt([call], late)
    assert call.server.overhead_s is None
    assert not late


def test_streams_are_read_back_from_the_latest_on_and_no_more_than_two_dozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = ServerRecords(BaseUrl.parse("http://127.0.0.1:9"), "chat")
    read: list[str] = []
    monkeypatch.setattr(records, "_get", read.append)
    # As loops have them: those that ended first aren't all at the front.
    calls = [
        Call(0.0, request_id=f"r{at}", end_at=float(at), chunk_at=array("d", [1.0, 2.0]))
        for at in [*range(500, 547), *range(500)]
    ]
    records.receipt(calls, array("d"))
    assert len(read) == 24
    assert min(int(path.rpartition("r")[2]) for path in read) >= 47
    read.clear()
    records.receipt(calls[:47], array("d"))
    assert len(read) == 24


def row(rid: str, received_s: float, prompt: int, output: int) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "output_tokens": output}
    return {"id": rid, "received_ns": round(received_s * 1e9), **counts}


def sent(at: float, prompt: int, output: int) -> Call:
    call = Call(at, sent_at=at, headers_at=at + 0.01, end_at=at + 1)
    call.prompt_tokens, call.output_tokens = prompt, output
    return call


def test_calls_without_ids_find_their_records_by_time_and_tokens() -> None:
    calls = [sent(10.0, 5, 7), sent(10.0001, 6, 7), sent(11.0, 5, 7), sent(99.0, 5, 7)]
    rows = [
        row("c", 11.0005, 5, 7),
        row("b", 10.0002, 6, 7),
        row("a", 10.0004, 5, 7),
        row("somebody else's", 10.0003, 500, 7),
    ]
    _name_by_time(calls, rows)
    assert [call.request_id for call in calls] == ["a", "b", "c", None]


def test_writes_that_don_t_match_the_chunks_say_nothing() -> None:
    writes = [{"left_ms": 1.0, "tokens": 2}, {"left_ms": 2.0, "tokens": 1}]
    record = {"received_ns": 5_000_000_000, "reasoning_tokens": 1, "choices": [{"chunks": writes}]}
    assert _late(Call(0.0, chunk_at=array("d", [5.0015, 5.0021, 5.003])), record) == pytest.approx(
        [0.0005, 0.0011, 0.001]
    )
    # Without the hidden token, and with as many chunks as there are neither of.
    assert _late(Call(0.0, chunk_at=array("d", [5.0015, 5.003])), record) == pytest.approx(
        [0.0005, 0.001]
    )
    assert _late(Call(0.0, chunk_at=array("d", [5.1])), record) == []
