"""Which part of an answer a run of tokens belongs to; the same for every dialect.

Tokens are numbered over the whole output: the reasoning first, then the visible text, then each
call: its head, then its arguments. An encoder asks `spans` what a run of tokens touches and cuts
each span with what the dialect calls it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from paceline.core.plan import ChoicePlan

PartKind = Literal["reasoning", "text", "head", "arguments"]


class Span(NamedTuple):
    """Tokens i..j of one part, numbered within the part.

    `call` is the call's place in `ChoicePlan.calls` for `head` and `arguments`, else 0. A `head`
    shows nothing by itself: a call is to be opened (its id and name told) once its last head
    token is out, that is with the span whose `j` is the call's `head_tokens`. Every planned call
    has at least one head token, so each is opened, even where a limit cuts its arguments to none.
    """

    kind: PartKind
    call: int
    i: int
    j: int


def spans(choice: ChoicePlan, start: int, stop: int) -> list[Span]:
    """What tokens start..stop of a choice's output are, in order; no span is empty.

    `start` and `stop` count over the whole output, hidden tokens included; what lies past its
    end is ignored. Runs that follow each other give spans that follow each other, so an encoder
    needs no other state than what it has opened.
    """
    found: list[Span] = []
    at = choice.reasoning_tokens
    if start < at:
        found.append(Span("reasoning", 0, start, min(stop, at)))
        if stop <= at:
            return found
    end = at + len(choice.pieces)
    if max(start, at) < min(stop, end):
        found.append(Span("text", 0, max(start, at) - at, min(stop, end) - at))
    if stop <= end or not choice.calls:
        return found
    at = end
    for index, call in enumerate(choice.calls):
        if stop <= at:
            break
        end = at + call.head_tokens
        if max(start, at) < min(stop, end):
            found.append(Span("head", index, max(start, at) - at, min(stop, end) - at))
        at, end = end, end + len(call.arguments)
        if max(start, at) < min(stop, end):
            found.append(Span("arguments", index, max(start, at) - at, min(stop, end) - at))
        at = end
    return found
