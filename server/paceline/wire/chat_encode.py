"""Chat completions, the answer: a Plan -> chunks, or one object."""

from __future__ import annotations

from typing import Any

from paceline.core.logprobs import TokenLogprob
from paceline.core.plan import ChoicePlan, Plan
from paceline.core.usage import Usage
from paceline.wire import sse
from paceline.wire.chat_calls import CallingChoice, finish_reason, whole_calls
from paceline.wire.choice import Choice, ChoiceParts
from paceline.wire.cutter import Frame, LogprobsJson, whole
from paceline.wire.head import Head, LogprobsFn
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.stream import Stream
from paceline.wire.usage import usage_json


class ChatStream(Stream):
    """The StreamEncoder of a chat completion (one ChoiceEncoder for each of plan.choices).

    `tokens_per_chunk` tokens share an event. Without `logprobs` no log probabilities are sent,
    even where the request asks for them.
    """

    def __init__(
        self,
        plan: Plan,
        head: Head,
        *,
        tokens_per_chunk: int = 1,
        show_reasoning: bool = False,
        logprobs: LogprobsFn | None = None,
    ) -> None:
        opening = sse.BEGIN + _head(head, b"chat.completion.chunk")
        super().__init__(plan, head, opening)
        wanted = logprobs if plan.request.top_logprobs is not None else None
        for slot, choice in enumerate(plan.choices):
            delta = b'%b"choices":[{"index":%d,"delta":{' % (opening, choice.index)
            after = b',"finish_reason":null}]'
            role = (
                delta + b'"role":"assistant","content":"","refusal":null},"logprobs":null' + after
            )
            finish = b'%b},"logprobs":null,"finish_reason":"%b"}]' % (
                delta,
                finish_reason(plan, choice),
            )
            thinking = (
                Frame(delta + b'"reasoning_content":"', b'"},"logprobs":', after, self._usage_key)
                if show_reasoning
                else None
            )
            shown = Frame(delta + b'"content":"', b'"},"logprobs":', after, self._usage_key)
            chances = None if wanted is None else _chunk_logprobs(wanted, choice)
            parts = ChoiceParts(
                slot=slot,
                frame=shown,
                finish=finish,
                per_event=tokens_per_chunk,
                reasoning=thinking,
                logprobs=chances,
                running=self._running,
            )
            self.choices.append(
                CallingChoice(choice, parts, delta, after)
                if choice.calls
                else _ChatChoice(choice, parts, role)
            )


class _ChatChoice(Choice):
    """A choice that opens with the chunk that names the role."""

    def __init__(self, plan: ChoicePlan, parts: ChoiceParts, role: bytes) -> None:
        super().__init__(plan, parts)
        self._role = role

    def open(self, events: bytes, usage: bytes) -> bytes:
        return self._role + usage + self._frame.end + events


def whole_chat(
    plan: Plan,
    head: Head,
    usage: Usage,
    *,
    show_reasoning: bool = False,
    logprobs: LogprobsFn | None = None,
) -> bytes:
    """The `chat.completion` object that a stream of the same plan adds up to."""
    wanted = logprobs if plan.request.top_logprobs is not None else None
    choices = []
    for choice in plan.choices:
        pieces = choice.pieces
        thought = b""
        if show_reasoning and choice.reasoning is not None:
            reasoning = choice.reasoning
            thought = b',"reasoning_content":"%b"' % whole(reasoning)
        choices.append(
            b'{"index":%d,"message":{"role":"assistant","content":%b,"refusal":null,'
            b'"annotations":[]%b%b},"logprobs":%b,"finish_reason":"%b"}'
            % (
                choice.index,
                b"null" if choice.calls and not len(pieces) else b'"%b"' % whole(pieces),
                thought,
                whole_calls(choice.calls) if choice.calls else b"",
                b"null" if wanted is None else _logprobs(wanted(choice, 0, len(pieces))),
                finish_reason(plan, choice),
            )
        )
    return b'%b"choices":[%b],"usage":%b%b}' % (
        _head(head, b"chat.completion"),
        b",".join(choices),
        usage_json(usage),
        head.cost(usage),
    )


def _head(head: Head, kind: bytes) -> bytes:
    """An object up to its choices."""
    return (
        b'{"id":%b,"object":"%b","created":%d,"model":%b,"service_tier":%b,'
        b'"system_fingerprint":%b,'
        % (
            json_bytes(head.id),
            kind,
            head.created,
            json_bytes(head.model),
            json_bytes(head.service_tier),
            json_bytes(head.system_fingerprint),
        )
    )


def _chunk_logprobs(fn: LogprobsFn, choice: ChoicePlan) -> LogprobsJson:
    return lambda start, stop, _texts: _logprobs(fn(choice, start, stop))


def _logprobs(entries: list[TokenLogprob]) -> bytes:
    content = [
        {**_entry(entry), "top_logprobs": [_entry(other) for other in entry.top]}
        for entry in entries
    ]
    return json_bytes({"content": content, "refusal": None})


def _entry(entry: TokenLogprob) -> dict[str, Any]:
    return {"token": entry.token, "logprob": entry.logprob, "bytes": list(entry.data)}
