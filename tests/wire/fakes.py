"""Stand-ins for what a planner makes: pieces of given texts, plans of given choices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from paceline.core.logprobs import TokenLogprob
from paceline.core.plan import ChoicePlan, FinishReason, Plan, PromptPlan
from paceline.core.profile import Engine, Profile
from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.core.usage import Usage
from paceline.wire.chat_encode import ChatStream
from paceline.wire.completions_encode import CompletionStream
from paceline.wire.head import Head

PROFILE = Profile(name="flat-40", title="Forty a second", engine=Engine(step_ms=25.0), kind="flat")
HEAD = Head(id="chatcmpl-1", created=1_780_000_000, model="flat-40")

AnyStream = ChatStream | CompletionStream


class FakePieces:
    """Pieces given as texts, one a token; an empty one releases nothing."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def dense(self) -> bool:
        return all(self.texts)

    def escaped(self, start: int, stop: int) -> list[bytes]:
        assert 0 <= start <= stop <= len(self.texts)
        return [json.dumps(text)[1:-1].encode() for text in self.texts[start:stop]]

    def text(self) -> str:
        return "".join(self.texts)

    def ids(self, start: int, stop: int) -> list[int]:
        return list(range(start, min(stop, len(self.texts))))

    def tokens(self, start: int, stop: int) -> list[str]:
        return [text or "\ufffd" for text in self.texts[start:stop]]


def choice(
    texts: Sequence[str],
    *,
    index: int = 0,
    prompt: int = 0,
    finish: FinishReason = "stop",
    reasoning: Sequence[str] = (),
) -> ChoicePlan:
    return ChoicePlan(
        index=index,
        prompt_index=prompt,
        pieces=FakePieces(texts),
        finish_reason=finish,
        reasoning_tokens=len(reasoning),
        reasoning=FakePieces(reasoning) if reasoning else None,
    )


def plan(*choices: ChoicePlan, prompts: Sequence[str] = ("hi",), **request: Any) -> Plan:
    asked = GenerationRequest("flat-40", (ChatPrompt((Message("user", "hi"),)),), **request)
    return Plan(asked, PROFILE, [PromptPlan(8, text=text) for text in prompts], list(choices))


def usage_of(made: Plan) -> Usage:
    return Usage(made.prompt_tokens, made.completion_tokens, reasoning_tokens=made.reasoning_tokens)


def logprobs(of: ChoicePlan, start: int, stop: int) -> list[TokenLogprob]:
    found = []
    for i, token in enumerate(of.pieces.tokens(start, stop), start):
        me = TokenLogprob(token, -0.25 - i, token.encode())
        other = TokenLogprob("else", -5.0, b"else")
        found.append(TokenLogprob(me.token, me.logprob, me.data, (me, other)))
    return found


def stream_bytes(stream: AnyStream, made: Plan, cuts: Sequence[Sequence[int]] = ()) -> bytes:
    """The whole body, choice after choice, flushed at the given token numbers of each."""
    body = stream.start()
    for slot, (encoder, of) in enumerate(zip(stream.choices, made.choices, strict=True)):
        total = of.output_tokens
        stops = sorted({c for c in (cuts[slot] if slot < len(cuts) else ()) if 0 < c < total})
        start = 0
        for stop in (*stops, total):
            body += encoder.tokens(start, stop)
            start = stop
        body += encoder.close()
    return body + stream.end(usage_of(made))


def events(body: bytes) -> list[dict[str, Any]]:
    """The events' JSON; checks the framing and that `[DONE]` is the last of all."""
    assert b"\r" not in body
    assert body.endswith(b"data: [DONE]\n\n")
    parts = body.split(b"\n\n")
    assert parts.pop() == b""
    assert parts.pop() == b"data: [DONE]"
    found = []
    for part in parts:
        assert part.startswith(b"data: {")
        assert part.count(b"\n") == 0
        found.append(json.loads(part[6:]))
    return found
