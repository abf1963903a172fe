"""A pacer on a clock that tests move by hand, and a reader that notes what comes when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from paceline.core.deployment import EngineDeployment, FlatDeployment, deploy
from paceline.core.encode import ChoiceEncoder, EndsLate
from paceline.core.plan import ChoicePlan, Plan, PromptPlan
from paceline.core.profile import Engine, Profile
from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.core.sequence import Sequence as Seq
from paceline.core.simulate import Abort, Arrival
from paceline.core.usage import Usage
from paceline.runtime.clock import ManualClock
from paceline.runtime.metrics import ProfileMetrics
from paceline.runtime.pacer import Pacer
from paceline.runtime.records import RecordStore, RequestRecord
from paceline.runtime.sink import Timing
from paceline.runtime.stream import Answer
from tests.wire.fakes import FakePieces

MS = 1_000_000
START_NS = 1_000 * MS


@dataclass
class Reader:
    """A sink; `left[choice][token]` is when a token left, `ended` when the whole answer had."""

    clock: ManualClock
    blocked: bool = False
    drained: Callable[[], None] | None = None
    begun: int | None = None
    ended: int | None = None
    body: bytes = b""
    timing: Timing | None = None
    usage: Usage | None = None
    refused: tuple[int, str] | None = None
    finished: list[int] = field(default_factory=list)
    """Choices in the order of their ends."""
    left: dict[int, list[int]] = field(default_factory=dict)
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    """(choice, first token, one after the last) of each run that was encoded."""

    def begin(self, timing: Timing | None) -> None:
        assert self.begun is None
        assert not self.blocked
        self.begun = self.clock.now_ns()
        self.timing = timing

    def write(self, data: bytes) -> None:
        assert self.begun is not None
        assert self.ended is None
        assert not self.blocked
        self.body += data

    def end(self, data: bytes) -> None:
        assert self.begun is not None
        assert self.ended is None
        self.body += data
        self.ended = self.clock.now_ns()

    def whole(self, usage: Usage, timing: Timing) -> None:
        assert self.begun is None
        assert self.ended is None
        self.usage = usage
        self.timing = timing
        self.ended = self.clock.now_ns()

    def refuse(self, status: int, message: str, code: str) -> None:
        assert self.begun is None
        assert self.ended is None
        self.refused = status, code
        self.ended = self.clock.now_ns()


class _ChoiceEncoder:
    def __init__(self, reader: Reader, index: int, hidden: int) -> None:
        self._reader = reader
        self._index = index
        self._hidden = hidden
        self.seq: Seq | None = None
        reader.left[index] = []

    def tokens(self, start: int, stop: int) -> bytes:
        left = self._reader.left[self._index]
        assert start == len(left), "each token once, in order"
        assert stop > start
        # Asked now, because a preemption makes a sequence forget its past.
        assert self.seq is not None
        assert self._reader.clock.now_ns() >= self.seq.due(stop - 1), "no token early"
        left += [self._reader.clock.now_ns()] * (stop - start)
        self._reader.runs.append((self._index, start, stop))
        return b"%d:%d-%d " % (self._index, start, stop) if stop > self._hidden else b""

    def close(self) -> bytes:
        self._reader.finished.append(self._index)
        return b"%d:end " % self._index


class _Encoder:
    content_type = "text/plain"

    def __init__(self, reader: Reader, choices: int, hidden: int) -> None:
        self.tracked = [_ChoiceEncoder(reader, i, hidden) for i in range(choices)]
        self.choices: list[ChoiceEncoder] = [*self.tracked]
        self._reader = reader

    def start(self) -> bytes:
        return b""

    def end(self, usage: Usage) -> bytes:
        self._reader.usage = usage
        return b"done"

    def fail(self, status: int, message: str, code: str) -> bytes:
        return b"failed: " + code.encode()


class _LateEncoder(_Encoder, EndsLate):
    """One whose end may wait."""


def profile(**engine: float) -> Profile:
    """An engine with steps of 10 ms unless told otherwise."""
    return Profile(name="p", title="t", engine=Engine(**{"step_ms": 10.0, **engine}))  # type: ignore[arg-type]


def flat(rate: float, ttft_ms: float = 0.0) -> Profile:
    """A clock for each request, without an engine."""
    made = Profile(name="f", title="t", engine=Engine(step_ms=1000.0 / rate), kind="flat")
    return replace(made, flat_ttft_ms=ttft_ms)


class Rig:
    """A pacer with one deployment; `events` are what the deployment saw, for a replay."""

    def __init__(self, profile: Profile, *, late_ns: int = 0) -> None:
        self.clock = ManualClock(START_NS, late_ns)
        self.pacer = Pacer(self.clock)
        self.deployment: EngineDeployment | FlatDeployment = deploy(profile, keep_history=True)
        self.metrics = ProfileMetrics(4096)
        self.records = RecordStore()
        self.events: list[Arrival | Abort] = []
        self.answers: list[Answer] = []
        self._profile = profile

    def ask(
        self,
        *tokens: int,
        prompt: int = 1,
        stream: bool = True,
        reasoning: int = 0,
        key: int = 0,
        blocks: tuple[int, ...] = (),
        late_end: bool = False,
    ) -> tuple[Answer, Reader]:
        """Submit a request of one choice for each number of tokens; returns who reads the answer.

        The first `reasoning` tokens of each are hidden.
        """
        reader = Reader(self.clock)
        number = len(self.answers)
        choices = [
            ChoicePlan(
                i,
                0,
                FakePieces(["x"] * (count - reasoning)),
                "length",
                reasoning_tokens=reasoning,
                seed=key + number * 64 + i,
            )
            for i, count in enumerate(tokens)
        ]
        request = GenerationRequest(
            "p", (ChatPrompt((Message("user", "hi"),)),), n=len(tokens), stream=stream
        )
        plan = Plan(request, self._profile, [PromptPlan(prompt, blocks)], choices)
        record = RequestRecord(id=str(number), received_ns=self.clock.now_ns(), created_s=0.0)
        make = _LateEncoder if late_end else _Encoder
        encoder = make(reader, len(tokens), reasoning) if stream else None
        answer = Answer(
            plan,
            encoder,
            reader,
            metrics=self.metrics,
            records=self.records,
            record=self.records.open(record),
        )
        if encoder is not None:
            for tracked, seq in zip(encoder.tracked, answer.seqs, strict=True):
                tracked.seq = seq
        self.answers.append(answer)
        self.events.append(Arrival(self.clock.now_ns(), tuple(answer.seqs)))
        reader.drained = lambda: self.pacer.resume(answer)
        self.pacer.submit(answer, self.deployment)
        return answer, reader

    def abort(self, answer: Answer) -> None:
        """Have the reader leave."""
        if answer in self.pacer.answers:
            self.events += [Abort(self.clock.now_ns(), seq) for seq in answer.seqs]
        self.pacer.abort(answer)

    def run(self, ms: float) -> None:
        """Let time go by."""
        self.clock.advance(round(ms * MS))

    def run_out(self) -> None:
        """Let time go by until everything is over."""
        for _ in range(10_000):
            if not self.pacer.answers:
                break
            self.run(1_000)
        assert not self.pacer.answers
        # What an abort frees is free a step later.
        self.run(100_000)

    def idle(self) -> bool:
        """Whether nothing runs or waits."""
        loads = [r.running + r.waiting for r in self.deployment.replicas]
        return not self.pacer.answers and not self.deployment.unfinished and not any(loads)


def ms(times_ns: Sequence[int]) -> list[float]:
    """Times in milliseconds since the start."""
    return [(at - START_NS) / MS for at in times_ns]


def twin(seq: Seq) -> Seq:
    """A fresh sequence of the same request, for a replay."""
    return Seq(
        seq.prompt_tokens, seq.output_tokens, key=seq.key, blocks=seq.blocks, follows=seq.follows
    )
