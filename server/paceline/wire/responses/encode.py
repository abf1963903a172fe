"""Responses, the answer: a Plan -> events, or one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from paceline.core.encode import ChoiceEncoder, EndsLate
from paceline.core.plan import Plan
from paceline.core.usage import Usage
from paceline.wire import sse
from paceline.wire.head import Head, LogprobsFn
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.responses.choice import ResponseChoice
from paceline.wire.responses.events import SSE, Framing, frames
from paceline.wire.responses.object import ERROR_CODES, ResponseObject, usage_json
from paceline.wire.responses.request import ResponseContext
from paceline.wire.responses.writer import Writer, obfuscation


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
        self._output = ResponseChoice(plan.choices[0], head, context, self._writer, wanted)
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
        error = {"code": code if code in ERROR_CODES else "server_error", "message": message}
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
        output, counts, cost = self._output.json(), usage_json(usage), self._head.cost(usage)
        if reason not in ("length", "content_filter"):
            final = self._object.json(
                "completed",
                output=output,
                usage=counts,
                completed_at=max(now, self._head.created),
                cost=cost,
            )
            return "completed", final
        why = b"max_output_tokens" if reason == "length" else b"content_filter"
        final = self._object.json(
            "incomplete",
            output=output,
            usage=counts,
            incomplete=b'{"reason":"%b"}' % why,
            cost=cost,
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
