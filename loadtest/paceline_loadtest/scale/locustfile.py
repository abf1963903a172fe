"""Paceline's scenarios as a Locust test: each user is an agent that runs loops of a scenario.

    locust -f locustfile.py --host http://127.0.0.1:8000/v1 --headless \
        --users 20 --spawn-rate 20 --scenario code-edit --model gpt-5.6-sol --loops 2

Beside Locust's own figure, the time to an answer's last content, it tells `TTFT` (ms) and
`TPOT µs` (a token's time, in microseconds, since Locust counts whole units). Locust keeps two
digits of its percentiles; the table at the end, and `--figures`, have all of them, from every
worker. Tools take the scenario's seconds: commands are not run.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import gevent  # type: ignore[import-untyped]  # it brings no types
from locust import User, constant, events, task
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

from paceline.client.stream import BaseUrl
from paceline.runtime.toml_files import read_toml
from paceline_loadtest.caller import Ask
from paceline_loadtest.conversation import Conversation
from paceline_loadtest.draw import draw_one
from paceline_loadtest.model import DIALECTS, Call, Dialect, Loop, Target, ToolRun
from paceline_loadtest.scale.gevent_client import GeventClient
from paceline_loadtest.scenario import Scenario
from paceline_loadtest.scenario_files import (
    ScenarioError,
    load_scenario,
    parse_scenario,
    shipped_scenarios,
)
from paceline_loadtest.statistics import Spread, e2e, tpot, ttft

_STRIDE = 100_000
"""More users than a test has: loops of one user are so far apart in number."""

_MESSAGE = "paceline-run"


@dataclass
class Run:
    """What a process knows of the test."""

    scenario: Scenario | None = None
    dialect: Dialect = "chat"
    workers: int = 1
    salt: str = ""
    seed: int | None = None
    started: Any = field(default_factory=itertools.count)
    """Numbers of the users started here."""
    calls: list[dict[str, Any]] = field(default_factory=list)
    """Of this process, until they are reported; on the master all of them."""
    ended: int = 0
    """Users that have run all their loops."""


run = Run()


def _arguments(parser: Any) -> None:
    group = parser.add_argument_group("Paceline")
    group.add_argument("--scenario", default="code-edit", help="A shipped scenario, or a file.")
    group.add_argument("--model", default="gpt-5.6-sol", help="The model's name.")
    group.add_argument("--tier", default="", help="service_tier of every request.")
    group.add_argument("--dialect", default="", help="chat, responses or messages.")
    group.add_argument(
        "--loops", type=int, default=0, help="Of each user; 0: until the time is up."
    )
    group.add_argument("--seed", default="", help="In place of the scenario's.")
    parser.add_argument("--api-key", default="paceline", help="The key.", is_secret=True)
    group.add_argument("--other-server", action="store_true", help="The server isn't Paceline.")
    group.add_argument("--figures", default="", help="A JSON file for every call's figures.")


def _prepare(environment: Environment, **_: Any) -> None:
    runner = environment.runner
    assert runner is not None, "the test has a runner"
    if not isinstance(runner, MasterRunner):
        runner.register_message(_MESSAGE, _told)
    if not isinstance(runner, WorkerRunner):
        options = environment.parsed_options
        if environment.host or (options is not None and options.headless):
            # With Locust's page the address may still come from there.
            try:
                BaseUrl.parse(environment.host or "")
            except ValueError as error:
                raise SystemExit(f"--host: {error}, as in http://127.0.0.1:8000/v1") from None
        _set(_asked(environment))


def _asked(environment: Environment) -> dict[str, Any]:
    """What all processes have to have in common; a worker's own options don't count."""
    options = environment.parsed_options
    assert options is not None, "Locust was started by its command"
    shipped = shipped_scenarios().get(options.scenario)
    path = shipped or Path(options.scenario)
    try:
        if shipped is None:
            # Says what there is, where the name is a mistake.
            load_scenario(options.scenario)
        data = read_toml(path, ScenarioError)
    except ScenarioError as error:
        raise SystemExit(f"--scenario: {error}") from None
    try:
        seed = int(options.seed) if options.seed else None
    except ValueError:
        raise SystemExit(f"--seed: {options.seed!r} is no whole number") from None
    return {"scenario": data, "name": path.stem, "dialect": options.dialect, "seed": seed}


def _set(told: dict[str, Any]) -> None:
    run.scenario = scenario = parse_scenario(told["scenario"], told["name"])
    dialect = told["dialect"] or scenario.dialect
    if dialect == "responses-websocket":
        # These users speak HTTP alone.
        dialect = "responses"
    if dialect not in DIALECTS:
        raise SystemExit(f"--dialect: {dialect!r} is none of chat, responses, messages")
    run.dialect, run.seed = dialect, told["seed"]


def _start(environment: Environment, **_: Any) -> None:
    """Tell every worker what the test is."""
    runner = environment.runner
    if runner is None or isinstance(runner, WorkerRunner):
        return
    run.calls.clear()
    run.ended = 0
    workers = runner.worker_count if isinstance(runner, MasterRunner) else 1
    common = {"workers": workers, "salt": os.urandom(8).hex(), **_asked(environment)}
    runner.send_message(_MESSAGE, common)


def _told(environment: Environment, msg: Any, **_: Any) -> None:
    _set(msg.data)
    run.workers, run.salt = msg.data["workers"], msg.data["salt"]
    run.started = itertools.count()


class Agent(User):
    """An agent: loops of the scenario, one after another."""

    wait_time = constant(0)

    def on_start(self) -> None:
        """Take a number that no other user of any worker has."""
        runner, options = self.environment.runner, self.environment.parsed_options
        assert runner is not None
        assert options is not None
        index = max(getattr(runner, "worker_index", 0), 0)
        self.number = index + run.workers * next(run.started)
        self.left = options.loops
        self.again = 0
        self.target = Target(
            label="locust",
            base_url=self.environment.host or "",
            model=options.model,
            service_tier=options.tier or None,
            api_key=options.api_key,
            paceline=not options.other_server,
        )
        self.http = GeventClient(self.target.base_url, self.target.api_key)

    def on_stop(self) -> None:
        """Leave."""
        self.http.close()

    @task
    def loop(self) -> None:
        """One loop, from its first request to its last answer."""
        assert run.scenario is not None, "loaded before any user starts"
        number = self.number + _STRIDE * self.again
        self.again += 1
        self._loop(draw_one(run.scenario, number, run.seed), self.http, str(number))
        if self.left:
            self.left -= 1
            if not self.left:
                run.ended += 1
                raise StopUser

    def _loop(self, loop: Loop, http: GeventClient, thread: str) -> None:
        assert run.scenario is not None
        scenario = run.scenario
        talk = Conversation(
            loop, self.target, run.dialect, salt=run.salt, stream=scenario.stream, thread=thread
        )
        for turn in loop.turns:
            gevent.sleep(turn.think_s)
            call = Call(scheduled_at=perf_counter())
            began = time.time()
            ask: Ask = talk.ask()
            call.slot_at = perf_counter()
            reply = http.call(ask, call)
            self._tell(call, began, turn.stage)
            if not call.ok and scenario.on_error == "stop":
                return
            talk.answer(reply)
            if turn.parallel:
                _together([gevent.spawn(self._tool, tool, thread) for tool in turn.tools])
                continue
            for tool in turn.tools:
                self._tool(tool, thread)

    def _tool(self, tool: ToolRun, thread: str) -> None:
        _together(
            [
                gevent.spawn(self._sub_agent, loop, f"{thread}/{i}")
                for i, loop in enumerate(tool.agents)
            ]
        )
        gevent.sleep(tool.seconds)

    def _sub_agent(self, loop: Loop, thread: str) -> None:
        http = GeventClient(self.target.base_url, self.target.api_key)
        try:
            self._loop(loop, http, thread)
        finally:
            http.close()

    def _tell(self, call: Call, began: float, stage: str) -> None:
        """Report a call to Locust, and keep what Locust would round."""
        fire = self.environment.events.request.fire
        name = f"{run.dialect} {stage}".strip()
        first, each, whole = ttft(call), tpot(call), e2e(call)
        ended = call.end_at or perf_counter()
        seconds = whole if whole is not None else ended - call.scheduled_at
        fire(
            request_type="POST",
            name=name,
            response_time=seconds * 1e3,
            response_length=call.output_tokens or 0,
            exception=None if call.ok else Exception(call.error or "never ended"),
            context={},
        )
        for kind, value, unit in (("TTFT", first, 1e3), ("TPOT µs", each, 1e6)):
            if value is not None:
                fire(
                    request_type=kind,
                    name=name,
                    response_time=value * unit,
                    response_length=0,
                    exception=None,
                    context={},
                )
        run.calls.append(
            {
                "stage": stage,
                "began": began,
                "ended": began + (ended - call.scheduled_at),
                "ttft_s": first,
                "tpot_s": each,
                "e2e_s": whole,
                "output_tokens": call.output_tokens if call.ok else None,
                "error": call.error,
            }
        )


def _together(work: list[Any]) -> None:
    """Wait for greenlets: what one raises is raised, and whoever is cut ends them all."""
    try:
        gevent.joinall(work, raise_error=True)
    finally:
        gevent.killall(work, block=False)


# -- one table from all workers ----------------------------------------------------------------


def _report(client_id: str, data: dict[str, Any], **_: Any) -> None:
    data["paceline"] = {"calls": run.calls, "ended": run.ended}
    run.calls, run.ended = [], 0


def _reported(client_id: str, data: dict[str, Any], **_: Any) -> None:
    told = data.get("paceline", {"calls": [], "ended": 0})
    run.calls += told["calls"]
    run.ended += told["ended"]


def _watch(environment: Environment, **_: Any) -> None:
    """End the test when every user has run its loops."""
    runner, options = environment.runner, environment.parsed_options
    if runner is None or options is None or isinstance(runner, WorkerRunner) or not options.loops:
        return

    def wait() -> None:
        while run.ended < runner.target_user_count or not run.ended:
            gevent.sleep(0.2)
        runner.quit()

    gevent.spawn(wait)


def _table(environment: Environment, **_: Any) -> None:
    options = environment.parsed_options
    if isinstance(environment.runner, WorkerRunner) or options is None:
        return
    print(table(run.calls))
    if options.figures:
        Path(options.figures).write_text(json.dumps(run.calls), "utf-8")


def table(calls: list[dict[str, Any]]) -> str:
    """The calls' figures in words: exact percentiles of all workers' calls together."""
    failed = sum(call["error"] is not None for call in calls)
    lines = [f"\nPaceline: {len(calls)} calls, {failed} failed"]
    if not calls:
        return lines[0]
    span = max(c["ended"] for c in calls) - min(c["began"] for c in calls)
    tokens = sum(c["output_tokens"] or 0 for c in calls)
    lines.append(f"{tokens} output tokens in {span:.2f} s: {tokens / span:.1f} a second")
    lines.append(f"{'':8}{'mean':>12}{'p50':>12}{'p90':>12}{'p99':>12}{'max':>12}")
    for name, key in (("TTFT", "ttft_s"), ("TPOT", "tpot_s"), ("E2E", "e2e_s")):
        spread = Spread.of(call[key] for call in calls)
        if spread is not None:
            shown = (spread.mean, *map(spread.percentile, (50, 90, 99)), spread.max)
            lines.append(f"{name:8}" + "".join(f"{value * 1e3:>9.3f} ms" for value in shown))
    return "\n".join(lines)


_LISTENERS: tuple[tuple[Any, Any], ...] = (
    (events.init_command_line_parser, _arguments),
    (events.init, _prepare),
    (events.test_start, _start),
    (events.report_to_master, _report),
    (events.worker_report, _reported),
    (events.test_start, _watch),
    (events.quitting, _table),
)
for event, listener in _LISTENERS:
    event.add_listener(listener)
