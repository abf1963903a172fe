"""The items of a response's output: each knows its events and its final object.

Calls are next door.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.core.logprobs import TokenLogprob
from paceline.core.plan import ChoicePlan, Pieces
from paceline.wire.cutter import Cutter, whole
from paceline.wire.head import LogprobsFn
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.responses.events import DetailedDeltas
from paceline.wire.responses.items import seal
from paceline.wire.responses.writer import (
    OutputItem,
    Status,
    Writer,
)


class ReasoningItem(OutputItem):
    """Thinking: hidden, but for a summary where one was asked for.

    The summary's tokens are spread over those of the thinking, so that it grows while the model
    thinks and is over when it answers; they are no tokens of the output.
    """

    def __init__(
        self,
        writer: Writer,
        index: int,
        item_id: str,
        tokens: int,
        summary: Pieces | None,
        *,
        sealed: bool,
    ) -> None:
        super().__init__(writer, index, item_id)
        self._tokens = tokens
        self._summary = summary
        self._sealed = b""
        if sealed:
            self._sealed = b',"encrypted_content":"%b"' % seal("reasoning", tokens).encode()
        self._text = b""
        if summary is not None:
            self._text = whole(summary)
            self._part = b'%b,"summary_index":0' % self.place
            self._deltas = writer.deltas(
                b"response.reasoning_summary_text.delta", self._part, summary
            )

    def open(self) -> bytes:
        """Added, and its summary's part with it."""
        events = super().open()
        if self._summary is not None:
            events += self.writer.event(
                b"response.reasoning_summary_part.added",
                self._part + b',"part":{"type":"summary_text","text":""}',
            )
        return events

    def cut(self, start: int, stop: int) -> bytes:
        """The part of the summary that these tokens bring."""
        if self._summary is None:
            return b""
        length, tokens = len(self._summary), self._tokens
        return self._deltas.cut(start * length // tokens, stop * length // tokens)

    def close(self) -> bytes:
        """The summary's end and the item's."""
        events = b""
        if self._summary is not None:
            write = self.writer.event
            events = write(
                b"response.reasoning_summary_text.done",
                b'%b,"text":"%b"' % (self._part, self._text),
            ) + write(
                b"response.reasoning_summary_part.done",
                b'%b,"part":{"type":"summary_text","text":"%b"}' % (self._part, self._text),
            )
        return events + super().close()

    def begun(self) -> bytes:
        """The item without a summary yet."""
        return b'{"id":"%b","type":"reasoning","summary":[]%b}' % (self.id.encode(), self._sealed)

    def final(self) -> bytes:
        """The item with its summary."""
        summary = b""
        if self._summary is not None:
            summary = b'{"type":"summary_text","text":"%b"}' % self._text
        return b'{"id":"%b","type":"reasoning","summary":[%b]%b}' % (
            self.id.encode(),
            summary,
            self._sealed,
        )


class MessageItem(OutputItem):
    """The visible text."""

    def __init__(
        self,
        writer: Writer,
        index: int,
        item_id: str,
        choice: ChoicePlan,
        *,
        status: Status,
        logprobs: LogprobsFn | None,
    ) -> None:
        super().__init__(writer, index, item_id)
        self._choice = choice
        self._status = status
        self._logprobs = logprobs
        self._whole: bytes | None = None
        self._part = self.place + b',"content_index":0'
        kind, pieces = b"response.output_text.delta", choice.pieces
        self._deltas: Cutter
        if logprobs is None:
            self._deltas = writer.deltas(kind, self._part, pieces, b',"logprobs":[]')
        else:
            self._deltas = DetailedDeltas(
                pieces,
                b'%b%b,"sequence_number":' % (writer.framing.begin(kind), self._part),
                writer.obfuscation + writer.framing.end,
                writer.per_event,
                numbers=writer.numbers,
                logprobs=_event_logprobs(logprobs, choice),
            )
        # On the way of every token: one call less.
        self.cut = self._deltas.cut  # type: ignore[method-assign]

    def open(self) -> bytes:
        """The message and its one part of content."""
        return super().open() + self.writer.event(
            b"response.content_part.added",
            self._part + b',"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}',
        )

    def close(self) -> bytes:
        """The text's end, its part's and the message's."""
        text = self._text()
        entries = b"[]"
        if self._logprobs is not None:
            entries = _event_logprobs(self._logprobs, self._choice)(0, len(self._choice.pieces))
        write = self.writer.event
        return b"".join(
            (
                self._deltas.rest(),
                write(
                    b"response.output_text.done",
                    b'%b,"text":"%b","logprobs":%b' % (self._part, text, entries),
                ),
                write(
                    b"response.content_part.done",
                    b'%b,"part":%b' % (self._part, self._content(text)),
                ),
                super().close(),
            )
        )

    def begun(self) -> bytes:
        """The message without content yet."""
        return (
            b'{"id":"%b","type":"message","status":"in_progress","role":"assistant","content":[]}'
            % self.id.encode()
        )

    def final(self) -> bytes:
        """The message as it ends."""
        return b'{"id":"%b","type":"message","status":"%b","role":"assistant","content":[%b]}' % (
            self.id.encode(),
            self._status,
            self._content(self._text()),
        )

    def _text(self) -> bytes:
        if self._whole is None:
            self._whole = whole(self._choice.pieces)
        return self._whole

    def _content(self, text: bytes) -> bytes:
        entries = b"[]"
        if self._logprobs is not None:
            found = self._logprobs(self._choice, 0, len(self._choice.pieces))
            entries = json_bytes(
                [{**_entry(e), "top_logprobs": [_entry(other) for other in e.top]} for e in found]
            )
        return b'{"type":"output_text","annotations":[],"logprobs":%b,"text":"%b"}' % (
            entries,
            text,
        )


class CompactionItem(OutputItem):
    """All that went before, sealed."""

    def __init__(self, writer: Writer, index: int, item_id: str, tokens: int) -> None:
        super().__init__(writer, index, item_id)
        self._object = b'{"id":"%b","type":"compaction","encrypted_content":"%b"}' % (
            item_id.encode(),
            seal("compaction", tokens).encode(),
        )

    def open(self) -> bytes:
        """Added, and that it is being made."""
        return super().open() + self.writer.event(b"response.compaction.compacting", self.place)

    def cut(self, start: int, stop: int) -> bytes:
        """Nothing: what it says is sealed."""
        return b""

    def begun(self) -> bytes:
        """The item."""
        return self._object

    def final(self) -> bytes:
        """The item."""
        return self._object


def _event_logprobs(fn: LogprobsFn, choice: ChoicePlan) -> Callable[[int, int], bytes]:
    def entries(start: int, stop: int) -> bytes:
        return json_bytes(
            [
                {
                    "token": e.token,
                    "logprob": e.logprob,
                    "top_logprobs": [{"token": o.token, "logprob": o.logprob} for o in e.top],
                }
                for e in fn(choice, start, stop)
            ]
        )

    return entries


def _entry(entry: TokenLogprob) -> dict[str, Any]:
    return {"token": entry.token, "logprob": entry.logprob, "bytes": list(entry.data)}
