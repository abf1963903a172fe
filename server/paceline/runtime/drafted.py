"""Answers that are more than prose: given text, JSON, tool calls; laid out within the limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.core.plan import CallPlan, ChoicePlan, FinishReason
from paceline.core.profile import Profile
from paceline.core.request import GenerationRequest
from paceline.core.rng import hash64, mix64
from paceline.runtime.lru import ByteLRU
from paceline.runtime.stops import scan
from paceline.runtime.text import ListPieces, Ring, RingPieces
from paceline.runtime.tokenizer import Tokenizer
from paceline.runtime.tooluse import CallDraft

_FOR_TEXT, _FOR_REASONING, _FOR_IDS = 2, 3, 4

FRAME_TOKENS = 4
"""Tokens that frame a call beside its name: begin, recipient, kind, end. An estimate: what OpenAI's
models write around a call is not public, and their bills show a few tokens above the text's."""

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(slots=True)
class Draft:
    """What an answer is to say: `text`, or prose of `words` tokens, and then the calls."""

    text: str | None = None
    words: int = 0
    reasoning: int | None = None
    calls: list[CallDraft] = field(default_factory=list)


class DraftedAnswers:
    """Turns drafts into choices."""

    def __init__(self, tokenizer: Tokenizer, ring: Ring) -> None:
        self._tokenizer = tokenizer
        self._ring = ring
        self._cut: ByteLRU[str, ListPieces] = ByteLRU(1 << 20)

    def choice(
        self, request: GenerationRequest, profile: Profile, draft: Draft, seed: int, limit: int
    ) -> ChoicePlan:
        """The choice that says what the draft wants, cut where a limit cuts it."""
        reasoning = request.overrides.reasoning_tokens
        if reasoning is None:
            reasoning = draft.reasoning
        if reasoning is None:
            reasoning = profile.reasoning.tokens(request.reasoning_effort)
        calls = [self._call(call, at, seed) for at, call in enumerate(draft.calls)]
        pieces: RingPieces | ListPieces
        if draft.text is not None:
            pieces = self._pieces(draft.text)
        else:
            told = draft.words
            if calls:
                told += self._lacking(request, reasoning + told + sum(c.tokens for c in calls))
            pieces = self._ring.window(seed + _FOR_TEXT, told)
        asked = request.overrides.output_tokens
        if asked is not None:
            limit = min(limit, asked)
        reasoning = min(reasoning, limit)
        pieces, finish = self._said(request, pieces, reasoning, limit)
        if finish is None:
            left = limit - reasoning - len(pieces)
            calls, finish = self._within(calls, left)
        else:
            calls = []
        window = self._ring.window(seed + _FOR_REASONING, reasoning) if reasoning else None
        return ChoicePlan(0, 0, pieces, finish, reasoning, window, seed, calls)

    @staticmethod
    def _lacking(request: GenerationRequest, natural: int) -> int:
        """Prose in front of calls, where the request asks for more tokens than they have."""
        wanted = request.overrides.output_tokens
        return max(0, (request.min_tokens if wanted is None else wanted) - natural)

    def _said(
        self,
        request: GenerationRequest,
        pieces: RingPieces | ListPieces,
        reasoning: int,
        limit: int,
    ) -> tuple[RingPieces | ListPieces, FinishReason | None]:
        """The visible text as far as it goes, and why it ends there if anything ends it."""
        room = limit - reasoning
        cut = len(pieces) > room
        if cut:
            pieces = self._shortened(pieces, room)
        if request.stop and len(pieces):
            ignored = max(0, request.min_tokens - reasoning)
            found = scan(pieces.releases(), request.stop, ignored)
            if found.held:
                ids = pieces.ids(0, len(found.pieces))
                pieces = ListPieces(self._tokenizer, ids, found.pieces)
            if found.stopped:
                return pieces, "stop"
        return pieces, "length" if cut else None

    def _shortened(self, pieces: RingPieces | ListPieces, size: int) -> RingPieces | ListPieces:
        if isinstance(pieces, RingPieces):
            return RingPieces(self._ring, pieces.start, size)
        return ListPieces(self._tokenizer, pieces.ids(0, size), pieces.releases()[:size])

    def _within(self, calls: list[CallPlan], room: int) -> tuple[list[CallPlan], FinishReason]:
        """The calls that fit, the last one cut where the room ends."""
        finish: FinishReason = "tool_calls" if calls else "stop"
        kept: list[CallPlan] = []
        for call in calls:
            if room <= 0:
                return kept, "length"
            if call.tokens > room:
                call.head_tokens = min(call.head_tokens, room)
                size = room - call.head_tokens
                call.arguments = ListPieces(
                    self._tokenizer,
                    call.arguments.ids(0, size),
                    self._pieces_texts(call.arguments.ids(0, size)),
                )
                return [*kept, call], "length"
            kept.append(call)
            room -= call.tokens
        return kept, finish

    def _pieces_texts(self, ids: list[int]) -> list[str]:
        return self._tokenizer.pieces(ids, flush=False)

    def _call(self, draft: CallDraft, at: int, seed: int) -> CallPlan:
        head = len(self._pieces(draft.tool.name)) + FRAME_TOKENS
        arguments = ListPieces.of_text(self._tokenizer, draft.text)
        return CallPlan(call_id(seed, at), draft.tool, arguments, head)

    def _pieces(self, text: str) -> ListPieces:
        """A text by token; those of scripts and names come again and again."""
        found = self._cut.get(text)
        if found is None:
            found = ListPieces.of_text(self._tokenizer, text)
            self._cut.put(text, found, 200 + 120 * len(found))
        return found


def call_id(seed: int, at: int) -> str:
    """The id of a choice's call: `call_` and 24 letters and digits, the same for the same seed.

    A seed holds a hash of the whole conversation, so no two turns of one share an id.
    """
    number = (hash64(seed, _FOR_IDS, at) << 64 | mix64(seed + at)) << 16 | hash64(at, seed) & 0xFFFF
    letters = []
    for _ in range(24):
        number, digit = divmod(number, 62)
        letters.append(_ALPHABET[digit])
    return "call_" + "".join(letters)
