"""Text completions, the answer: a Plan -> chunks, or one object.

In a chunk `finish_reason` is null until the choice ends, as OpenAI's API and vLLM send it, though
the openai package's type (one for whole answers and chunks) doesn't say so.
"""

from __future__ import annotations

import orjson

from paceline.core.plan import ChoicePlan, Plan
from paceline.core.usage import Usage
from paceline.wire import sse
from paceline.wire.choice import Choice, ChoiceParts
from paceline.wire.cutter import Frame
from paceline.wire.head import Head, LogprobsFn
from paceline.wire.jsonbytes import inner, json_bytes
from paceline.wire.stream import Stream
from paceline.wire.usage import usage_json


class CompletionStream(Stream):
    """The StreamEncoder of a text completion (one ChoiceEncoder for each of plan.choices).

    `tokens_per_chunk` tokens share an event. Without `logprobs` no log probabilities are sent,
    even where the request asks for them. An echoed prompt is in the choice's first event.
    """

    def __init__(
        self,
        plan: Plan,
        head: Head,
        *,
        tokens_per_chunk: int = 1,
        logprobs: LogprobsFn | None = None,
    ) -> None:
        opening = sse.BEGIN + _head(head)
        super().__init__(plan, head, opening)
        wanted = logprobs if plan.request.top_logprobs is not None else None
        for slot, choice in enumerate(plan.choices):
            before = b'%b"choices":[{"index":%d,"text":"' % (opening, choice.index)
            echo = _echo(plan, choice)
            parts = ChoiceParts(
                slot=slot,
                frame=Frame(before, b'","logprobs":', b',"finish_reason":null}]', self._usage_key),
                finish=b'%b","logprobs":null,"finish_reason":"%b"}]'
                % (before, choice.finish_reason.encode()),
                per_event=tokens_per_chunk,
                logprobs=None if wanted is None else _LegacyLogprobs(wanted, choice, len(echo)),
                running=self._running,
            )
            self.choices.append(_CompletionChoice(choice, parts, inner(echo) if echo else b""))


class _CompletionChoice(Choice):
    """A choice that opens with the prompt, where it is echoed."""

    def __init__(self, plan: ChoicePlan, parts: ChoiceParts, echo: bytes) -> None:
        super().__init__(plan, parts)
        self._echo = echo

    def open(self, events: bytes, usage: bytes) -> bytes:
        if not self._echo:
            return events
        frame = self._frame
        if not events:
            return frame.event(self._echo, usage=usage)
        return frame.before + self._echo + events[len(frame.before) :]


def whole_completion(
    plan: Plan,
    head: Head,
    usage: Usage,
    *,
    logprobs: LogprobsFn | None = None,
) -> bytes:
    """The `text_completion` object that a stream of the same plan adds up to."""
    wanted = logprobs if plan.request.top_logprobs is not None else None
    choices = []
    for choice in plan.choices:
        echo = _echo(plan, choice)
        texts = choice.pieces.escaped(0, len(choice.pieces))
        found = b"null"
        if wanted is not None:
            found = _LegacyLogprobs(wanted, choice, len(echo))(0, len(texts), texts)
        choices.append(
            b'{"index":%d,"text":"%b%b","logprobs":%b,"finish_reason":"%b"}'
            % (
                choice.index,
                inner(echo) if echo else b"",
                b"".join(texts),
                found,
                choice.finish_reason.encode(),
            )
        )
    return b'%b"choices":[%b],"usage":%b%b}' % (
        _head(head),
        b",".join(choices),
        usage_json(usage),
        head.cost(usage),
    )


def _echo(plan: Plan, choice: ChoicePlan) -> str:
    return plan.prompts[choice.prompt_index].text if plan.request.echo_prompt else ""


def _head(head: Head) -> bytes:
    """An object up to its choices; the same for whole answers and chunks."""
    return (
        b'{"id":%b,"object":"text_completion","created":%d,"model":%b,"system_fingerprint":%b,'
        % (
            json_bytes(head.id),
            head.created,
            json_bytes(head.model),
            json_bytes(head.system_fingerprint),
        )
    )


class _LegacyLogprobs:
    """The four lists of this endpoint; `text_offset` counts characters of the returned text.

    It keeps the offset from one run of tokens to the next. A token's alternatives always hold the
    token itself, so there may be one more than was asked for.
    """

    def __init__(self, fn: LogprobsFn, choice: ChoicePlan, offset: int) -> None:
        self._fn = fn
        self._choice = choice
        self._offset = offset

    def __call__(self, start: int, stop: int, texts: list[bytes]) -> bytes:
        entries = self._fn(self._choice, start, stop)
        offsets = []
        for text in texts:
            offsets.append(self._offset)
            self._offset += len(orjson.loads(b'"%b"' % text))
        return json_bytes(
            {
                "text_offset": offsets,
                "token_logprobs": [entry.logprob for entry in entries],
                "tokens": [entry.token for entry in entries],
                "top_logprobs": [
                    {other.token: other.logprob for other in entry.top}
                    | {entry.token: entry.logprob}
                    for entry in entries
                ],
            }
        )
