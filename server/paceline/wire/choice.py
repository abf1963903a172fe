"""One choice of a streamed answer: what chat and text completions have in common."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.core.plan import ChoicePlan
from paceline.wire.cutter import Cutter, DetailedCutter, Frame, LogprobsJson, PlainCutter
from paceline.wire.usage import RunningUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceParts:
    """What a dialect makes a choice's events of.

    `frame` is an event of visible text, `reasoning` one of shown reasoning (None: hidden);
    `finish` is the choice's last event as far as its usage. `slot` is the choice's place in the
    stream, for the running usage. An event holds `per_event` tokens.
    """

    slot: int
    frame: Frame
    finish: bytes
    per_event: int
    reasoning: Frame | None = None
    logprobs: LogprobsJson | None = None
    running: RunningUsage | None = None


class Choice:
    """The ChoiceEncoder of both dialects; `open` is where they differ."""

    def __init__(self, plan: ChoicePlan, parts: ChoiceParts) -> None:
        frame, reasoning, running = parts.frame, parts.reasoning, parts.running
        slot, per_event, logprobs = parts.slot, parts.per_event, parts.logprobs
        self._plan = plan
        self._slot = slot
        self._frame = frame
        self._finish = parts.finish
        self._running = running
        self._hidden = plan.reasoning_tokens
        self._opened = False
        self._thinking: Cutter | None = None
        if reasoning is not None and plan.reasoning is not None:
            if running is None:
                self._thinking = PlainCutter(plan.reasoning, reasoning, per_event)
            else:
                self._thinking = DetailedCutter(
                    plan.reasoning,
                    reasoning,
                    per_event,
                    logprobs=None,
                    running=running,
                    slot=slot,
                    tokens_before=0,
                )
        self._visible: Cutter
        if logprobs is None and running is None:
            self._visible = PlainCutter(plan.pieces, frame, per_event)
        else:
            self._visible = DetailedCutter(
                plan.pieces,
                frame,
                per_event,
                logprobs=logprobs,
                running=running,
                slot=slot,
                tokens_before=plan.reasoning_tokens,
            )

    def tokens(self, start: int, stop: int) -> bytes:
        """The events of tokens start..stop, hidden reasoning counted, opened where needed."""
        if self._opened:
            # On the way of every token of every stream: the usual case without another call.
            hidden = self._hidden
            if start >= hidden:
                return self._visible.cut(start - hidden, stop - hidden)
            return self._cut(start, stop)
        usage = self._usage()
        events = self._cut(start, stop)
        if not events:
            return b""
        self._opened = True
        return self.open(events, usage)

    def _cut(self, start: int, stop: int) -> bytes:
        hidden = self._hidden
        if start >= hidden:
            return self._visible.cut(start - hidden, stop - hidden)
        events = b""
        if self._thinking is not None:
            events = self._thinking.cut(start, min(stop, hidden))
        if stop > hidden:
            events += self._visible.cut(0, stop - hidden)
        return events

    def close(self) -> bytes:
        """The event with the finish reason, in front of it whatever is still to be said."""
        usage = self._usage()
        events = self._visible.rest()
        if not self._opened:
            self._opened = True
            events = self.open(events, usage)
        usage = self._frame.usage
        if self._running is not None:
            usage = self._running.advance(self._slot, self._plan.output_tokens)
        return events + self._finish + usage + self._frame.end

    def open(self, events: bytes, usage: bytes) -> bytes:
        """The choice's first events with its opening; `usage` is from before them."""
        raise NotImplementedError

    def _usage(self) -> bytes:
        return self._frame.usage if self._running is None else self._running.json()
