"""Chat completions, the answer's tool calls: their chunks, and their place in a whole message."""

from __future__ import annotations

from paceline.core.plan import CallPlan, ChoicePlan, Plan
from paceline.wire.chat_tools import LEGACY
from paceline.wire.choice import Choice, ChoiceParts
from paceline.wire.cutter import Cutter, DetailedCutter, Frame, PlainCutter, whole
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.parts import spans


def finish_reason(plan: Plan, choice: ChoicePlan) -> bytes:
    """Why a choice ended, in chat's words.

    OpenAI answers `stop` where the request itself named the tool, and `function_call` to requests
    that use the older field.
    """
    reason: str = choice.finish_reason
    if reason == "tool_calls":
        if plan.request.tool_choice.mode == "named":
            reason = "stop"
        elif choice.calls and choice.calls[0].tool.type == LEGACY:
            reason = "function_call"
    return reason.encode()


def whole_calls(calls: list[CallPlan]) -> bytes:
    """The calls as fields of a message, each after a comma."""
    if calls[0].tool.type == LEGACY:
        return b',"function_call":{"name":%b,"arguments":"%b"}' % (
            json_bytes(calls[0].tool.name),
            whole(calls[0].arguments),
        )
    return b',"tool_calls":[%b]' % b",".join([_whole_call(call) for call in calls])


def _whole_call(call: CallPlan) -> bytes:
    kind, payload = _words(call)
    return b'{"id":%b,"type":"%b","%b":{"name":%b,"%b":"%b"}}' % (
        json_bytes(call.id),
        kind,
        kind,
        json_bytes(call.tool.name),
        payload,
        whole(call.arguments),
    )


def _words(call: CallPlan) -> tuple[bytes, bytes]:
    return (b"custom", b"input") if call.tool.kind == "custom" else (b"function", b"arguments")


class CallingChoice(Choice):
    """The ChoiceEncoder of a choice that calls tools, after whatever text it says.

    `delta` is a chunk up to the inside of its delta; `after` what follows the log probabilities.
    """

    def __init__(self, plan: ChoicePlan, parts: ChoiceParts, delta: bytes, after: bytes) -> None:
        super().__init__(plan, parts)
        self._delta = delta
        self._after = after
        self._per_event = parts.per_event
        content = b'""' if len(plan.pieces) else b"null"
        self._role = b'%b"role":"assistant","content":%b,"refusal":null},"logprobs":null%b' % (
            delta,
            content,
            after,
        )
        self._text_end = plan.reasoning_tokens + len(plan.pieces)
        self._cutters = [self._cutter(at, call) for at, call in enumerate(plan.calls)]

    def tokens(self, start: int, stop: int) -> bytes:
        """The events of tokens start..stop, those of calls included."""
        events = b""
        if start < self._text_end:
            events = super().tokens(start, min(stop, self._text_end))
        if stop <= self._text_end:
            return events
        usage = self._usage()
        calls = self._call_events(start, stop)
        if calls and not self._opened:
            self._opened = True
            calls = self.open(calls, usage)
        return events + calls

    def open(self, events: bytes, usage: bytes) -> bytes:
        """The chunk that names the role comes first."""
        return self._role + usage + self._frame.end + events

    def _call_events(self, start: int, stop: int) -> bytes:
        events = []
        for kind, at, i, j in spans(self._plan, start, stop):
            if kind == "head" and j == self._plan.calls[at].head_tokens:
                events.append(self._begin(at, self._plan.calls[at]))
            elif kind == "arguments":
                events.append(self._cutters[at].cut(i, j))
        return b"".join(events)

    def _begin(self, at: int, call: CallPlan) -> bytes:
        """The first chunk of a call: all that there is to know but the arguments."""
        name = json_bytes(call.tool.name)
        if call.tool.type == LEGACY:
            inside = b'"function_call":{"name":%b,"arguments":""}' % name
        elif call.tool.kind == "custom":
            # Without a type: the openai package's chunk knows `function` alone.
            inside = b'"tool_calls":[{"index":%d,"id":%b,"custom":{"name":%b,"input":""}}]' % (
                at,
                json_bytes(call.id),
                name,
            )
        else:
            inside = (
                b'"tool_calls":[{"index":%d,"id":%b,"type":"function",'
                b'"function":{"name":%b,"arguments":""}}]' % (at, json_bytes(call.id), name)
            )
        usage = self._frame.usage
        if self._running is not None:
            before = self._text_end + sum(c.tokens for c in self._plan.calls[:at])
            usage = self._running.advance(self._slot, before + call.head_tokens)
        return b'%b%b},"logprobs":null%b%b%b' % (
            self._delta,
            inside,
            self._after,
            usage,
            self._frame.end,
        )

    def _cutter(self, at: int, call: CallPlan) -> Cutter:
        kind, payload = _words(call)
        if call.tool.type == LEGACY:
            before, close = b'"function_call":{"arguments":"', b'"}}'
        else:
            before = b'"tool_calls":[{"index":%d,"%b":{"%b":"' % (at, kind, payload)
            close = b'"}}]}'
        frame = Frame(self._delta + before, close + b',"logprobs":', self._after, self._frame.usage)
        if self._running is None:
            return PlainCutter(call.arguments, frame, self._per_event)
        earlier = sum(other.tokens for other in self._plan.calls[:at])
        return DetailedCutter(
            call.arguments,
            frame,
            self._per_event,
            logprobs=None,
            running=self._running,
            slot=self._slot,
            tokens_before=self._text_end + earlier + call.head_tokens,
        )
