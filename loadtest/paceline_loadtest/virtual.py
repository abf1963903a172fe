"""Virtual time for things that wait: for a moment, for an answer, or for one another.

A process is a generator that yields what it waits for: a time in ns, a request, or processes, whose
results it gets when the last of them has ended. A deployment and all processes go from event to
event together, so none sees another's future.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from heapq import heappop, heappush
from typing import Any, TypeVar

from paceline.core.deployment import EngineDeployment, FlatDeployment, Transport
from paceline.core.sequence import Sequence
from paceline.core.steps import FOREVER

_T = TypeVar("_T")

Wait = int | Sequence | list["Process[Any]"]
Process = Generator[Wait, Any, _T]


class VirtualTime:
    """Runs processes against a deployment that nobody else uses."""

    def __init__(
        self, deployment: EngineDeployment | FlatDeployment, transport: Transport = "http"
    ) -> None:
        self.now_ns = 0
        self._deployment = deployment
        self._transport = transport
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def start(
        self, process: Process[_T], at_ns: int = 0, then: Callable[[_T], None] | None = None
    ) -> None:
        """Begin a process at a time; `then` gets its result."""
        self._at(at_ns, lambda: self._go_on(process, None, then))

    def run(self) -> None:
        """Run until nothing waits any more."""
        deployment, due = self._deployment, self._due
        while due or deployment.next_ns < FOREVER:
            if due and due[0][0] <= deployment.next_ns:
                self.now_ns, _, action = heappop(due)
                action()
            else:
                self.now_ns = deployment.next_ns
                deployment.advance(self.now_ns)
            for seq in deployment.drain()[1]:
                seq.owner(seq)

    def _at(self, at_ns: int, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._due, (max(at_ns, self.now_ns), self._order, action))

    def _go_on(self, process: Process[_T], value: Any, then: Callable[[_T], None] | None) -> None:
        try:
            wanted = process.send(value)
        except StopIteration as end:
            if then is not None:
                then(end.value)
            return
        if isinstance(wanted, Sequence):
            self._ask(wanted, lambda: self._go_on(process, None, then))
        elif isinstance(wanted, list):
            self._all(wanted, lambda results: self._go_on(process, results, then))
        else:
            self._at(wanted, lambda: self._go_on(process, None, then))

    def _ask(self, seq: Sequence, then: Callable[[], None]) -> None:
        # What is seen of an answer's end is its last token, which jitter may show a little later.
        def ended(seq: Sequence) -> None:
            last_ns = max(seq.end_ns, seq.due(max(seq.output_tokens - 1, 0)))
            self._at(last_ns, then)

        seq.owner = ended
        if isinstance(self._deployment, EngineDeployment):
            self._deployment.submit((seq,), self.now_ns, transport=self._transport)
        else:
            self._deployment.submit((seq,), self.now_ns)

    def _all(self, processes: list[Process[Any]], then: Callable[[list[Any]], None]) -> None:
        results: dict[int, Any] = {}

        def ended(at: int, result: Any) -> None:
            results[at] = result
            if len(results) == len(processes):
                then([results[i] for i in range(len(processes))])

        if not processes:
            self._at(self.now_ns, lambda: then([]))
        for at, process in enumerate(processes):
            self.start(process, self.now_ns, partial(ended, at))
