"""What an answer will be, decided before its first token: text, length, why it ends.

Nothing here depends on anything but the request, its profile and the measured prompts, so that
the same request gets the same answer, streamed or whole, whatever else runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from paceline.core.errors import PlanError
from paceline.core.plan import ChoicePlan, FinishReason, Plan, PromptPlan
from paceline.core.profile import Profile
from paceline.core.request import ChatPrompt, GenerationRequest, Prompt, TextPrompt, TokenPrompt
from paceline.core.rng import hash64, lognormal, mix64
from paceline.runtime.drafted import Draft, DraftedAnswers
from paceline.runtime.prompts import PromptCounter
from paceline.runtime.scripts import Scripts
from paceline.runtime.stops import scan
from paceline.runtime.text import ListPieces, Ring, RingPieces
from paceline.runtime.tokenizer import Tokenizer
from paceline.runtime.tooluse import CallMaker

# Set apart what is drawn from one seed.
_FOR_LENGTH, _FOR_TEXT, _FOR_REASONING = 1, 2, 3


# Above these a plan takes longer than some milliseconds: choices, those of them that hold JSON or
# calls, and tokens that are looked at one by one.
_MANY_CHOICES, _MANY_DRAFTS, _MANY_TOKENS = 256, 8, 10_000


_MOST_HELD = 8_000_000
"""Tokens of one request whose text must be held in memory: some 60 bytes each where they are
listed one by one, 10 where they are a whole answer, 2,000 with 20 log probabilities."""


class _Length(NamedTuple):
    """How many tokens a choice has, and whether it ends by itself or a limit cuts it."""

    reasoning: int
    visible: int
    finish: FinishReason


class Planner:
    """Plans answers: prose from `ring`, or the user's own words back where `echo` asks so.

    Where the request offers tools or asks for JSON the answer calls and obeys; `scripts` come
    first. With tools on offer and left to itself, an answer calls one until `tool_calls_per_turn`
    rounds of results have come since the user's last message, and then is text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        ring: Ring,
        counter: PromptCounter,
        *,
        tool_calls_per_turn: int = 1,
        scripts: Scripts | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._ring = ring
        self._counter = counter
        self._per_turn = tool_calls_per_turn
        self._scripts = scripts
        self._calls = CallMaker()
        self._drafted = DraftedAnswers(tokenizer, ring)

    def plan(self, request: GenerationRequest, profile: Profile, prompts: list[PromptPlan]) -> Plan:
        """The plan of a request whose prompts were measured, in their order.

        Choices are numbered prompt by prompt, `n` for each.

        Raises PlanError where the prompt, or `max_tokens`, or both exceed the model's limits, and
        for schemas that are malformed or that nothing satisfies.
        """
        plain = not request.tools and request.output_format is None
        if not plain:
            self._calls.check(request)
        if request.overrides.echo:
            _check_held(sum([prompt.tokens for prompt in prompts]) * request.n)
        choices: list[ChoicePlan] = []
        asked = request.overrides.seed
        if asked is None:
            asked = request.seed
        base = 0 if asked is None else hash64(asked)
        for at, measured in enumerate(prompts):
            prompt = request.prompts[at]
            limit = _limit(request, profile, prompt, measured.tokens)
            digest = measured.digest or hash64(repr(prompt))
            for copy in range(request.n):
                seed = mix64(base ^ mix64(digest + copy))
                draft = None
                if not plain or self._scripts is not None:
                    draft = self._draft(request, prompt, seed)
                if draft is None:
                    choices.append(self._choice(request, profile, prompt, seed, limit))
                else:
                    choices.append(self._drafted.choice(request, profile, draft, seed, limit))
                choices[-1].index = len(choices) - 1
                choices[-1].prompt_index = at
        plan = Plan(request, profile, prompts, choices)
        if not request.stream:
            _check_held(plan.completion_tokens * (1 + 2 * (request.top_logprobs or 0)))
        return plan

    @staticmethod
    def takes_long(
        request: GenerationRequest, profile: Profile, prompts: Sequence[PromptPlan]
    ) -> bool:
        """Whether a plan may take so long that others shouldn't wait for it."""
        choices = len(prompts) * request.n
        plain = not request.tools and request.output_format is None
        if choices > (_MANY_CHOICES if plain else _MANY_DRAFTS):
            return True
        tokens = 0
        if request.overrides.echo:
            tokens = sum([prompt.tokens for prompt in prompts]) * request.n
        if request.stop:
            longest = max(request.overrides.output_tokens or 0, request.min_tokens)
            if request.ignore_eos:
                longest = max(longest, request.max_tokens or profile.limits.max_output_tokens)
            # The drawn length of an answer is hardly ever ten times as long as nine in ten.
            longest = max(longest, 10 * round(profile.output.tokens_p90))
            tokens += choices * min(longest, request.max_tokens or longest)
        return tokens > _MANY_TOKENS

    def _draft(self, request: GenerationRequest, prompt: Prompt, seed: int) -> Draft | None:
        """What the answer is to say, None where it is plain prose."""
        if request.overrides.echo:
            return None
        if self._scripts is not None and isinstance(prompt, ChatPrompt):
            turn = self._scripts.turn(request, prompt)
            if turn is not None:
                return turn
        if request.tools:
            calls = self._calls.draft(request, prompt, self._per_turn, seed)
            if calls:
                return Draft(calls=calls)
        if request.output_format is not None:
            return Draft(text=self._calls.structured(request, seed))
        return None

    def _choice(
        self, request: GenerationRequest, profile: Profile, prompt: Prompt, seed: int, limit: int
    ) -> ChoicePlan:
        pieces: RingPieces | ListPieces
        if request.overrides.echo:
            echoed = self._echoed(prompt)
            length = _length(request, profile, len(echoed), limit)
            pieces = self._echo(echoed, length.visible, seed)
        else:
            start = self._ring.start(seed + _FOR_TEXT)
            # The end of a sentence, whatever the limit: a smaller one cuts the same answer.
            natural = self._ring.neat_length(start, _drawn_length(profile, seed))
            length = _length(request, profile, natural, limit)
            pieces = RingPieces(self._ring, start, length.visible)
        finish, stop = length.finish, ""
        if request.stop and len(pieces):
            pieces, stop = self._stop(request, pieces, length.reasoning)
            finish = "stop" if stop else finish
        reasoning = None
        if length.reasoning:
            reasoning = self._ring.window(seed + _FOR_REASONING, length.reasoning)
        return ChoicePlan(0, 0, pieces, finish, length.reasoning, reasoning, seed, stop_string=stop)

    def _echoed(self, prompt: Prompt) -> Sequence[int]:
        """The ids of what the user said last."""
        if isinstance(prompt, TokenPrompt):
            return prompt.ids
        if isinstance(prompt, TextPrompt):
            return self._counter.ids(prompt.text)
        said = [message.text for message in prompt.messages if message.role == "user"]
        return self._counter.ids(said[-1] if said else "")

    def _echo(self, ids: Sequence[int], length: int, seed: int) -> ListPieces:
        whole = length >= len(ids)
        # A character that the cut goes through is never finished, and so never shown.
        texts = self._tokenizer.pieces(ids[:length], flush=whole)
        taken = list(ids[:length])
        if length > len(ids):
            more = self._ring.window(seed + _FOR_TEXT, length - len(ids))
            taken += more.ids(0, len(more))
            texts += more.tokens(0, len(more))
        return ListPieces(self._tokenizer, taken, texts)

    def _stop(
        self, request: GenerationRequest, pieces: RingPieces | ListPieces, reasoning: int
    ) -> tuple[RingPieces | ListPieces, str]:
        ignored = max(0, request.min_tokens - reasoning)
        found = scan(pieces.releases(), request.stop, ignored)
        if not found.held:
            return pieces, ""
        ids = pieces.ids(0, len(found.pieces))
        return ListPieces(self._tokenizer, ids, found.pieces), found.stop


def _check_held(tokens: int) -> None:
    """Refuse what would take the machine's memory."""
    if tokens > _MOST_HELD:
        raise PlanError(
            f"This request asks for an answer that is as large as {tokens} tokens; at most "
            f"{_MOST_HELD} are held in memory. Ask for fewer choices, or stream it.",
            "n",
            "invalid_value",
        )


def _limit(request: GenerationRequest, profile: Profile, prompt: Prompt, prompt_tokens: int) -> int:
    """The most tokens that a choice may have; refuses what can't be had at all."""
    limits = profile.limits
    context = limits.context_tokens
    asked = request.max_tokens
    field = "messages" if isinstance(prompt, ChatPrompt) else "prompt"
    if prompt_tokens >= context:
        raise PlanError(
            f"This model's maximum context length is {context} tokens. However, the {field} came "
            f"to {prompt_tokens} tokens, which leaves no room for an answer.",
            field,
            "context_length_exceeded",
        )
    if asked is None:
        return min(limits.max_output_tokens, context - prompt_tokens)
    if asked > limits.max_output_tokens:
        raise PlanError(
            f"max_tokens is too large: {asked}. This model gives at most "
            f"{limits.max_output_tokens} completion tokens.",
            "max_tokens",
            "invalid_value",
        )
    if prompt_tokens + asked > context:
        raise PlanError(
            f"This model's maximum context length is {context} tokens. However, this request needs "
            f"{prompt_tokens + asked}: {prompt_tokens} in the {field} and {asked} for the answer.",
            field,
            "context_length_exceeded",
        )
    return asked


def _drawn_length(profile: Profile, seed: int) -> int:
    output = profile.output
    drawn = lognormal(seed + _FOR_LENGTH, output.tokens_p50, output.tokens_p90)
    return max(1, round(drawn * output.length_factor))


def _length(request: GenerationRequest, profile: Profile, natural: int, limit: int) -> _Length:
    """Settle a choice's length; `natural` is the number of visible tokens it would have."""
    overrides = request.overrides
    reasoning = overrides.reasoning_tokens
    if reasoning is None:
        reasoning = profile.reasoning.tokens(request.reasoning_effort)
        if request.max_reasoning_tokens is not None:
            reasoning = min(reasoning, request.max_reasoning_tokens)
    total = reasoning + natural
    if overrides.output_tokens is not None:
        total = overrides.output_tokens
    elif request.ignore_eos:
        total = limit
    total = max(total, request.min_tokens)
    # With ignore_eos nothing but a limit ends an answer, even one that it only just reaches.
    cut = total > limit or (request.ignore_eos and total == limit)
    total = min(total, limit)
    reasoning = min(reasoning, total)
    return _Length(reasoning, total - reasoning, "length" if cut else "stop")
