"""A whole load test: every target under the same load, one after another, and its results."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter

from paceline import __version__
from paceline.core.profile import Profile
from paceline_loadtest.calibrate import calibrate
from paceline_loadtest.caller import Caller
from paceline_loadtest.caps import Caps
from paceline_loadtest.clients import ClientKind, client_name, make_client
from paceline_loadtest.draw import draw_one
from paceline_loadtest.endpoint import base_of, root_of
from paceline_loadtest.lateness import DEFAULT_LIMIT_S, OwnLateness
from paceline_loadtest.load import Load, Slots, Stop, run_load, unless_stopped
from paceline_loadtest.model import Dialect, LoopRun, Target
from paceline_loadtest.predict import Terms, predict, varies
from paceline_loadtest.progress import Silent, Watcher
from paceline_loadtest.records import ServerRecords
from paceline_loadtest.report import Results, RunInfo, TargetRun, relative
from paceline_loadtest.retries import Retries
from paceline_loadtest.runner import Runner
from paceline_loadtest.scenario import Scenario
from paceline_loadtest.statistics import calls_of

_WARM_MOST = 256
"""Connections that are opened ahead."""

INTERRUPTED = "interrupted"
_EARLY = "It ended before its time: {why}."
_BILLED = "as the server billed each request"
_DRAWN = "Its profile draws waits: the prediction drew others, alike in their distribution alone."
_SAME_LOOPS = "Every target ran the same loops: seed {seed}."


def _unknown(_name: str) -> Profile | None:
    return None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a load test does. `profile_of` gives what predictions are made with, by name."""

    scenario: Scenario
    targets: Sequence[Target]
    load: Load
    seed: int
    client: ClientKind = "sdk"
    dialect: Dialect | None = None
    """None: the scenario's."""
    late_limit_s: float = DEFAULT_LIMIT_S
    retries: Retries = field(default_factory=Retries)
    idle_timeout_s: float = 120.0
    caps: Caps | None = None
    profile_of: Callable[[str], Profile | None] = _unknown
    settings: Mapping[str, str] = field(default_factory=dict)


async def measure(plan: Plan, stop: Stop, watcher: Watcher | None = None) -> Results:
    """Run it. A stop ends the target that runs and all behind it; what there is is in the results.

    Fails with what a target's base URL may raise, and with nothing that a server can do.
    """
    started = datetime.now(UTC).astimezone()
    info = RunInfo(
        scenario=plan.scenario.name,
        seed=plan.seed,
        client=client_name(plan.client, _dialect(plan)),
        dialect=_dialect(plan),
        tool_version=__version__,
        started=started.isoformat(timespec="seconds"),
        stream=plan.scenario.stream,
        notes=(_SAME_LOOPS.format(seed=plan.seed),),
        settings=dict(plan.settings),
    )
    results = Results(info, [])
    # Texts of this run alone: a server that has met the scenario before knows none of them.
    salt = os.urandom(8).hex()
    for target in plan.targets:
        if stop.why is not None:
            break
        one = _One(plan, target, f"{salt}/{target.label}", stop, watcher or Silent())
        found = await one.run()
        results.targets += [] if found is None else [found]
    return results


def _dialect(plan: Plan) -> Dialect:
    return plan.dialect or plan.scenario.dialect


def _facts(profile: Profile) -> dict[str, str]:
    """What a reader wants to know of a profile beside its name."""
    found = {"profile": profile.name}
    if math.isfinite(profile.ceiling_tok_s):
        found["at most"] = f"{profile.ceiling_tok_s:,.0f} tok/s a stream"
    ahead_ms = profile.overhead.api_ms_p50 + profile.overhead.round_trip_ms
    if ahead_ms:
        found["before prefill"] = f"{ahead_ms:,.0f} ms"
    return found


class _One:
    """One target's part."""

    def __init__(self, plan: Plan, target: Target, salt: str, stop: Stop, watcher: Watcher) -> None:
        self._plan = plan
        self._target = target
        self._salt = salt
        self._stop = stop
        self._watcher = watcher
        self._runs: dict[int, LoopRun] = {}
        self._lateness = OwnLateness(plan.late_limit_s)

    async def run(self) -> TargetRun | None:
        """Its results; None where it was stopped before its first loop."""
        plan, target = self._plan, self._target
        caller = make_client(
            plan.client,
            target.base_url,
            target.api_key,
            retries=plan.retries,
            idle_timeout_s=plan.idle_timeout_s,
        )
        cost_s = None
        try:
            if target.paceline:
                calibration = calibrate(
                    caller,
                    target,
                    _dialect(plan),
                    salt=self._salt,
                    stream=plan.scenario.stream,
                )
                cost_s = await unless_stopped(self._stop, calibration)
            if self._stop.set_already:
                return None
            began = await self._load(caller)
        finally:
            await caller.aclose()
        runs = [self._runs[number] for number in sorted(self._runs)]
        notes = [_EARLY.format(why=why)] if (why := self._stop.why) else []
        found = TargetRun(
            target,
            [],
            users=None if plan.load.arrivals else plan.load.users,
            rate=plan.load.arrivals.rate if plan.load.arrivals else None,
            client_cost_s=cost_s,
        )
        if target.paceline:
            calls = list(calls_of(runs))
            records = ServerRecords(root_of(base_of(target)), _dialect(plan), target.api_key)
            await asyncio.to_thread(records.fill, calls)
            await asyncio.to_thread(records.receipt, calls, self._lateness.receipt)
            profile = self._served_by(runs)
            if any(call.server.cost_usd is not None for call in calls):
                found.price_source = _BILLED
            if profile is not None:
                found.facts = _facts(profile)
                found.predicted = self._predicted(runs, profile, began, cost_s or 0.0)
                notes += [_DRAWN] if varies(profile) else []
        # Only now: the server's records have told more of the calls.
        found.loops = relative(runs, began)
        ends = [run.ended_at for run in found.loops if run.ended_at is not None]
        if ends:
            found.seconds = max(ends) - min(run.started_at for run in found.loops)
        found.lateness = self._lateness.worst()
        found.lateness_kinds = self._lateness.kinds()
        found.notes = tuple(notes)
        return found

    async def _load(self, caller: Caller) -> float:
        """Run the loops; returns when the run began."""
        plan = self._plan
        load = plan.load
        runner = Runner(
            self._target,
            _dialect(plan),
            caller,
            Slots(load.slots),
            self._stop,
            self._lateness,
            salt=self._salt,
            stream=plan.scenario.stream,
            on_error=plan.scenario.on_error,
            caps=plan.caps,
            told=self._watcher.call_ended,
        )

        async def work(number: int, due: float) -> None:
            run = LoopRun(draw_one(plan.scenario, number, plan.seed), due)
            self._runs[number] = run
            await runner.run(run)
            self._watcher.loop_ended()

        if load.arrivals is None and _dialect(plan) != "responses-websocket":
            await caller.warm(min(load.users, _WARM_MOST))
        self._watcher.target(self._target.label, load.loops)
        with self._lateness.watched():
            began = perf_counter()
            await run_load(load, work, self._stop, began)
        return began

    def _served_by(self, runs: Sequence[LoopRun]) -> Profile | None:
        """The profile that served all of them, where it is known."""
        names = {call.server.profile for call in calls_of(runs) if call.ok}
        return self._plan.profile_of(names.pop() or "") if len(names) == 1 else None

    def _predicted(
        self, runs: Sequence[LoopRun], profile: Profile, began: float, cost_s: float
    ) -> list[LoopRun]:
        """The same loops on the model of the profile that served them."""
        plan = self._plan
        terms = Terms(_dialect(plan), plan.scenario.stream, plan.scenario.on_error, cost_s)
        loops = [run.loop for run in runs]
        if plan.load.arrivals is None and not plan.load.think_s:
            found = predict(loops, profile, terms, users=plan.load.users)
        else:
            found = predict(loops, profile, terms, starts=[run.started_at - began for run in runs])
        return [relative([run], run.started_at)[0] for run in found]
