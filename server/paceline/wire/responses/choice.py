"""An answer's tokens as output items: each opened, cut and closed with its own tokens."""

from __future__ import annotations

from paceline.core.plan import ChoicePlan, Pieces
from paceline.wire.head import Head, LogprobsFn
from paceline.wire.parts import spans
from paceline.wire.responses.calls import BuiltinItem, CallItem
from paceline.wire.responses.output import CompactionItem, MessageItem, ReasoningItem
from paceline.wire.responses.request import ResponseContext
from paceline.wire.responses.writer import COMPLETED, INCOMPLETE, OutputItem, Writer

ID_PREFIX = "resp_"

_SUMMARY_TOKENS = {"concise": 64, "auto": 192, "detailed": 512}
"""Longest summary of the thinking, by what was asked for; how long OpenAI's are isn't published."""


class ResponseChoice:
    """The ChoiceEncoder: output items in order, each opened and closed with its tokens."""

    def __init__(
        self,
        choice: ChoicePlan,
        head: Head,
        context: ResponseContext,
        writer: Writer,
        logprobs: LogprobsFn | None,
    ) -> None:
        self._choice = choice
        self.opening: bytes | None = None
        """Events that leave with the first token."""
        self.items: list[OutputItem] = []
        self._reasoning: OutputItem | None = None
        self._text: OutputItem | None = None
        self._calls: list[OutputItem] = []
        self._text_from = self._text_until = 0
        hex_id = head.id.removeprefix(ID_PREFIX)
        last = INCOMPLETE if choice.finish_reason in ("length", "content_filter") else COMPLETED
        if context.compaction:
            self._text = CompactionItem(writer, 0, f"cmp_{hex_id}", len(choice.pieces))
            self.items.append(self._text)
            return
        if choice.reasoning_tokens:
            self._reasoning = ReasoningItem(
                writer,
                0,
                f"rs_{hex_id}",
                choice.reasoning_tokens,
                _summary(choice, context.summary),
                sealed=context.sealed,
            )
            self.items.append(self._reasoning)
        if self._has_message(context):
            status = COMPLETED if choice.calls else last
            self._text = MessageItem(
                writer,
                len(self.items),
                f"msg_{hex_id}",
                choice,
                status=status,
                logprobs=logprobs,
            )
            self.items.append(self._text)
            self._text_from = choice.reasoning_tokens
            self._text_until = choice.reasoning_tokens + len(choice.pieces)
        for i, call in enumerate(choice.calls):
            status = last if i == len(choice.calls) - 1 else COMPLETED
            item: OutputItem
            at = len(self.items)
            if call.tool.kind == "builtin":
                item = BuiltinItem(writer, at, f"call_{hex_id}{i:02x}", call, status)
            else:
                prefix = "ctc" if call.tool.kind == "custom" else "fc"
                item = CallItem(writer, at, f"{prefix}_{hex_id}{i:02x}", call, status)
            self._calls.append(item)
            self.items.append(item)

    def _has_message(self, context: ResponseContext) -> bool:
        """An answer that says nothing is an empty message, unless it never came that far."""
        choice = self._choice
        if len(choice.pieces):
            return True
        cut = choice.reasoning_tokens and choice.finish_reason == "length"
        return context.generate and not choice.calls and not cut

    def tokens(self, start: int, stop: int) -> bytes:
        """The events of tokens start..stop of the whole output."""
        # On the way of every token of every stream: inside the text, nothing but its deltas.
        at = self._text_from
        if at < start and stop < self._text_until:
            # mypy doesn't know that a choice without text has no token inside it.
            return self._text.cut(start - at, stop - at)  # type: ignore[union-attr]
        events = self._opened()
        choice = self._choice
        for kind, call, i, j in spans(choice, start, stop):
            if kind == "head":
                if call < len(self._calls) and j == choice.calls[call].head_tokens:
                    item = self._calls[call]
                    events += item.open()
                    if not len(choice.calls[call].arguments) and item is not self.items[-1]:
                        events += item.close()
                continue
            if kind == "reasoning":
                found, length = self._reasoning, choice.reasoning_tokens
            elif kind == "text":
                found, length = self._text, len(choice.pieces)
            elif call < len(self._calls):
                found, length = self._calls[call], len(choice.calls[call].arguments)
            else:
                found, length = None, 0
            if found is None:
                # A compaction is nothing but one item, whatever was planned for it.
                continue
            if not found.opened:
                events += found.open()
            events += found.cut(i, j)
            if j == length and found is not self.items[-1]:
                # The last one's end is told apart, since it repeats all that was said.
                events += found.close()
        return events

    def close(self) -> bytes:
        """The events of an item that had no token to open it with."""
        events = self._opened()
        for item in self.items:
            if not item.opened:
                events += item.open()
            if not item.closed:
                events += item.close()
        return events

    def _opened(self) -> bytes:
        events, self.opening = self.opening, None
        return events or b""

    def json(self) -> bytes:
        """The final items, joined by commas."""
        return b",".join([item.final() for item in self.items])


def _summary(choice: ChoicePlan, wanted: str | None) -> Pieces | None:
    """The thinking's first tokens stand for what it comes to."""
    if wanted is None or choice.reasoning is None:
        return None
    tokens = min(_SUMMARY_TOKENS[wanted], len(choice.reasoning))
    return _First(choice.reasoning, tokens) if tokens else None


class _First:
    """The first tokens of some pieces."""

    def __init__(self, pieces: Pieces, length: int) -> None:
        self._pieces = pieces
        self._length = length

    def __len__(self) -> int:
        return self._length

    @property
    def dense(self) -> bool:
        return self._pieces.dense

    def escaped(self, start: int, stop: int) -> list[bytes]:
        return self._pieces.escaped(start, stop)

    def text(self) -> str:
        return "".join(self._pieces.tokens(0, self._length))

    def ids(self, start: int, stop: int) -> list[int]:
        return self._pieces.ids(start, stop)

    def tokens(self, start: int, stop: int) -> list[str]:
        return self._pieces.tokens(start, stop)
