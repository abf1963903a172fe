"""Faults of load tests that others have had: times that were nobody's, failures that were lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import mean
from time import perf_counter, sleep
from typing import Any

import pytest
from typer.testing import CliRunner

from paceline_loadtest.arrivals import Arrivals
from paceline_loadtest.caller import Ask
from paceline_loadtest.clients import CLIENTS, ClientKind, make_client
from paceline_loadtest.command import app
from paceline_loadtest.lateness import OwnLateness
from paceline_loadtest.lean import LeanClient
from paceline_loadtest.lean.connection import Exchange
from paceline_loadtest.lean.marks import marks_of
from paceline_loadtest.load import Load, Slots, Stop, run_load
from paceline_loadtest.model import Call, Loop, LoopRun, Target, Turn
from paceline_loadtest.report import from_json
from paceline_loadtest.retries import Retries
from paceline_loadtest.runner import Runner
from paceline_loadtest.statistics import calls_of, e2e, gaps, slot_wait, statistics, tpot
from tests.live import Server
from tests.loadtest.scripted import DONE, END, Piece, Script, delta, head, scripted, usage

BOTH = pytest.mark.parametrize("kind", CLIENTS)


def client_of(kind: ClientKind, url: str) -> Any:
    return make_client(kind, url, "key", retries=Retries(0), idle_timeout_s=20.0)


async def made(client: Any, body: dict[str, Any] | None = None) -> Call:
    call = Call(perf_counter())
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
    await client.call(Ask("chat", body or asked), call)
    return call


async def one(kind: ClientKind, script: Script) -> Call:
    async with scripted(script) as server:
        client = client_of(kind, server.url)
        # An SDK is slow when it first meets a thing.
        await made(client)
        call = await made(client)
        await client.aclose()
    return call


async def loaded(
    server: Server, load: Load, model: str, tokens: int, **more: Any
) -> tuple[list[LoopRun], Runner]:
    """Loops of one call each under a load."""
    client = LeanClient(f"{server.url}/v1", "key")
    runner = Runner(
        target=Target("t", f"{server.url}/v1", model),
        dialect="chat",
        caller=client,
        slots=Slots(load.slots),
        stop=Stop(),
        lateness=OwnLateness(),
        **more,
    )
    runs: list[LoopRun] = []

    async def work(number: int, due: float) -> None:
        run = LoopRun(Loop(str(number), 0, 0, 0, (Turn(9, 0, tokens),)), due)
        runs.append(run)
        await runner.run(run)

    with runner.lateness.watched():
        await run_load(load, work, runner.stop, perf_counter())
    await client.aclose()
    return runs, runner


@pytest.mark.realtime
async def test_i01_latency_counts_from_when_the_call_should_have_been_made(server: Server) -> None:
    """Ten a second, half a second each, one at a time: the eighth waits for three seconds."""
    load = Load(arrivals=Arrivals("constant", 10.0), loops=8, slots=1)
    # Fifty gaps of 10 ms and the way there and back.
    runs, _ = await loaded(server, load, "flat-100", 51)
    calls = list(calls_of(runs))
    assert all(call.ok for call in calls)
    took = [value for call in calls if (value := e2e(call)) is not None]
    served = [(call.end_at or 0.0) - (call.sent_at or 0.0) for call in calls]
    waits = [value for call in calls if (value := slot_wait(call)) is not None]
    # Each of the eight waits 0.4 s longer than the one before it: 0, 0.4 … 2.8.
    assert mean(took) >= 0.5 + 1.4 - 0.05
    assert mean(waits) >= 1.35
    assert mean(took) - mean(served) == pytest.approx(mean(waits), abs=0.3)
    # The wait for a slot is a line of its own.
    found = statistics(runs)
    assert found.e2e is not None
    assert found.slot_wait is not None
    assert found.e2e.mean == pytest.approx(mean(took))
    assert found.slot_wait.mean == pytest.approx(mean(waits))


@pytest.mark.realtime
async def test_i02_a_client_that_is_late_says_so_and_marks_the_run(server: Server) -> None:
    async def busy() -> None:
        for _ in range(30):
            sleep(0.03)  # noqa: ASYNC251 - work on the client's own loop
            await asyncio.sleep(0.01)

    load = Load(arrivals=Arrivals("constant", 100.0), loops=100)
    (_, runner), _ = await asyncio.gather(loaded(server, load, "flat-200", 20), busy())
    worst = runner.lateness.worst()
    assert worst is not None
    assert worst.spoils is not None
    kinds = runner.lateness.kinds()
    # Sends are late too, and that isn't the server's time to first token.
    assert kinds["send"].p99_s > 0.005
    assert kinds["send"].count == 100
    assert "limit is 5 ms" in worst.spoils


@pytest.mark.parametrize("kind", ["sdk", "lean"])
async def test_i03_no_pool_caps_the_calls_at_once(server: Server, kind: ClientKind) -> None:
    client = client_of(kind, f"{server.url}/v1")
    body = {
        "model": "slow",
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "paceline": {"output_tokens": 3_000},
    }
    calls = [asyncio.ensure_future(made(client, body)) for _ in range(150)]
    most = 0.0
    until = perf_counter() + 20
    while most < 150 and perf_counter() < until:
        metrics = await asyncio.to_thread(server.metrics)
        most = max(most, metrics.running("slow") + metrics.waiting("slow"))
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await client.aclose()
    assert most == 150
    await asyncio.to_thread(server.wait_idle, "slow")


async def test_i05_tokens_are_no_chunks_and_gaps_are_no_tpot() -> None:
    """Twelve tokens in three chunks: TPOT is of tokens, the gap is of chunks."""
    four = delta(content="a b c d")
    script: list[Piece] = [
        head(),
        four,
        0.11,
        four,
        0.11,
        four,
        delta("stop"),
        usage(12),
        DONE,
        END,
    ]
    call = await one("lean", lambda *_: script)
    assert (call.output_tokens, len(call.chunk_at)) == (12, 3)
    assert call.last_at is not None
    assert call.first_at is not None
    span = call.last_at - call.first_at
    assert tpot(call) == pytest.approx(span / 11)
    assert mean(gaps(call)) == pytest.approx(span / 2)


@BOTH
@pytest.mark.parametrize("channel", ["content", "reasoning_content"])
async def test_i06_the_first_token_is_the_first_content_whatever_comes_behind(
    kind: ClientKind, channel: str
) -> None:
    """All of an answer in one chunk, and the usage a while later."""
    script: list[Piece] = [
        head(),
        delta(role="assistant", content=""),
        0.15,
        delta(**{channel: "x"}),
        0.15,
        delta("stop"),
        usage(1),
        DONE,
        END,
    ]
    call = await one(kind, lambda *_: script)
    assert call.error is None
    assert call.first_at is not None
    assert call.sent_at is not None
    assert call.end_at is not None
    assert call.first_at == call.last_at
    assert call.first_at - call.sent_at >= 0.14
    assert call.end_at - call.first_at >= 0.14


def test_i07_errors_come_first_and_figures_say_what_they_are_of(
    server: Server, tmp_path: Path
) -> None:
    scenario = tmp_path / "half.toml"
    scenario.write_text(
        'title = "Half of it fails"\non_error = "continue"\n'
        "[prompt]\nsystem_tokens = 0\ntools_defined = 0\ntool_definition_tokens = 0\n"
        '[[stages]]\nname = "short"\nturns = 4\nnew_tokens = 5\n'
        "reasoning_tokens = 0\noutput_tokens = 9\n"
        # More than the model's context holds: refused.
        '[[stages]]\nname = "long"\nturns = 4\nnew_tokens = 5_000\n'
        "reasoning_tokens = 0\noutput_tokens = 9\n",
        encoding="utf-8",
    )
    out = tmp_path / "out.json"
    flags = ["--tiers", "quick", "--client", "lean", "--max-late-ms", "60000", "--json", str(out)]
    given = ["run", str(scenario), "--base-url", f"{server.url}/v1", *flags]
    result = CliRunner().invoke(app, [*given, "--fail-if", "error_rate>0.1"])
    calls = list(calls_of(from_json(out.read_bytes()).targets[0].loops))
    assert [call.ok for call in calls] == [True] * 4 + [False] * 4
    assert result.output.startswith("Errors: 4 of 8 requests (50%)")
    assert "successes only" in result.output
    assert result.exit_code == 1
    assert CliRunner().invoke(app, [*given, "--fail-if", "error_rate>0.6"]).exit_code == 0


@BOTH
@pytest.mark.parametrize("fault", ["slice:1,5", "slice:3,6"])
async def test_i09_chunks_of_the_network_are_no_lines(
    server: Server, kind: ClientKind, fault: str
) -> None:
    client = client_of(kind, f"{server.url}/v1")
    body = {
        "model": "instant",
        "messages": [{"role": "user", "content": "漢字 👩‍👩‍👧‍👦 नमस्ते"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    whole, cut = Call(perf_counter()), Call(perf_counter())
    said = await client.call(Ask("chat", {**body, "paceline": {"mode": "echo"}}), whole)
    echo = {"mode": "echo", "fault": fault}
    again = await client.call(Ask("chat", {**body, "paceline": echo}), cut)
    await client.aclose()
    assert (whole.error, cut.error) == (None, None)
    assert again.text == said.text == "漢字 👩‍👩‍👧‍👦 नमस्ते"
    assert cut.output_tokens == whole.output_tokens


@BOTH
async def test_i11_latency_ends_with_the_last_content_and_not_with_done(kind: ClientKind) -> None:
    script: list[Piece] = [head(), delta(content="x"), 0.1, delta(content="y"), delta("stop")]
    script += [0.2, usage(2), 0.1, DONE, END]
    call = await one(kind, lambda *_: script)
    assert call.end_at is not None
    assert call.last_at is not None
    assert call.first_at is not None
    assert 0.09 <= call.last_at - call.first_at < 0.29
    assert call.end_at - call.last_at >= 0.28
    # What a report calls the latency of a request is up to the last content.
    assert e2e(call) == call.last_at - call.scheduled_at


async def test_i11_a_stamp_is_of_receipt_and_not_of_parsing() -> None:
    """Pieces wait to be read until there are some, and keep the times at which they came."""
    call = Call(0.0)
    exchange = Exchange(marks_of("chat", call), asyncio.get_running_loop().create_future())
    exchange.headers["content-type"] = "text/event-stream"
    exchange.head(200, 1.0)
    pieces = [delta(content="x"), delta(content="y"), delta("stop"), DONE]
    for at, piece in enumerate(pieces, 2):
        exchange.body(piece.split(b"\r\n")[1], float(at))
    assert not call.chunk_at
    exchange.end()
    assert (call.first_at, call.last_at, call.error) == (2.0, 3.0, None)
    assert call.end_at is not None
    assert call.end_at > 5.0


@BOTH
async def test_i12_usage_is_asked_for_whatever_the_base_url_is(kind: ClientKind) -> None:
    async with scripted(lambda *_: [head(), delta("stop", content="x"), usage(1), END]) as server:
        client = client_of(kind, server.url)
        runner = Runner(
            Target("t", server.url, "m", paceline=False),
            "chat",
            client,
            Slots(None),
            Stop(),
            OwnLateness(),
        )
        run = LoopRun(Loop("a", 0, 0, 0, (Turn(3, 0, 1),)), perf_counter())
        await runner.run(run)
        await client.aclose()
    assert server.asked[0].body["stream_options"] == {"include_usage": True}
    assert run.turns[0].call.output_tokens == 1
