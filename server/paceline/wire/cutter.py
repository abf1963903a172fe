"""Tokens -> events: the hot path of every stream.

A dialect cuts its event once into the bytes before a token's text and those after it (`Frame`).
The plain cutter then writes a run of tokens as one join, with nothing done a token: no JSON
encoder, no formatting. The detailed one works event by event, for what differs in each: log
probabilities and running usage.

Events hold `per_event` tokens: groups count from the channel's first token, and a group leaves
when its last token is due; the last group of all is as long as what is left. A group whose tokens
release no text makes no event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from paceline.core.plan import Pieces
from paceline.wire.usage import RunningUsage


@dataclass(frozen=True, slots=True)
class Frame:
    """An event around its text.

    before TEXT middle LOGPROBS after USAGE end; a plain event has null log probabilities and
    the usage that all its kind have (none, or null).
    """

    before: bytes
    middle: bytes
    after: bytes
    usage: bytes
    end: bytes = b"}\n\n"

    def event(self, text: bytes, logprobs: bytes = b"null", usage: bytes | None = None) -> bytes:
        """One whole event."""
        return b"".join(
            (
                self.before,
                text,
                self.middle,
                logprobs,
                self.after,
                self.usage if usage is None else usage,
                self.end,
            )
        )


def whole(pieces: Pieces) -> bytes:
    """All of a channel's text, as JSON has it between the quotes."""
    return b"".join(pieces.escaped(0, len(pieces)))


class Cutter(Protocol):
    """One channel of a choice: its visible text, or its shown reasoning."""

    def cut(self, start: int, stop: int) -> bytes:
        """The events whose last token is one of start..stop."""
        ...

    def rest(self) -> bytes:
        """What is left to say after the last token."""
        ...


class GroupCutter:
    """What cutting a channel whose tokens need no event of their own starts from."""

    __slots__ = ("_after", "_before", "_between", "_dense", "_escaped", "_length", "_per_event")

    def __init__(self, pieces: Pieces, before: bytes, after: bytes, per_event: int) -> None:
        self._escaped = pieces.escaped
        self._length = len(pieces)
        self._dense = pieces.dense
        self._per_event = per_event
        self._before = before
        self._after = after
        self._between = after + before

    def _groups(self, start: int, stop: int) -> list[bytes]:
        """The texts of the groups whose last token is one of start..stop."""
        size = self._per_event
        start -= start % size
        if stop < self._length:
            stop -= stop % size
        texts = self._escaped(start, stop) if start < stop else []
        return [b"".join(texts[i : i + size]) for i in range(0, len(texts), size)]

    def rest(self) -> bytes:
        """Nothing: the last token took everything with it."""
        return b""


class TextCutter(GroupCutter):
    """Cuts runs of tokens with one join each; an event is `before`, its text, and `after`."""

    __slots__ = ()

    def cut(self, start: int, stop: int) -> bytes:
        """The events whose last token is one of start..stop."""
        if start >= stop:
            return b""
        if self._per_event == 1:
            texts = self._escaped(start, stop)
        else:
            texts = self._groups(start, stop)
        if not self._dense:
            texts = [text for text in texts if text]
        if not texts:
            return b""
        return self._before + self._between.join(texts) + self._after


class PlainCutter(TextCutter):
    """A TextCutter of a frame whose events have no log probabilities."""

    __slots__ = ()

    def __init__(self, pieces: Pieces, frame: Frame, per_event: int) -> None:
        after = frame.middle + b"null" + frame.after + frame.usage + frame.end
        super().__init__(pieces, frame.before, after, per_event)


LogprobsJson = Callable[[int, int, list[bytes]], bytes]
"""Tokens start..stop and their escaped texts -> their log probabilities as JSON."""


class EventCutter:
    """Cuts event by event, for what differs in each; a dialect says how one is written.

    What silent tokens have to tell travels with the next text, that of the last ones (a stop
    string's, say) in an event without text, so that no token's is lost.
    """

    def __init__(self, pieces: Pieces, per_event: int) -> None:
        self._pieces = pieces
        self._per_event = per_event
        self._next = 0

    def cut(self, start: int, stop: int) -> bytes:
        """The events whose last token is one of start..stop; runs come in order."""
        size, length = self._per_event, len(self._pieces)
        if stop < length:
            stop -= stop % size
        first = begin = self._next
        if start >= stop or stop <= first:
            return b""
        texts = self._pieces.escaped(first, stop)
        events = []
        end = first
        while end < stop:
            end = min(end + size, stop)
            run = texts[begin - first : end - first]
            text = b"".join(run)
            if text:
                events.append(self._event(begin, end, text, run))
                begin = end
        self._next = begin
        return b"".join(events)

    def rest(self) -> bytes:
        """The event of trailing tokens without text, where there are any."""
        begin, end = self._next, len(self._pieces)
        if begin >= end:
            return b""
        self._next = end
        return self._event(begin, end, b"", [b""] * (end - begin))

    def _event(self, begin: int, end: int, text: bytes, run: list[bytes]) -> bytes:
        """The event of tokens begin..end, whose texts are `run` and together `text`."""
        raise NotImplementedError


class DetailedCutter(EventCutter):
    """Events with log probabilities, running usage, or both.

    `tokens_before` are the choice's tokens in front of this channel, for the running usage.
    """

    def __init__(
        self,
        pieces: Pieces,
        frame: Frame,
        per_event: int,
        *,
        logprobs: LogprobsJson | None,
        running: RunningUsage | None,
        slot: int,
        tokens_before: int,
    ) -> None:
        super().__init__(pieces, per_event)
        self._frame = frame
        self._logprobs = logprobs
        self._running = running
        self._slot = slot
        self._tokens_before = tokens_before

    def rest(self) -> bytes:
        """The log probabilities of trailing tokens without text."""
        return b"" if self._logprobs is None else super().rest()

    def _event(self, begin: int, end: int, text: bytes, run: list[bytes]) -> bytes:
        logprobs = b"null" if self._logprobs is None else self._logprobs(begin, end, run)
        usage = None
        if self._running is not None:
            usage = self._running.advance(self._slot, self._tokens_before + end)
        return self._frame.event(text, logprobs, usage)
