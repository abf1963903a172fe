"""Responses, the answer: a Plan -> events, or one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from paceline.core.encode import ChoiceEncoder, EndsLate
from paceline.core.plan import ChoicePlan, Pieces, Plan
from paceline.core.usage import Usage
from paceline.wire import sse
from paceline.wire.head import Head, LogprobsFn
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.parts import spans
from paceline.wire.responses.events import SSE, Framing, frames
from paceline.wire.responses.output import (
    COMPLETED,
    INCOMPLETE,
    BuiltinItem,
    CallItem,
    CompactionItem,
    MessageItem,
    OutputItem,
    ReasoningItem,
    Writer,
    obfuscation,
)
from paceline.wire.responses.request import ResponseContext

ID_PREFIX = "resp_"

_SUMMARY_TOKENS = {"concise": 64, "auto": 192, "detailed": 512}
"""Longest summary of the thinking, by what was asked for; how long OpenAI's are isn't published."""

_ERROR_CODES = frozenset(
    {
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        # These aren't among the documented ones, but agents know them.
        "slow_down",
        "server_is_overloaded",
        "context_length_exceeded",
        "insufficient_quota",
        "usage_not_included",
    }
)


def usage_json(usage: Usage) -> bytes:
    """Token counts as this API has them: all whole numbers, none null."""
    return (
        b'{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},'
        b'"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}'
        % (
            usage.prompt_tokens,
            usage.cached_tokens,
            usage.cache_write_tokens,
            usage.completion_tokens,
            usage.reasoning_tokens,
            usage.total_tokens,
        )
    )


class ResponseObject:
    """The response at any moment; what the request decides of it is written once."""

    def __init__(self, head: Head, context: ResponseContext) -> None:
        self._head = b'{"id":%b,"object":"response","created_at":%d,"status":"' % (
            json_bytes(head.id),
            head.created,
        )
        shown = {"model": head.model, "service_tier": head.service_tier, **context.shown}
        self._shown = json_bytes(shown)[1:-1]

    def json(
        self,
        status: str,
        *,
        output: bytes = b"",
        usage: bytes = b"null",
        error: bytes = b"null",
        incomplete: bytes = b"null",
        completed_at: int | None = None,
    ) -> bytes:
        """The object; `output` are its items, joined by commas."""
        return (
            b'%b%b","completed_at":%b,"error":%b,"incomplete_details":%b,%b,"output":[%b],'
            b'"usage":%b}'
            % (
                self._head,
                status.encode(),
                b"null" if completed_at is None else b"%d" % completed_at,
                error,
                incomplete,
                self._shown,
                output,
                usage,
            )
        )


class _Output:
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


class ResponseStream(EndsLate):
    """The StreamEncoder of a response, which is always a single choice.

    `framing` is SSE unless another is given.
    """

    content_type = sse.CONTENT_TYPE

    def __init__(
        self,
        plan: Plan,
        head: Head,
        *,
        tokens_per_chunk: int = 1,
        show_reasoning: bool = False,
        logprobs: LogprobsFn | None = None,
        framing: Framing = SSE,
    ) -> None:
        del show_reasoning  # here the request says by itself whether there is a summary
        context = plan.request.context
        assert isinstance(context, ResponseContext), "this dialect's parser made the request"
        self._plan = plan
        self._context = context
        self._head = head
        self._object = ResponseObject(head, context)
        # The same for every delta: its cost is that of its bytes. It hides nothing, but clients
        # see the field where they expect it.
        padding = obfuscation(head.id[-16:]) if context.obfuscate else b""
        self._writer = Writer(framing, tokens_per_chunk, padding)
        wanted = logprobs if context.logprobs else None
        self._output = _Output(plan.choices[0], head, context, self._writer, wanted)
        self.choices: list[ChoiceEncoder] = [self._output]

    def start(self) -> bytes:
        """What leaves at once: the response is there, and under way.

        One in the background is queued; it is under way from its first token on.
        """
        if not self._context.generate:
            return self._event("created", self._object.json("in_progress"))
        if self._context.background:
            queued = self._object.json("queued")
            events = self._event("created", queued) + self._event("queued", queued)
            self._output.opening = self._event("in_progress", self._object.json("in_progress"))
            return events
        under_way = self._object.json("in_progress")
        return self._event("created", under_way) + self._event("in_progress", under_way)

    def end(self, usage: Usage) -> bytes:
        """The terminal event: completed, or incomplete where a limit cut the output."""
        status, final = self._final(usage)
        events = self._event(status, final)
        self._tell(status, final, usage)
        return events

    def fail(self, status: int, message: str, code: str) -> bytes:
        """`response.failed`, with a code that clients of this API know."""
        del status
        error = {"code": code if code in _ERROR_CODES else "server_error", "message": message}
        final = self._object.json("failed", error=json_bytes(error))
        events = self._event("failed", final)
        self._tell("failed", final, None)
        return events

    def cancelled(self) -> bytes:
        """The end of a response that its owner broke off: incomplete, of status `cancelled`."""
        final = self._object.json("cancelled")
        events = self._event("incomplete", final)
        self._tell("cancelled", final, None)
        return events

    def output(self) -> bytes:
        """The final output items, joined by commas."""
        return self._output.json()

    def at(self, status: str) -> bytes:
        """The response object before its end."""
        return self._object.json(status)

    def last(self, status: str, final: bytes) -> bytes:
        """The terminal event with a response object that was made before."""
        return self._event("incomplete" if status == "cancelled" else status, final)

    def whole(self, usage: Usage) -> bytes:
        """The response object that the events add up to."""
        status, final = self._final(usage)
        self._tell(status, final, usage)
        return final

    def _final(self, usage: Usage) -> tuple[str, bytes]:
        context = self._context
        reason = self._plan.choices[0].finish_reason
        if not context.generate:
            reason = "stop"
        now = self._head.created if context.now is None else context.now()
        output, counts = self._output.json(), usage_json(usage)
        if reason not in ("length", "content_filter"):
            final = self._object.json(
                "completed", output=output, usage=counts, completed_at=max(now, self._head.created)
            )
            return "completed", final
        why = b"max_output_tokens" if reason == "length" else b"content_filter"
        final = self._object.json(
            "incomplete", output=output, usage=counts, incomplete=b'{"reason":"%b"}' % why
        )
        return "incomplete", final

    def _event(self, name: str, response: bytes) -> bytes:
        return self._writer.event(b"response." + name.encode(), b',"response":' + response)

    def _tell(self, status: str, final: bytes, usage: Usage | None) -> None:
        ended = self._context.ended
        if ended is not None:
            output: list[Mapping[str, Any]] = []
            if usage is not None:
                output = [orjson.loads(item.final()) for item in self._output.items]
            ended(status, final, output, usage)


class ResponseFrames(ResponseStream):
    """The same events as WebSocket frames, each on a line."""

    content_type = "application/json"

    def __init__(self, plan: Plan, head: Head, **options: Any) -> None:
        context = plan.request.context
        assert isinstance(context, ResponseContext), "this dialect's parser made the request"
        super().__init__(plan, head, framing=frames(context.stream_id), **options)


def whole_response(
    plan: Plan,
    head: Head,
    usage: Usage,
    *,
    show_reasoning: bool = False,
    logprobs: LogprobsFn | None = None,
) -> bytes:
    """The response object that a stream of the same plan adds up to."""
    stream = ResponseStream(plan, head, show_reasoning=show_reasoning, logprobs=logprobs)
    return stream.whole(usage)


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
