"""Messages, the answer: a Plan -> events, or one object.

`message_start` and `ping` leave with the first token and not when the request arrives, as they do
at Anthropic's: so the time to a client's first event is the time to the first token, and the
counts of cached tokens that `message_start` carries are the real ones.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from paceline.core.encode import ChoiceEncoder, OpensWithUsage
from paceline.core.plan import CallPlan, ChoicePlan, Pieces, Plan
from paceline.core.usage import Usage
from paceline.wire import sse
from paceline.wire.anthropic.errors import error_event
from paceline.wire.cutter import TextCutter
from paceline.wire.errors import ApiError
from paceline.wire.head import Head, LogprobsFn
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.parts import Span, spans

ID_PREFIX = "msg_"

_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_TEXT_OF = {
    "text_delta": b"text",
    "thinking_delta": b"thinking",
    "input_json_delta": b"partial_json",
}
_REASONS = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


class MessageStream(OpensWithUsage):
    """The StreamEncoder of a message, which is always a single choice.

    `tokens_per_chunk` tokens share a delta. With `show_reasoning` the thoughts are told; without,
    a request that turned thinking on gets a thinking block with nothing but its signature.
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
    ) -> None:
        del logprobs  # no part of this dialect
        self._plan = plan
        self._head = head
        self._message = _Message(plan, head, tokens_per_chunk, told=show_reasoning)
        self.choices: list[ChoiceEncoder] = [self._message]

    def start(self) -> bytes:
        """Nothing: no byte of a body leaves before the first token."""
        return b""

    def open(self, usage: Usage) -> None:
        """Take the prompt's counts for `message_start`."""
        # As Anthropic's does, this counts the one token that is there.
        first = min(usage.completion_tokens, 1)
        start = {
            **_identity(self._head),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            "usage": _usage(usage, self._plan, output_tokens=first),
        }
        self._message.opening = (
            _event("message_start", {"type": "message_start", "message": start}) + _PING
        )

    def end(self, usage: Usage) -> bytes:
        """The stop reason with the final usage, and `message_stop`."""
        delta = {
            "type": "message_delta",
            "delta": _ending(self._plan.choices[0]),
            "usage": _tokens(usage, usage.completion_tokens),
            **_cost(self._head, usage),
        }
        return _event("message_delta", delta) + _event("message_stop", {"type": "message_stop"})

    def fail(self, status: int, message: str, code: str) -> bytes:
        """The error event; no stop reason and no `message_stop` follow it."""
        return error_event(ApiError(status, message, code=code), None)


class _Message:
    """The ChoiceEncoder: content blocks one after another, each closed with its last token."""

    def __init__(self, plan: Plan, head: Head, per_event: int, *, told: bool) -> None:
        self.opening = b""
        self._choice = plan.choices[0]
        self._per_event = per_event
        self._thinks = _thinks(plan)
        self._told = told
        self._signature = _signature(head.id)
        self._block = -1
        self._cutter: TextCutter | None = None
        # The tokens that belong to the cutter, but for the last: that one closes its block.
        self._from = self._until = 0

    def tokens(self, start: int, stop: int) -> bytes:
        """The events of tokens start..stop, in front of the first ones `message_start`."""
        if self._from <= start and stop < self._until:
            # On the way of every token: within one block there is nothing but deltas.
            assert self._cutter is not None, "a range without its cutter"
            return self._cutter.cut(start - self._from, stop - self._from)
        found = [self._open()] if self.opening else []
        at = start
        for span in spans(self._choice, start, stop):
            found.append(self._span(span, at - span.i))
            at += span.j - span.i
        return b"".join(found)

    def close(self) -> bytes:
        """Nothing is left but, where there were no tokens, the opening."""
        return self._open() if self.opening else b""

    def _open(self) -> bytes:
        opening, self.opening = self.opening, b""
        return opening

    def _span(self, span: Span, origin: int) -> bytes:
        """The events of a run within one part; `origin` is where the part's tokens begin."""
        choice = self._choice
        if span.kind == "reasoning":
            return self._thinking(span, origin) if self._thinks else b""
        if span.kind == "text":
            begin = {"type": "text", "text": "", "citations": None}
            return self._deltas(span, origin, choice.pieces, "text_delta", begin=begin)
        call = choice.calls[span.call]
        if span.kind == "head":
            # A call without arguments ends with its head.
            if span.j < call.head_tokens:
                return b""
            opened = self._begin(_tool_use(call)) + _delta(
                self._block, {"type": "input_json_delta", "partial_json": ""}
            )
            return opened if len(call.arguments) else opened + self._stop()
        return self._deltas(span, origin, call.arguments, "input_json_delta")

    def _thinking(self, span: Span, origin: int) -> bytes:
        choice = self._choice
        begin = {"type": "thinking", "thinking": "", "signature": ""}
        if self._told and choice.reasoning is not None:
            return self._deltas(
                span, origin, choice.reasoning, "thinking_delta", begin=begin, sign=True
            )
        events = b"" if span.i else self._begin(begin)
        if span.j == choice.reasoning_tokens:
            events += self._sign() + self._stop()
        return events

    def _deltas(
        self,
        span: Span,
        origin: int,
        pieces: Pieces,
        kind: str,
        *,
        begin: dict[str, Any] | None = None,
        sign: bool = False,
    ) -> bytes:
        """Deltas of a run; its block is opened and closed where the run has its ends."""
        events = b""
        if not span.i:
            if begin is not None:
                events = self._begin(begin)
            before = (
                b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
                b'"delta":{"type":"%b","%b":"' % (self._block, kind.encode(), _TEXT_OF[kind])
            )
            self._cutter = TextCutter(pieces, before, b'"}}\n\n', self._per_event)
            self._from, self._until = origin, origin + len(pieces)
        assert self._cutter is not None, "a part is entered at its beginning"
        events += self._cutter.cut(span.i, span.j)
        if span.j < len(pieces):
            return events
        self._from = self._until = 0
        return events + (self._sign() if sign else b"") + self._stop()

    def _begin(self, block: dict[str, Any]) -> bytes:
        self._block += 1
        return _event(
            "content_block_start",
            {"type": "content_block_start", "index": self._block, "content_block": block},
        )

    def _sign(self) -> bytes:
        return _delta(self._block, {"type": "signature_delta", "signature": self._signature})

    def _stop(self) -> bytes:
        stop = {"type": "content_block_stop", "index": self._block}
        return _event("content_block_stop", stop)


def whole_message(
    plan: Plan,
    head: Head,
    usage: Usage,
    *,
    show_reasoning: bool = False,
    logprobs: LogprobsFn | None = None,
) -> bytes:
    """The message that a stream of the same plan adds up to.

    The input of a call that the limit cut is no JSON; it is given as an empty object.
    """
    del logprobs  # no part of this dialect
    choice = plan.choices[0]
    content: list[dict[str, Any]] = []
    if choice.reasoning_tokens and _thinks(plan):
        told = choice.reasoning.text() if show_reasoning and choice.reasoning is not None else ""
        content.append({"type": "thinking", "thinking": told, "signature": _signature(head.id)})
    if len(choice.pieces):
        content.append({"type": "text", "text": choice.pieces.text(), "citations": None})
    content += [{**_tool_use(call), "input": _input(call)} for call in choice.calls]
    return json_bytes(
        {
            **_identity(head),
            "content": content,
            **_ending(choice),
            "usage": _usage(usage, plan, output_tokens=usage.completion_tokens),
            **_cost(head, usage),
        }
    )


def _thinks(plan: Plan) -> bool:
    """Whether the request turned thinking on; what is thought without that stays hidden."""
    return plan.request.reasoning_effort != "none"


def _identity(head: Head) -> dict[str, Any]:
    return {
        "id": head.id,
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "container": None,
    }


def _tool_use(call: CallPlan) -> dict[str, Any]:
    # Clients may tell the API by how its ids begin.
    name = "toolu_" + call.id.removeprefix("call_")
    return {
        "type": "tool_use",
        "id": name,
        "name": call.tool.name,
        "input": {},
        "caller": {"type": "direct"},
    }


def _input(call: CallPlan) -> Any:
    try:
        value = json.loads(call.arguments.text() or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _ending(choice: ChoicePlan) -> dict[str, Any]:
    reason = _REASONS.get(choice.finish_reason, "end_turn")
    stop = choice.stop_string or None
    return {
        "stop_reason": "stop_sequence" if stop else reason,
        "stop_sequence": stop,
        "stop_details": None,
    }


def _tokens(usage: Usage, output_tokens: int) -> dict[str, Any]:
    """The counts alone: what was cached or is newly written is no part of `input_tokens`."""
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    return {
        "input_tokens": usage.prompt_tokens - cached - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": output_tokens,
        "output_tokens_details": {"thinking_tokens": min(usage.reasoning_tokens, output_tokens)},
    }


def _usage(usage: Usage, plan: Plan, *, output_tokens: int) -> dict[str, Any]:
    written = usage.cache_write_tokens
    return {
        **_tokens(usage, output_tokens),
        "cache_creation": {
            "ephemeral_5m_input_tokens": written,
            "ephemeral_1h_input_tokens": 0,
        },
        "inference_geo": None,
        "server_tool_use": None,
        "service_tier": "standard",
        "speed": "fast" if plan.tier == "priority" else "standard",
    }


def _cost(head: Head, usage: Usage) -> dict[str, Any]:
    """What it costs, beside the usage, where that is wanted."""
    return {} if head.bill is None else {"paceline": json.loads(head.bill(usage))}


def _signature(message_id: str) -> str:
    """An opaque value of the length that real ones have, the same for the same message."""
    seed = message_id.encode()
    return base64.b64encode(
        b"".join(hashlib.sha512(seed + b"%d" % i).digest() for i in range(4))
    ).decode()


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %b\n%b" % (name.encode(), sse.event(json_bytes(data)))


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event(
        "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
    )
