"""What goes out to a shared ledger's store: in order, in groups, and again where it failed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("paceline.ledger")

Then = Callable[[], None]

TIMEOUT_S = 2.0
"""How long the store may take for an answer, and the end for what is left."""
_GROUP = 256
_MOST_KEPT = 100_000
_RETRY_S = 0.5


@dataclass(slots=True)
class Job:
    """Keys and arguments for the script that settles, and what is to happen then.

    Without keys there is nothing to send, only to wait for what was put before.
    """

    keys: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    then: Then | None = None


class Sender:
    """A queue of jobs and the task that sends them. Lives on the event loop."""

    def __init__(self, store: Any, settle: Any) -> None:
        """`settle` is the registered script."""
        self.healthy = True
        """Whether the store answered last."""
        self.lost_writes = 0
        """Entries that were given up."""
        self._store = store
        self._settle = settle
        self._jobs: deque[Job] = deque()
        self._under_way = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def put(self, job: Job) -> None:
        """Send a job after those before it; one without keys is done where it has none to wait for.

        While the store fails nobody waits.
        """
        if not job.keys and (self._idle or not self.healthy):
            _run(job)
            return
        if self._task is None:
            self._task = asyncio.create_task(self._send())
        self._jobs.append(job)
        if not self.healthy:
            _run(job)
        self._wake.set()

    @property
    def _idle(self) -> bool:
        return not self._jobs and not self._under_way

    async def caught_up(self) -> None:
        """Wait until all that was put before is sent, or can't be for now."""
        reached = asyncio.Event()
        self.put(Job(then=reached.set))
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                await reached.wait()

    async def close(self) -> None:
        """Send what is left, give up what can't be sent, and send no more."""
        await self.caught_up()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._give_up(0)

    def failed(self, error: Exception) -> None:
        """The store didn't answer."""
        if self.healthy:
            log.error("The ledger's store doesn't answer (%s); tried again from now on.", error)
        self.healthy = False

    def answered(self) -> None:
        """It did."""
        if not self.healthy:
            log.warning("The ledger's store answers again.")
        self.healthy = True

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._jobs:
                group = [self._jobs.popleft() for _ in range(min(len(self._jobs), _GROUP))]
                self._under_way = len(group)
                try:
                    again = await self._sent_now(group)
                except asyncio.CancelledError:
                    self._jobs.extendleft(reversed(group))
                    raise
                finally:
                    self._under_way = 0
                self._jobs.extendleft(reversed(again))
                for job in group:
                    # While something can't be written, nobody waits for it.
                    _run(job)
                if again:
                    for job in self._jobs:
                        _run(job)
                    self._give_up(_MOST_KEPT)
                    await asyncio.sleep(_RETRY_S)

    async def _sent_now(self, group: list[Job]) -> list[Job]:
        """Send a group; those that have to be sent again."""
        jobs = [job for job in group if job.keys]
        if not jobs:
            return []
        try:
            async with self._store.pipeline(transaction=False) as pipe:
                for job in jobs:
                    await self._settle(keys=job.keys, args=job.args, client=pipe)
                results = await pipe.execute(raise_on_error=False)
        except errors() as error:
            self.failed(error)
            return jobs
        again = []
        for job, result in zip(jobs, results, strict=True):
            if not isinstance(result, Exception):
                continue
            if str(result).startswith("ERR") or "user_script" in str(result):
                log.error("An entry that the store can't take is left out: %s", result)
                self.lost_writes += 1
            else:
                self.failed(result)
                again.append(job)
        if not again:
            self.answered()
        return again

    def _give_up(self, but: int) -> None:
        while len(self._jobs) > but:
            job = self._jobs.popleft()
            self.lost_writes += bool(job.keys)
            _run(job)


def errors() -> tuple[type[Exception], ...]:
    """What the client raises where the store doesn't answer, or not as it should."""
    from redis.exceptions import RedisError  # noqa: PLC0415 - an extra that few need

    # A RuntimeError: uvloop's, for a connection that was closed a moment ago.
    return RedisError, OSError, RuntimeError


def _run(job: Job) -> None:
    then, job.then = job.then, None
    if then is not None:
        try:
            then()
        except Exception:
            log.exception("What was to follow an entry failed.")
