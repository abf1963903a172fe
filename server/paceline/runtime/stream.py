"""An answer under way: its sequences, what was sent of each, and whoever listens.

A `Stream` is one choice. A flush is the token path: one call of the encoder, one write, and a
few additions for the metrics and the request's record, however many tokens it carries.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from paceline.core.deployment import EngineDeployment, FlatDeployment
from paceline.core.encode import ChoiceEncoder, OpensWithUsage, StreamEncoder
from paceline.core.ledger import NO_USAGE, EntryState, Times
from paceline.core.plan import Plan
from paceline.core.prefix_cache import PrefixCache
from paceline.core.sequence import Sequence
from paceline.core.usage import Usage
from paceline.runtime import tally
from paceline.runtime.admission import Admitted
from paceline.runtime.clock import Clock
from paceline.runtime.lane import Lane
from paceline.runtime.metrics import AbortCause, ProfileMetrics
from paceline.runtime.records import RecordState, RecordStore, RequestRecord, Track
from paceline.runtime.sink import Sink, Timing

log = logging.getLogger("paceline")

MOST_TOKENS = 1024
"""In one write: what bounds a stream's unsent bytes when its reader was slow."""


class Answer:
    """One request's answer on its way. `received_ns` is when the request arrived."""

    __slots__ = (
        "_begun_ns",
        "_final",
        "_headers_sent",
        "_held",
        "_left",
        "admitted",
        "deployment",
        "encoder",
        "later",
        "metrics",
        "plan",
        "received_ns",
        "record",
        "records",
        "said",
        "seqs",
        "sink",
        "spoiled",
        "streams",
        "under_way",
        "when_said",
    )

    def __init__(
        self,
        plan: Plan,
        encoder: StreamEncoder | None,
        sink: Sink,
        *,
        metrics: ProfileMetrics,
        records: RecordStore,
        record: RequestRecord,
        admitted: Admitted | None = None,
    ) -> None:
        """Without an encoder the answer isn't streamed; `admitted` is settled as it ends."""
        self.plan = plan
        self.encoder = encoder
        self.sink = sink
        self.metrics = metrics
        self.records = records
        self.record = record
        self.admitted = admitted
        self.received_ns = record.received_ns
        self.deployment: EngineDeployment | FlatDeployment | None = None
        self.later: deque[tuple[Answer, ChoiceEncoder, int]] | None = None
        """Where its driver takes ends that may wait; None where it takes none."""
        self.under_way: dict[Answer, None] | None = None
        """Where its driver keeps it until it is over."""
        self.said = False
        """Whether the last bytes have been handed over, or never will be."""
        self.when_said: Callable[[], None] | None = None
        self.spoiled = False
        """Whether its way out makes an error of it as soon as it is whole."""
        self.seqs: list[Sequence] = []
        self.streams: list[Stream] = []
        self._left = len(plan.choices)
        self._begun_ns = 0
        self._headers_sent = False
        self._held = b""
        self._final = NO_USAGE
        prompt = -1
        for slot, choice in enumerate(plan.choices):
            measured = plan.prompts[choice.prompt_index]
            stream = Stream(self, encoder.choices[slot] if encoder is not None else None)
            stream.track = records.track(record, choice.index, choice.pieces)
            seq = Sequence(
                measured.tokens,
                choice.output_tokens,
                key=choice.seed,
                blocks=measured.blocks,
                follows=choice.prompt_index == prompt,
                owner=stream,
            )
            prompt = choice.prompt_index
            stream.seq = seq
            self.seqs.append(seq)
            self.streams.append(stream)

    @property
    def over(self) -> bool:
        """Whether all of it was sent, or nobody wants it any more."""
        return self._left <= 0

    def usage(self) -> Usage:
        """The answer's token counts; the cached ones are known once its prefill has begun."""
        return tally.whole_usage(self.plan, self.seqs, self._cache)

    def timing(self, now_ns: int) -> Timing:
        """Where the time went up to now, by the choice that came first."""
        return tally.timing(self.seqs, self.received_ns, self._begun_ns, now_ns)

    @property
    def _cache(self) -> PrefixCache | None:
        return None if self.deployment is None else self.deployment.cache

    def no_engine(self, now_ns: int) -> None:
        """Have all tokens there at `now_ns`, without any engine."""
        for seq in self.seqs:
            seq.engine_ns = seq.admitted_ns = seq.first_ns = seq.end_ns = now_ns

    def begin(self, now_ns: int) -> None:
        """The first token of any channel leaves."""
        if self._begun_ns:
            return
        self._begun_ns = now_ns
        encoder: object = self.encoder
        if isinstance(encoder, OpensWithUsage):
            encoder.open(self.usage())
        if self.admitted is not None:
            self.admitted.price(self.usage())
        timing = self.timing(now_ns)
        self._count_prompt(timing)
        if not self._headers_sent:
            self._headers_sent = True
            self.sink.begin(timing)

    def open_early(self) -> None:
        """Send what a dialect has to say before any token, if it has something to say."""
        opening = self.encoder.start() if self.encoder is not None else b""
        if opening:
            self._headers_sent = True
            self.sink.begin(None)
            self.sink.write(opening)

    def choice_done(self, data: bytes, choice: ChoiceEncoder, now_ns: int) -> None:
        """A choice's last tokens; with the last choice's goes the end of the answer.

        Where that end may wait for other streams' tokens the driver calls `finish` for it.
        """
        if self.later is None:
            self.finish(data, choice, now_ns)
            return
        if data:
            self.sink.write(data)
        self.later.append((self, choice, now_ns))

    def finish(self, data: bytes, choice: ChoiceEncoder, now_ns: int) -> None:
        """What ends a choice, behind its last tokens if those haven't left yet."""
        data += choice.close()
        self._left -= 1
        if self._left:
            self.sink.write(data)
            return
        assert self.encoder is not None, "only streams have parts"
        self._held = data
        self._final = self.usage()
        self._finish(self.timing(now_ns), now_ns, self._say_end)
        if self._held:
            # All but the end itself leaves on time.
            held, self._held = self._held, b""
            self.sink.write(held)

    def _say_end(self) -> None:
        assert self.encoder is not None, "only streams have an end of their own"
        held, self._held = self._held, b""
        try:
            end = self.encoder.end(self._final)
        except Exception:
            log.exception("the end of an answer could not be made")
            self.fail(500, "The server had an error.", "server_error")
        else:
            self.sink.end(held + end)
        self._forget()

    def whole_done(self, now_ns: int) -> None:
        """One more choice of an answer that isn't streamed is complete."""
        self._left -= 1
        if self._left:
            return
        timing = self.timing(now_ns)
        self._count_prompt(timing)
        self.metrics.generated(self.plan.completion_tokens)
        self._final = self.usage()
        if self.spoiled:
            self._break(now_ns, "error")
            self._say_whole(timing)
        else:
            self._finish(timing, now_ns, partial(self._say_whole, timing))

    def _say_whole(self, timing: Timing) -> None:
        try:
            self.sink.whole(self._final, timing)
        except Exception:
            log.exception("an answer could not be made")
            self.fail(500, "The server had an error.", "server_error")
        self._forget()

    def abort(self, now_ns: int, cause: AbortCause) -> None:
        """Nobody waits for the rest."""
        self._left = 0
        self._break(now_ns, cause)
        for stream in self.streams:
            stream.open = False
        self._forget()

    def _break(self, now_ns: int, cause: AbortCause) -> None:
        """Write down an answer that ended early."""
        self.metrics.aborted(cause)
        self._note()
        state: EntryState = "cut" if cause == "client_gone" else "failed"
        self._settle(state, self._sent_usage(now_ns), None, self._times(now_ns), None)
        kept: RecordState = "failed" if cause == "error" else "aborted"
        self.records.close(self.record, now_ns, state=kept)
        self._leave()

    def fail(self, status: int, message: str, code: str) -> None:
        """Tell the client of an answer that was broken off: by status where nothing has left."""
        if self.encoder is not None and self._headers_sent:
            self.sink.end(self.encoder.fail(status, message, code))
        else:
            self.sink.refuse(status, message, code)

    def _count_prompt(self, timing: Timing) -> None:
        cached = 0
        if self.deployment is not None:
            cached = sum(seq.cached_tokens for seq in self.seqs if not seq.follows)
        self.metrics.prefilled(self.plan.prompt_tokens, cached)
        self.metrics.first_token(timing.ttft_s)

    def _finish(self, timing: Timing, now_ns: int, then: Callable[[], None]) -> None:
        """Write down an answer that has all its tokens; `then` says its end once that is safe."""
        plan = self.plan
        longest = max(choice.output_tokens for choice in plan.choices)
        begun_ns = self._begun_ns or min(s.first_ns for s in self.seqs)
        reason = plan.choices[0].finish_reason
        self.metrics.finished(
            reason,
            prompt_tokens=plan.prompt_tokens,
            generation_tokens=plan.completion_tokens,
            e2e_s=timing.total_s,
            queue_s=timing.queue_s,
            prefill_s=timing.prefill_s,
            decode_s=timing.decode_s,
            tpot_s=(now_ns - begun_ns) / 1e9 / (longest - 1) if longest > 1 else None,
            n=plan.request.n,
            max_tokens=plan.request.max_tokens,
        )
        self._note()
        self.records.close(self.record, now_ns, finish_reason=reason)
        self._leave()
        self._settle("finished", self._final, reason, self._times(now_ns), then)

    def _settle(
        self,
        state: EntryState,
        usage: Usage,
        reason: str | None,
        times: Times,
        then: Callable[[], None] | None,
    ) -> None:
        admitted = self.admitted
        if admitted is not None:
            self.record.usage, self.record.cost = (
                usage,
                admitted.settle(state, usage, finish_reason=reason, times=times, then=then),
            )
        elif then is not None:
            then()

    def _sent_usage(self, now_ns: int) -> Usage:
        sent = [stream.sent for stream in self.streams]
        return tally.sent_usage(self.plan, self.seqs, self._cache, sent, now_ns)

    def _times(self, now_ns: int) -> Times:
        return tally.times(self.seqs, self.received_ns, self._begun_ns, now_ns)

    def _leave(self) -> None:
        """Be no longer under way: nothing can end it a second time."""
        if self.under_way is not None:
            self.under_way.pop(self, None)

    def _forget(self) -> None:
        """Part from everything that points back here, so that it is freed now.

        The collector would find it late: it looks seldom, to spare the streams its pauses.
        """
        for stream in self.streams:
            stream.seq.owner = None
            stream.lane = None
        self.streams = []
        self.sink.drained = None
        self.said = True
        if self.when_said is not None:
            self.when_said()

    def _note(self) -> None:
        """Copy what is known of the times into the record."""
        record = self.record
        seq = min(self.seqs, key=tally.first_ns)
        if seq.first_ns < 0:
            return
        record.engine_arrived_ns = seq.engine_ns
        record.admitted_ns = seq.admitted_ns
        record.first_due_ns = seq.first_ns
        record.last_due_ns = max(s.end_ns for s in self.seqs)
        record.cached_tokens = sum(s.cached_tokens for s in self.seqs if not s.follows)


class Stream:
    """One choice of an answer; `sent` counts its tokens that have left."""

    __slots__ = ("_last_ns", "answer", "encoder", "lane", "open", "sent", "seq", "track")

    seq: Sequence
    track: Track

    def __init__(self, answer: Answer, encoder: ChoiceEncoder | None) -> None:
        self.answer = answer
        self.encoder = encoder
        self.lane: Lane | None = None
        """Its own lane, where it shares its clock with nobody."""
        self.sent = 0
        self.open = True
        self._last_ns = 0

    def flush(self, step: int, clock: Clock) -> bool:
        """Send the tokens that boundary `step` has brought; true when more than fits is due."""
        seq, sent = self.seq, self.sent
        count = seq.tokens_by(step)
        if count <= sent:
            return False
        if self.answer.sink.blocked:
            return False
        behind = count - sent > MOST_TOKENS
        if behind:
            count = sent + MOST_TOKENS
        self.emit(count, seq.due(sent), clock.now_ns())
        return behind

    def emit(self, count: int, due_ns: int, now_ns: int) -> None:
        """Send the tokens up to `count`, the oldest of which was due at `due_ns`."""
        sent, answer, encoder = self.sent, self.answer, self.encoder
        assert encoder is not None, "only streams are sent in parts"
        if not sent:
            answer.begin(now_ns)
        data = encoder.tokens(sent, count)
        self.sent = count
        if not data:
            answer.metrics.generated(count - sent)
        elif self._last_ns:
            gap_ns, self._last_ns = now_ns - self._last_ns, now_ns
            answer.metrics.observe_flush(count - sent, gap_ns / 1e9, (now_ns - due_ns) / 1e9)
        else:
            self._last_ns = now_ns
            answer.metrics.observe_first_flush(count - sent, (now_ns - due_ns) / 1e9)
        self.track.add(count - sent, due_ns, now_ns)
        if count == self.seq.output_tokens:
            self.open = False
            answer.choice_done(data, encoder, now_ns)
        elif data:
            answer.sink.write(data)

    def complete(self, now_ns: int) -> None:
        """All tokens are there and none was to be streamed."""
        self.open = False
        answer = self.answer
        seq = self.seq
        if self.encoder is None:
            self.track.add(seq.output_tokens, seq.end_ns, now_ns)
            answer.whole_done(now_ns)
        else:
            answer.begin(now_ns)
            answer.finish(b"", self.encoder, now_ns)
