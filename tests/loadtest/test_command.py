"""`paceline loadtest`, from flags to files and exit codes."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from paceline.fit.readers import read_points
from paceline.simulation.traces import load_trace
from paceline_loadtest.command import app
from paceline_loadtest.report import Results, from_json
from paceline_loadtest.statistics import calls_of
from tests.live import PROFILES, Server
from tests.loadtest.scripted import Piece, answer, scripted

SCENARIO = """
title = "A small loop"

[prompt]
system_tokens = 60
tools_defined = 1
tool_definition_tokens = 60

[[stages]]
name = "work"
turns = 2
new_tokens = 10
reasoning_tokens = 2
output_tokens = 12

[[stages.tools]]
name = "look"
seconds = 0.02
result_tokens = 15
"""
ONE_CALL = """
title = "One call"

[prompt]
system_tokens = 0
tools_defined = 0
tool_definition_tokens = 0

[[stages]]
name = "ask"
new_tokens = 40
reasoning_tokens = 0
output_tokens = 30
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    return str(path)


@pytest.fixture
def one_call(tmp_path: Path) -> str:
    path = tmp_path / "one-call.toml"
    path.write_text(ONE_CALL, encoding="utf-8")
    return str(path)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def run(server: Server, *arguments: str) -> Result:
    # A machine that is busy with other work makes every client late: that is tested on its own.
    usual = ["--base-url", f"{server.url}/v1", "--client", "lean", "--max-late-ms", "60000"]
    return invoke("run", *usual, *arguments)


def running(server: Server, model: str) -> int:
    """Requests for a model that have had a token and are under way."""
    rows = server.ask("GET", "/paceline/requests?limit=10").object["data"]
    return sum(
        row["model"] == model
        and row["state"] == "running"
        and row["times_ms"]["first_token_left"] is not None
        for row in rows
    )


def read(path: Path) -> Results:
    return from_json(path.read_bytes())


class TestRun:
    def test_every_target_runs_the_same_loops(
        self, server: Server, scenario: str, tmp_path: Path
    ) -> None:
        out, page = tmp_path / "out.json", tmp_path / "out.html"
        flags = ["--tiers", "quick,flat-500", "--users", "2", "--loops", "3", "--seed", "5"]
        # The server's own profile, for the prediction.
        flags += ["--profiles", str(PROFILES / "quick.toml")]
        result = run(server, scenario, *flags, "--json", str(out), "--html", str(page))
        assert result.exit_code == 0, result.output
        results = read(out)
        assert results.info.scenario == "small"
        assert (results.info.client, results.info.seed) == ("lean", 5)
        assert results.info.settings["tiers"] == "quick,flat-500"
        assert [run.target.label for run in results.targets] == ["quick", "flat-500"]
        quick, flat = results.targets
        assert [run.loop for run in quick.loops] == [run.loop for run in flat.loops]
        for target in results.targets:
            calls = list(calls_of(target.loops))
            assert len(calls) == 6
            assert all(call.ok and call.output_tokens == 14 for call in calls)
            assert all(call.server.decode_s is not None for call in calls)
            assert target.client_cost_s is not None
            assert set(target.lateness_kinds) >= {"heartbeat", "send"}
            assert target.users == 2
            assert len(target.predicted) == 3
        assert "<html" in page.read_text("utf-8")
        assert "Errors: 0 of 12 requests" in result.output

    @pytest.mark.parametrize("dialect", ["responses", "responses-websocket", "messages"])
    def test_in_another_dialect_by_the_real_sdks(
        self, server: Server, scenario: str, tmp_path: Path, dialect: str
    ) -> None:
        out = tmp_path / "out.json"
        flags = ["--tiers", "instant", "--dialect", dialect, "--client", "sdk"]
        result = run(server, scenario, *flags, "--json", str(out))
        assert result.exit_code == 0, result.output
        info = read(out).info
        assert info.dialect == dialect
        assert info.client.startswith("anthropic " if dialect == "messages" else "openai ")

    def test_an_open_load(self, server: Server, scenario: str, tmp_path: Path) -> None:
        out = tmp_path / "out.json"
        flags = ["--tiers", "flat-100", "--rate", "50", "--arrivals", "constant", "--loops", "10"]
        result = run(server, scenario, *flags, "--max-in-flight", "3", "--json", str(out))
        assert result.exit_code == 0, result.output
        target = read(out).targets[0]
        assert (target.users, target.rate) == (None, 50.0)
        starts = [run.turns[0].call.scheduled_at for run in target.loops]
        assert starts == pytest.approx([i / 50 for i in range(10)], abs=1e-5)
        waits = [c.slot_at - c.scheduled_at for c in calls_of(target.loops) if c.slot_at]
        assert max(waits) > 0.1

    def test_a_duration(self, server: Server, scenario: str, tmp_path: Path) -> None:
        out = tmp_path / "out.json"
        flags = ["--tiers", "instant", "--duration", "0.5", "--json", str(out)]
        assert run(server, scenario, *flags).exit_code == 0
        loops = read(out).targets[0].loops
        assert 1 <= len(loops) < 200
        assert all(loop.started_at < 0.5 for loop in loops)

    def test_a_server_of_its_own(self, scenario: str, tmp_path: Path) -> None:
        out = tmp_path / "out.json"
        flags = ["--tiers", "instant", "--client", "lean", "--max-late-ms", "60000"]
        result = invoke("run", scenario, *flags, "--json", str(out))
        assert result.exit_code == 0, result.output
        assert read(out).targets[0].target.base_url.startswith("http://127.0.0.1:")


class TestExitCodes:
    @pytest.mark.parametrize(
        ("rule", "code", "word"),
        [("ttft_p99>30", 0, "passed"), ("ttft_p99>=0", 1, "failed"), ("errors>0", 0, "passed")],
    )
    def test_a_threshold(
        self, server: Server, scenario: str, rule: str, code: int, word: str
    ) -> None:
        result = run(server, scenario, "--tiers", "instant", "--fail-if", rule)
        assert result.exit_code == code
        assert word in result.output

    def test_nothing_that_succeeds_is_no_success(self, server: Server, scenario: str) -> None:
        result = run(server, scenario, "--tiers", "no-such-model")
        assert result.exit_code == 1
        assert "Errors: 1 of 1 requests (100%)" in result.output
        assert "no-such-model" in result.output

    def test_half_of_the_calls_fail(self, scenario: str, tmp_path: Path) -> None:
        out = tmp_path / "out.json"
        result = scripted_run(scenario, "--fail-if", "error_rate>0.1", "--json", str(out))
        assert result.exit_code == 1
        # The first line says it, and the figures say what they are of.
        assert result.output.splitlines()[0].startswith("Errors: ")
        assert "(50%)" in result.output.splitlines()[0]
        assert "successes only" in result.output
        assert sum(not call.ok for call in calls_of(read(out).targets[0].loops)) == 5

    def test_a_client_that_was_late_itself(self, server: Server, scenario: str) -> None:
        flags = ["--tiers", "flat-100", "--max-late-ms", "0", "--fail-if", "errors>=0"]
        result = run(server, scenario, *flags)
        # That a threshold failed says nothing where the figures can't be trusted.
        assert result.exit_code == 3
        assert "SPOILED" in result.output

    def test_ctrl_c_ends_with_a_report_of_what_there_is(
        self, server: Server, scenario: str, tmp_path: Path
    ) -> None:
        out = tmp_path / "out.json"
        code = "from paceline.cli import main; main()"
        flags = ["--tiers", "flat-4,flat-400", "--client", "lean", "--users", "2", "--loops", "9"]
        flags += ["--base-url", f"{server.url}/v1", "--json", str(out)]
        process = subprocess.Popen(
            [sys.executable, "-c", code, "loadtest", "run", scenario, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        until = monotonic() + 20
        while running(server, "flat-4") < 2:
            assert monotonic() < until
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=20)
        assert process.returncode == 130, said
        results = read(out)
        (target,) = results.targets
        assert target.notes == ("It ended before its time: interrupted.",)
        assert {run.stopped for run in target.loops} == {"interrupted"}
        assert all(call.end_at is None for call in calls_of(target.loops))
        assert "Traceback" not in said


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["nothing-like-it"], "no scenario is called 'nothing-like-it'"),
            (["SCENARIO", "--client", "curl"], "--client: 'curl' is none of sdk, lean"),
            (["SCENARIO", "--dialect", "telnet"], "--dialect: 'telnet' is none of chat"),
            (["SCENARIO", "--fail-if", "ttft>"], "--fail-if"),
            (["SCENARIO", "--rate", "5"], "--rate: an open load needs an end"),
            (["SCENARIO", "--rate", "5", "--users", "3"], "--users and --think are a closed"),
            (["SCENARIO", "--arrivals", "poisson"], "--arrivals poisson needs --rate"),
            (["SCENARIO", "--target", "x"], "--target: 'x' is not label=model"),
            (["SCENARIO", "--base-url", "ftp://x"], "--base-url: 'ftp://x' is not an http"),
            (["SCENARIO", "--base-url", "http://127.0.0.1:9/v1"], "can't be reached"),
            (["SCENARIO", "--api-key-env", "NO_SUCH_KEY"], "the environment has no NO_SUCH_KEY"),
            (["SCENARIO", "--compare", "nowhere.json"], "nowhere.json: No such file"),
            (["SCENARIO", "--json", "no/such/folder/a.json"], "--json: no/such/folder/a.json"),
            (["SCENARIO", "--max-cost-usd", "inf"], "--max-cost-usd: inf is not a finite number"),
            (["SCENARIO", "--duration", "inf"], "--duration: inf is not a finite number"),
            (["SCENARIO", "--html", "tests"], "--html: tests can't be written"),
            (["SCENARIO", "--profiles", "nowhere.toml"], "nowhere.toml"),
        ],
    )
    def test_what_can_t_be_used_is_said(
        self, server: Server, scenario: str, arguments: list[str], says: str
    ) -> None:
        own = "--base-url" in arguments or "--profiles" in arguments
        given = [scenario if word == "SCENARIO" else word for word in arguments]
        result = invoke("run", *given) if own else run(server, *given)
        assert result.exit_code == 2
        assert says in " ".join(result.output.split())

    def test_the_scenarios_that_ship_are_listed(self) -> None:
        result = invoke("scenarios")
        assert result.exit_code == 0
        assert "code-edit" in result.output


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A server that isn't Paceline, and fails every second call."""
    yield from _elsewhere()


def _elsewhere() -> Iterator[str]:
    ready = threading.Event()
    url: list[str] = []
    over: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def script(number: int, asked: Any) -> list[Piece]:
        if asked.path == "/v1/models":
            return answer()
        return answer("One", " two") if number % 2 else [b"HTTP/1.1 500 No\r\n\r\n", b""]

    async def serve() -> None:
        ended = asyncio.Event()
        over.append((asyncio.get_running_loop(), ended))
        async with scripted(script) as state:
            url.append(state.url)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(10)
    yield url[0]
    loop, ended = over[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join(10)


CAPS = ["--max-tokens-total", "100000", "--max-cost-usd", "1", "--price", "1,1"]


def scripted_run(scenario: str, *arguments: str) -> Result:
    """Ten loops of one call each; every second one fails."""
    one = Path(scenario).with_name("one.toml")
    one.write_text(ONE_CALL, encoding="utf-8")
    serving = _elsewhere()
    url = next(serving)
    flags = ["--base-url", url, "--tiers", "m", "--client", "lean", "--retries", "0"]
    flags += ["--loops", "10", "--max-late-ms", "60000", *CAPS]
    try:
        return invoke("run", str(one), *flags, *arguments)
    finally:
        assert next(serving, None) is None


class TestElsewhere:
    @pytest.mark.parametrize("left_out", [0, 2, 4])
    def test_without_a_cap_nothing_is_asked(
        self, elsewhere: str, one_call: str, left_out: int
    ) -> None:
        caps = CAPS[:left_out] + CAPS[left_out + 2 :]
        flags = ["--base-url", elsewhere, "--tiers", "m", "--client", "lean"]
        result = invoke("run", one_call, *flags, *caps)
        assert result.exit_code == 2
        assert CAPS[left_out] in result.output

    def test_a_run_stops_before_it_passes_a_cap(
        self, elsewhere: str, one_call: str, tmp_path: Path
    ) -> None:
        out = tmp_path / "out.json"
        flags = ["--base-url", elsewhere, "--tiers", "m,n", "--client", "lean", "--loops", "100"]
        flags += ["--max-late-ms", "60000", "--json", str(out)]
        caps = ["--max-tokens-total", "400", "--max-cost-usd", "1", "--price", "1,1"]
        result = invoke("run", one_call, *flags, *caps)
        assert result.exit_code == 0, result.output
        (target,) = read(out).targets
        assert "--max-tokens-total 400" in target.notes[0]
        assert 1 < len(list(calls_of(target.loops))) < 60

    def test_a_run_whose_cap_allows_no_call_is_no_success(
        self, elsewhere: str, one_call: str
    ) -> None:
        flags = ["--base-url", elsewhere, "--tiers", "m", "--client", "lean"]
        caps = ["--max-tokens-total", "1", "--max-cost-usd", "1", "--price", "1,1"]
        result = invoke("run", one_call, *flags, "--max-late-ms", "60000", *caps)
        assert result.exit_code == 1, result.output
        assert "--max-tokens-total 1" in result.output


class TestFiles:
    def test_points_that_fit_reads(self, server: Server, one_call: str, tmp_path: Path) -> None:
        points = tmp_path / "points.jsonl"
        flags = ["--tiers", "flat-500", "--loops", "8", "--users", "4", "--points", str(points)]
        for _ in range(2):
            assert run(server, one_call, *flags).exit_code == 0
        ((name, found),) = read_points([points]).items()
        assert name == "flat-500"
        assert [(p.isl, p.osl, p.users) for p in found] == [(47, 30, 4)] * 2
        assert found[0].tpot_ms == pytest.approx(2.0, rel=0.5)

    def test_points_of_cached_prompts_are_left_out(
        self, server: Server, scenario: str, tmp_path: Path
    ) -> None:
        points = tmp_path / "points.jsonl"
        result = run(server, scenario, "--tiers", "quick", "--points", str(points))
        assert result.exit_code == 0
        assert points.read_text() == ""
        assert "left out" in result.output

    def test_a_trace_that_the_simulation_reads(
        self, server: Server, scenario: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "trace.jsonl"
        flags = ["--tiers", "instant", "--loops", "3", "--trace", str(path)]
        assert run(server, scenario, *flags).exit_code == 0
        trace, kind = load_trace(path)
        assert (len(trace), kind) == (6, "recording")

    def test_two_runs_compared(self, server: Server, scenario: str, tmp_path: Path) -> None:
        before, after, page = (tmp_path / name for name in ("a.json", "b.json", "c.html"))
        for model, path in (("first=flat-100", before), ("first=flat-1000", after)):
            flags = ["--target", model, "--loops", "3", "--json", str(path)]
            assert run(server, scenario, *flags).exit_code == 0
        result = invoke("compare", str(before), str(after), "--html", str(page))
        assert result.exit_code == 0, result.output
        assert "first" in result.output
        assert "<html" in page.read_text("utf-8")
        flags = ["--target", "first=flat-1000", "--loops", "3", "--compare", str(before)]
        assert "first" in run(server, scenario, *flags).output

    def test_what_is_no_result(self, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text(json.dumps({"format": "something else"}))
        result = invoke("compare", str(path), str(path))
        assert result.exit_code == 2
        assert "a.json" in result.output

    def test_no_key_is_written(
        self,
        server: Server,
        scenario: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("SOME_KEY", "sk-secret-1234")
        out, page = tmp_path / "out.json", tmp_path / "out.html"
        url = server.url.replace("http://", "http://somebody:sk-secret-5678@")
        flags = ["--tiers", "instant", "--api-key-env", "SOME_KEY", "--base-url", f"{url}/v1"]
        result = run(server, scenario, *flags, "--json", str(out), "--html", str(page))
        assert result.exit_code == 0
        for text in (out.read_text(), page.read_text(), result.output):
            assert "sk-secret" not in text
