"""A line that moves while a load test runs: on a terminal alone, and only when it takes a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from paceline_loadtest.model import Call

_REFRESH_HZ = 4
"""Drawing takes some 2 ms, which is the client's lateness."""


class Watcher(Protocol):
    """Whoever wants to know how it goes."""

    def target(self, label: str, loops: int | None) -> None:
        """A target's run begins; `loops` is how many, None where nobody knows."""
        ...

    def loop_ended(self) -> None:
        """A loop has ended."""
        ...

    def call_ended(self, call: Call) -> None:
        """A call has."""
        ...


class Silent:
    """A watcher that says nothing."""

    def target(self, label: str, loops: int | None) -> None:
        """See `Watcher`."""

    def loop_ended(self) -> None:
        """See `Watcher`."""

    def call_ended(self, call: Call) -> None:
        """See `Watcher`."""


class Bar:
    """A bar of loops, with the calls that have ended and those that have failed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, calls=0, failed=0)
        self._calls = 0
        self._failed = 0

    def target(self, label: str, loops: int | None) -> None:
        """See `Watcher`."""
        self._calls = self._failed = 0
        self._progress.reset(self._task, total=loops, description=label, calls=0, failed=0)

    def loop_ended(self) -> None:
        """See `Watcher`."""
        self._progress.advance(self._task)

    def call_ended(self, call: Call) -> None:
        """See `Watcher`."""
        self._calls += 1
        self._failed += call.error is not None
        self._progress.update(self._task, calls=self._calls, failed=self._failed)


@contextmanager
def watcher(console: Console) -> Iterator[Watcher]:
    """A bar where there is a terminal to draw it on, else silence."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield Silent()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:g} loops, {task.fields[calls]} calls"),
        TextColumn("[red]{task.fields[failed]} failed"),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, refresh_per_second=_REFRESH_HZ
    ) as progress:
        yield Bar(progress)
