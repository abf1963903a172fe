"""The second driver: the same deployments in virtual time, from event to event.

Nothing here computes a schedule; it only feeds arrivals and aborts to a deployment at their own
times, as the live pacer does at real ones. So both give the same schedule to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from paceline.core.deployment import Deployment
from paceline.core.sequence import Sequence
from paceline.core.steps import FOREVER


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request's sequences and when they come (ns)."""

    at_ns: int
    seqs: tuple[Sequence, ...]


@dataclass(frozen=True, slots=True)
class Abort:
    """A reader that leaves at `at_ns`."""

    at_ns: int
    seq: Sequence


def replay(deployment: Deployment, events: Iterable[Arrival | Abort]) -> Iterator[Sequence]:
    """Feed events, which must be in order of time, and yield each sequence as it ends."""
    for event in events:
        if isinstance(event, Arrival):
            deployment.submit(event.seqs, event.at_ns)
        else:
            deployment.abort(event.seq, event.at_ns)
        yield from deployment.drain()[1]
    yield from run_out(deployment)


def run_out(deployment: Deployment) -> Iterator[Sequence]:
    """Let a deployment finish all that it has, and yield each sequence as it ends."""
    while deployment.next_ns < FOREVER:
        deployment.advance(deployment.next_ns)
        yield from deployment.drain()[1]


def closed_loop(
    deployment: Deployment,
    users: int,
    next_request: Callable[[int, int], tuple[int, Sequence] | None],
    start_ns: int = 0,
) -> Iterator[Sequence]:
    """Users who each have one request under way, and ask the next when it has ended.

    `next_request(user, ended_ns)` gives the time of the user's next request and the request, or
    None when the user is done; it is first called with `start_ns`. Yields sequences as they end.
    """
    pending: list[tuple[int, int, int, Sequence]] = []
    owner: dict[int, int] = {}
    count = 0

    def ask(user: int, ended_ns: int) -> None:
        nonlocal count
        request = next_request(user, ended_ns)
        if request is not None:
            count += 1
            owner[id(request[1])] = user
            heappush(pending, (max(request[0], ended_ns), count, user, request[1]))

    for user in range(users):
        ask(user, start_ns)
    while pending or deployment.next_ns < FOREVER:
        if pending and pending[0][0] <= deployment.next_ns:
            at_ns, _, _, seq = heappop(pending)
            deployment.submit((seq,), at_ns)
        else:
            deployment.advance(deployment.next_ns)
        for seq in deployment.drain()[1]:
            yield seq
            ask(owner.pop(id(seq)), seq.end_ns)
