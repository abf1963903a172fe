"""The live driver: one timer a process, which wakes when tokens are due and sends them.

A pass lets the deployments catch up with the clock, then gives every stream with something due
one write with all of it. The gap to the next pass follows from how long the last one took, so
that writing takes at most a set share of the core and new connections never starve; under load
that means fewer, larger writes, never a stream that waits for another's backlog.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from paceline.core.deployment import EngineDeployment, FlatDeployment, Transport
from paceline.core.encode import ChoiceEncoder, EndsLate
from paceline.core.sequence import Sequence, State
from paceline.core.steps import FOREVER, StepClock
from paceline.runtime.clock import Clock
from paceline.runtime.lane import Lane
from paceline.runtime.metrics import AbortCause
from paceline.runtime.stream import Answer, Stream
from paceline.runtime.wheel import Wheel

LEAST_GAP_NS = 250_000
"""Between two passes: how fine the pacing is when there's little to do."""

_CLOSING_NS = 2_000_000
"""Longest stretch of ends."""


class Pacer:
    """Drives deployments in real time. Not thread-safe: it lives on the event loop."""

    def __init__(self, clock: Clock, utilisation: float = 0.7) -> None:
        """`utilisation` is the most of the core that passes may take, from 0 to 1."""
        self.answers: dict[Answer, None] = {}
        """All that are under way, oldest first."""
        self._clock = clock
        self._rest = 1.0 / utilisation - 1.0
        self._timer = clock.timer(self._pass)
        self._armed_ns = FOREVER
        self._rested_ns = 0
        self._active: dict[EngineDeployment | FlatDeployment, None] = {}
        self._shared: dict[StepClock, Lane] = {}
        self._wheel = Wheel(clock)
        self._closing: deque[tuple[Answer, ChoiceEncoder, int]] = deque()
        """Ends of answers whose tokens are all out."""
        self._late: list[tuple[int, int, Sequence]] = []
        """Sequences whose end is known but, by their jitter, not yet due."""

    def close(self) -> None:
        """Stop for good."""
        self._timer.close()

    def submit(
        self,
        answer: Answer,
        deployment: EngineDeployment | FlatDeployment,
        *,
        transport: Transport = "http",
        ttft_ns: int | None = None,
        step_ns: float | None = None,
    ) -> None:
        """Start an answer's sequences, as of when its request was received.

        `ttft_ns` and `step_ns` are for flat deployments: in place of the profile's.
        """
        now_ns = self._clock.now_ns()
        self.answers[answer] = None
        answer.deployment = deployment
        answer.under_way = self.answers
        encoder: object = answer.encoder
        if isinstance(encoder, EndsLate):
            answer.later = self._closing
        self._active[deployment] = None
        if isinstance(deployment, FlatDeployment):
            deployment.submit(
                answer.seqs,
                now_ns,
                received_ns=answer.received_ns,
                ttft_ns=ttft_ns,
                step_ns=step_ns,
            )
        else:
            deployment.submit(
                answer.seqs, now_ns, received_ns=answer.received_ns, transport=transport
            )
        self._collect(deployment)
        self._wake(deployment.next_ns)

    def abort(self, answer: Answer, cause: AbortCause = "client_gone") -> None:
        """End an answer that nobody waits for; its slots are free at the next step."""
        if answer not in self.answers:
            return
        now_ns = self._clock.now_ns()
        del self.answers[answer]
        deployment = answer.deployment
        assert isinstance(deployment, EngineDeployment | FlatDeployment)
        for seq in answer.seqs:
            deployment.abort(seq, now_ns)
        answer.abort(now_ns, cause)
        self._collect(deployment)
        self._wake(deployment.next_ns)

    def break_off(self, answer: Answer, message: str) -> None:
        """End an answer with an error, as a server does that is told to stop."""
        if answer in self.answers:
            self.abort(answer, "shutdown")
            answer.fail(503, message, "server_shutting_down")

    def _give_up(self, broken: list[Stream]) -> None:
        """End the answers of streams that failed, each with an error that its client can read."""
        for stream in broken:
            if stream.answer in self.answers:
                self.abort(stream.answer, "error")
                stream.answer.fail(500, "The server had an error.", "server_error")

    def resume(self, answer: Answer) -> None:
        """An answer whose reader was slow may be written again."""
        now_ns = self._clock.now_ns()
        for stream in answer.streams:
            clock = stream.seq.clock
            if not stream.open or clock is None:
                continue
            lane = self._shared.get(clock)
            if lane is not None:
                lane.changed = True
                lane.due_ns = now_ns
            elif stream.lane is not None:
                stream.lane.changed = True
        self._wake(now_ns)

    # -- a pass --------------------------------------------------------------------------------

    def _wake(self, at_ns: int) -> None:
        at_ns = max(at_ns, self._rested_ns)
        if at_ns < self._armed_ns:
            self._armed_ns = at_ns
            self._timer.arm(at_ns)

    def _pass(self) -> None:
        clock = self._clock
        begun_ns = clock.now_ns()
        self._armed_ns = FOREVER
        try:
            self._send_due(begun_ns)
        finally:
            # Whatever went wrong, the streams that are all right go on.
            ended_ns = clock.now_ns()
            rest_ns = max(int((ended_ns - begun_ns) * self._rest), LEAST_GAP_NS)
            self._rested_ns = ended_ns + rest_ns
            self._wake(self._next_ns())

    def _send_due(self, begun_ns: int) -> None:
        clock = self._clock
        for deployment in list(self._active):
            if deployment.next_ns <= begun_ns:
                deployment.advance(begun_ns)
                self._collect(deployment)
        for lane in list(self._shared.values()):
            self._give_up(lane.flush(begun_ns, clock))
            if not lane.streams:
                del self._shared[lane.clock]
        self._give_up(self._wheel.flush(begun_ns))
        while self._late and self._late[0][0] <= begun_ns:
            self._complete(heappop(self._late)[2])
        if self._closing:
            self._close_some()

    def _close_some(self) -> None:
        """Say the ends that waited, a few at a time: other streams' tokens go first."""
        stop_ns = self._clock.now_ns() + _CLOSING_NS
        while self._closing:
            answer, choice, at_ns = self._closing.popleft()
            if answer in self.answers:
                answer.finish(b"", choice, at_ns)
            if self._clock.now_ns() >= stop_ns:
                return

    def _next_ns(self) -> int:
        if self._closing:
            return self._rested_ns
        next_ns = self._late[0][0] if self._late else FOREVER
        for deployment in self._active:
            next_ns = min(next_ns, deployment.next_ns)
        for lane in self._shared.values():
            next_ns = min(next_ns, lane.due_ns)
        return min(next_ns, self._wheel.next_ns())

    # -- what the deployments report -----------------------------------------------------------

    def _collect(self, deployment: EngineDeployment | FlatDeployment) -> None:
        started, ended = deployment.drain()
        private = isinstance(deployment, FlatDeployment)
        for seq in started:
            stream: Stream | None = seq.owner
            if stream is not None and stream.open and stream.encoder is not None:
                self._join(stream, private=private)
        now_ns = self._clock.now_ns()
        for seq in ended:
            # A stream that has tokens ends with the flush of its last one.
            owner: Stream | None = seq.owner
            if owner is None or seq.state is not State.FINISHED:
                continue
            if owner.encoder is None or not seq.output_tokens:
                if seq.end_ns <= now_ns:
                    self._complete(seq)
                else:
                    heappush(self._late, (seq.end_ns, id(seq), seq))
                    self._wake(seq.end_ns)
        # What an aborted sequence held is only free at the next boundary.
        if not deployment.unfinished and deployment.next_ns == FOREVER:
            self._active.pop(deployment, None)

    def _join(self, stream: Stream, *, private: bool) -> None:
        clock = stream.seq.clock
        assert clock is not None, "a started sequence has a clock"
        if private:
            stream.lane = lane = Lane(clock)
            lane.streams.append(stream)
            self._wheel.add(lane, stream.seq.first_ns, clock.due(stream.seq.end_step))
            self._wake(lane.due_ns)
            return
        lane = self._shared.get(clock) or self._shared.setdefault(clock, Lane(clock))
        lane.streams.append(stream)
        lane.changed = True
        lane.due_ns = 0
        self._wake(stream.seq.first_ns)

    def _complete(self, seq: Sequence) -> None:
        stream: Stream | None = seq.owner
        if stream is not None and stream.open:
            stream.complete(self._clock.now_ns())
