"""Runs: a workload through a deployment in virtual time, one line of numbers a request."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from paceline.core.deployment import deploy
from paceline.core.profile import Profile
from paceline.core.rng import mix64
from paceline.core.sequence import Sequence
from paceline.core.simulate import Arrival, closed_loop, replay
from paceline.simulation.arrivals import Job, Workload


class Run:
    """What became of each request, as columns in the order of their ends: 64 bytes a request.

    Times are ns of virtual time. `refused` counts requests that the model's limits don't allow;
    a server answers those with an error at once, so they are in no column.
    """

    __slots__ = (
        "admitted",
        "cached",
        "end",
        "engine",
        "first",
        "output",
        "preemptions",
        "profile",
        "prompt",
        "received",
        "refused",
        "users",
    )

    def __init__(self, profile: Profile, users: int | None = None) -> None:
        self.profile = profile
        self.users = users
        self.received = array("q")
        self.engine = array("q")
        self.admitted = array("q")
        self.first = array("q")
        self.end = array("q")
        self.prompt = array("q")
        self.output = array("q")
        self.cached = array("q")
        self.refused = 0
        self.preemptions = 0

    def __len__(self) -> int:
        return len(self.end)

    def collect(self, ended: Iterable[Sequence]) -> None:
        """Note sequences as they end; those owned by False are warm-up and leave no trace."""
        received, engine, admitted = self.received.append, self.engine.append, self.admitted.append
        first, end = self.first.append, self.end.append
        prompt, output, cached = self.prompt.append, self.output.append, self.cached.append
        for seq in ended:
            if seq.owner is False:
                continue
            received(seq.received_ns)
            engine(seq.engine_ns)
            admitted(seq.admitted_ns)
            first(seq.first_ns)
            end(seq.end_ns)
            prompt(seq.prompt_tokens)
            output(seq.output_tokens)
            cached(seq.cached_tokens)


def run_open(profile: Profile, workload: Workload, *, seed: int = 0, warmup: int = 0) -> Run:
    """Requests arrive at their own times. The first `warmup` of them run but aren't counted."""
    run = Run(profile)
    deployment = deploy(profile)
    jobs = _allowed(run, workload.jobs(profile))
    # Requests are told apart by a number from which all that is random about them follows.
    begin = mix64(seed)
    first = begin + warmup
    arrivals = (
        Arrival(at_ns, (Sequence(prompt, output, key=mix64(n), blocks=blocks, owner=n >= first),))
        for n, (at_ns, prompt, output, blocks) in enumerate(jobs, begin)
    )
    with _collector_paused():
        run.collect(replay(deployment, arrivals))
    run.preemptions = sum(replica.preemptions for replica in deployment.replicas)
    return run


def run_closed(
    profile: Profile,
    workload: Workload,
    users: int,
    *,
    think_s: float = 0.0,
    ramp_s: float = 0.0,
    seed: int = 0,
    warmup: int = 0,
) -> Run:
    """`users` users ask again `think_s` after each answer, until the workload's requests are used.

    Their first requests are spread evenly over `ramp_s`. Arrival times of the workload are
    ignored.
    """
    run = Run(profile, users)
    deployment = deploy(profile)
    begin = mix64(seed)
    jobs = enumerate(_allowed(run, workload.jobs(profile)), begin)
    first = begin + warmup
    think_ns, ramp_ns = round(think_s * 1e9), round(ramp_s * 1e9)
    begun: set[int] = set()

    def next_request(user: int, ended_ns: int) -> tuple[int, Sequence] | None:
        for n, (_, prompt, output, blocks) in jobs:
            at_ns = ended_ns + think_ns
            if len(begun) < users and user not in begun:
                begun.add(user)
                at_ns = ramp_ns * user // users
            key = mix64(n)
            return at_ns, Sequence(prompt, output, key=key, blocks=blocks, owner=n >= first)
        return None

    with _collector_paused():
        run.collect(closed_loop(deployment, users, next_request))
    run.preemptions = sum(replica.preemptions for replica in deployment.replicas)
    return run


def first_lengths(profile: Profile, workload: Workload, count: int) -> list[tuple[int, int]]:
    """Prompt and output tokens of the first `count` requests."""
    return [(job[1], job[2]) for job in islice(workload.jobs(profile), count)]


def _allowed(run: Run, jobs: Iterator[Job]) -> Iterator[Job]:
    """The requests that the model's limits allow; counts the others."""
    limits = run.profile.limits
    context, most = limits.context_tokens, limits.max_output_tokens
    for job in jobs:
        if job[1] + job[2] > context or job[2] > most:
            run.refused += 1
        else:
            yield job


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the cycle collector: a run makes no cycles, and its passes would find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
