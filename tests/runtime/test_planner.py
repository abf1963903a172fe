from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.errors import PlanError
from paceline.core.plan import ChoicePlan, Plan, PromptPlan
from paceline.core.profile import Limits, Output, Profile, Reasoning
from paceline.core.request import (
    ChatPrompt,
    GenerationRequest,
    Message,
    Overrides,
    Prompt,
    TextPrompt,
    TokenPrompt,
)
from paceline.core.tools import OutputFormat
from paceline.runtime.planner import Planner
from paceline.runtime.prompts import PromptCounter
from paceline.runtime.tokenizer import Tokenizer

HELLO = ChatPrompt((Message("system", "Be brief."), Message("user", "Tell me of the sea.")))


def request(*prompts: Prompt, **values: Any) -> GenerationRequest:
    return GenerationRequest("bench", prompts or (HELLO,), **values)


class Make:
    """Measures and plans in one call."""

    def __init__(self, planner: Planner, counter: PromptCounter, profile: Profile) -> None:
        self.planner = planner
        self.counter = counter
        self.profile = profile

    def __call__(self, asked: GenerationRequest, profile: Profile | None = None) -> Plan:
        prompts = [self.counter.measure(prompt, 16, "m") for prompt in asked.prompts]
        return self.planner.plan(asked, profile or self.profile, prompts)

    def one(self, asked: GenerationRequest, profile: Profile | None = None) -> ChoicePlan:
        (choice,) = self(asked, profile).choices
        return choice


@pytest.fixture
def make(planner: Planner, tokenizer: Tokenizer, profile: Profile) -> Make:
    return Make(planner, PromptCounter(tokenizer), profile)


def said(plan: Plan) -> list[tuple[str, int, str]]:
    return [(c.pieces.text(), c.output_tokens, c.finish_reason) for c in plan.choices]


ASKED = st.builds(
    GenerationRequest,
    model=st.just("bench"),
    prompts=st.lists(
        st.one_of(
            st.just(HELLO),
            st.builds(TextPrompt, st.text("ab c🧿", max_size=20)),
            st.builds(TokenPrompt, st.lists(st.integers(0, 199_997), max_size=9).map(tuple)),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    n=st.integers(1, 3),
    max_tokens=st.one_of(st.none(), st.integers(0, 300)),
    ignore_eos=st.booleans(),
    stop=st.sampled_from([(), (".",), (" the", "\n\n"), ("zebra",)]),
    seed=st.one_of(st.none(), st.integers(-5, 5)),
    reasoning_effort=st.sampled_from([None, None, "low"]),
    overrides=st.builds(
        Overrides,
        output_tokens=st.one_of(st.none(), st.none(), st.integers(0, 300)),
        reasoning_tokens=st.one_of(st.none(), st.integers(0, 50)),
        seed=st.one_of(st.none(), st.integers(0, 5)),
        echo=st.booleans(),
    ),
)


@given(asked=ASKED)
def test_no_plan_breaks_its_limits(
    planner: Planner, tokenizer: Tokenizer, profile: Profile, asked: GenerationRequest
) -> None:
    make = Make(planner, PromptCounter(tokenizer), profile)
    plan = make(asked)
    limit = 2_000 if asked.max_tokens is None else asked.max_tokens
    assert [choice.index for choice in plan.choices] == list(range(asked.n * len(asked.prompts)))
    for choice in plan.choices:
        assert choice.prompt_index == choice.index // asked.n
        assert choice.output_tokens <= limit
        assert choice.reasoning_tokens == (len(choice.reasoning) if choice.reasoning else 0)
        count = len(choice.pieces)
        text = choice.pieces.text()
        assert len(choice.pieces.escaped(0, count)) == count
        assert len(choice.pieces.ids(0, count)) == count
        if "\ufffd" in text:
            assert asked.overrides.echo
        if choice.finish_reason == "length":
            assert choice.output_tokens == limit
        for stop in asked.stop:
            assert stop not in text
    assert plan.completion_tokens == sum(choice.output_tokens for choice in plan.choices)
    assert said(plan) == said(make(asked))
    streamed = replace(asked, stream=True, include_usage=True)
    assert said(plan) == said(make(streamed))


@given(asked=ASKED.filter(lambda asked: not asked.overrides.echo and not asked.stop))
def test_default_text_counts_exactly(
    planner: Planner, tokenizer: Tokenizer, profile: Profile, asked: GenerationRequest
) -> None:
    for choice in Make(planner, PromptCounter(tokenizer), profile)(asked).choices:
        assert tokenizer.count(choice.pieces.text()) == len(choice.pieces)
        if choice.reasoning is not None:
            assert tokenizer.count(choice.reasoning.text()) == choice.reasoning_tokens


def test_a_shorter_limit_gives_the_beginning_of_the_same_answer(make: Make) -> None:
    whole = make.one(request())
    assert whole.finish_reason == "stop"
    for limit in range(len(whole.pieces)):
        part = make.one(request(max_tokens=limit))
        assert part.finish_reason == "length"
        assert len(part.pieces) == limit
        assert whole.pieces.text().startswith(part.pieces.text())


def test_natural_ends_are_ends_of_sentences(make: Make) -> None:
    for seed in range(50):
        choice = make.one(request(seed=seed))
        assert choice.finish_reason == "stop"
        assert choice.pieces.text().endswith(".")


def test_lengths_follow_the_profile(make: Make) -> None:
    profile = replace(make.profile, output=Output(tokens_p50=300.0, tokens_p90=800.0))
    profile = replace(profile, limits=Limits(100_000, 50_000))
    lengths = sorted(len(make.one(request(seed=s), profile).pieces) for s in range(2_000))
    assert statistics.median(lengths) == pytest.approx(300, rel=0.08)
    assert lengths[1_800] == pytest.approx(800, rel=0.12)
    longer = replace(profile, output=replace(profile.output, length_factor=2.0))
    doubled = sorted(len(make.one(request(seed=s), longer).pieces) for s in range(2_000))
    assert doubled[1_000] == pytest.approx(600, rel=0.08)


def test_seed_prompt_and_copy_make_the_answer(make: Make) -> None:
    first = said(make(request()))
    other = ChatPrompt((Message("user", "Something else."),))
    assert said(make(request(other))) != first
    assert said(make(request(seed=1))) != first
    assert said(make(request(seed=1))) != said(make(request(seed=2)))
    # What an override fixes counts before the request's own seed.
    fixed = said(make(request(seed=1, overrides=Overrides(seed=2))))
    assert fixed == said(make(request(seed=2)))
    copies = said(make(request(n=8)))
    assert copies[0] == first[0]
    assert len({text for text, _, _ in copies}) == 8


def test_a_prompt_in_a_list_gets_the_answer_it_gets_alone(make: Make) -> None:
    prompts = (TextPrompt("one"), TextPrompt("two"), TextPrompt("three"))
    plan = make(request(*prompts, n=2))
    assert [choice.prompt_index for choice in plan.choices] == [0, 0, 1, 1, 2, 2]
    together = said(plan)
    alone = [answer for prompt in prompts for answer in said(make(request(prompt, n=2)))]
    assert together == alone


def test_a_plan_needs_no_digest(planner: Planner, profile: Profile) -> None:
    first, again, other = (
        said(planner.plan(asked, profile, [PromptPlan(10)]))
        for asked in (request(), request(), request(TextPrompt("other")))
    )
    assert first == again != other


@pytest.mark.parametrize("stream", [False, True])
def test_ignore_eos_goes_on_to_the_limit(make: Make, stream: bool) -> None:
    for limit in (1, 7, 64, 2_000):
        choice = make.one(request(max_tokens=limit, ignore_eos=True, stream=stream))
        assert (choice.output_tokens, choice.finish_reason) == (limit, "length")
    unlimited = make.one(request(ignore_eos=True, stream=stream))
    assert (unlimited.output_tokens, unlimited.finish_reason) == (2_000, "length")
    fixed = make.one(request(ignore_eos=True, overrides=Overrides(output_tokens=64)))
    assert (fixed.output_tokens, fixed.finish_reason) == (64, "stop")


def test_min_tokens_are_generated(make: Make) -> None:
    for seed in range(40):
        choice = make.one(request(seed=seed, min_tokens=100))
        assert choice.output_tokens >= 100
        assert choice.finish_reason == "stop"
    cut = make.one(request(min_tokens=100, max_tokens=50))
    assert (cut.output_tokens, cut.finish_reason) == (50, "length")
    # A stop string counts only after them.
    stopped = make.one(request(min_tokens=100, max_tokens=300, ignore_eos=True, stop=(".",)))
    assert 100 < stopped.output_tokens < 160
    assert stopped.finish_reason == "stop"
    assert "." in stopped.pieces.text()


def test_fixed_lengths_are_exact(make: Make) -> None:
    for tokens in (0, 1, 33, 2_000):
        choice = make.one(request(overrides=Overrides(output_tokens=tokens)))
        assert (choice.output_tokens, choice.finish_reason) == (tokens, "stop")
    cut = make.one(request(overrides=Overrides(output_tokens=33), max_tokens=32))
    assert (cut.output_tokens, cut.finish_reason) == (32, "length")
    over = make.one(request(overrides=Overrides(output_tokens=9_000)))
    assert (over.output_tokens, over.finish_reason) == (2_000, "length")


def test_nothing_asked_nothing_said(make: Make) -> None:
    choice = make.one(request(max_tokens=0, stop=(".",)))
    assert (choice.output_tokens, choice.finish_reason) == (0, "length")
    assert choice.pieces.text() == ""
    assert choice.pieces.escaped(0, 0) == []


def test_reasoning_comes_first_and_counts(make: Make) -> None:
    profile = replace(make.profile, reasoning=Reasoning(default_effort="low", low=40, high=90))
    choice = make.one(request(), profile)
    assert choice.reasoning_tokens == 40
    assert choice.reasoning is not None
    assert len(choice.reasoning) == 40
    assert choice.reasoning.text() != choice.pieces.text()
    assert make.one(request(reasoning_effort="high"), profile).reasoning_tokens == 90
    budget = make.one(request(reasoning_effort="high", max_reasoning_tokens=60), profile)
    assert budget.reasoning_tokens == 60
    none = make.one(request(reasoning_effort="none"), profile)
    assert (none.reasoning_tokens, none.reasoning) == (0, None)
    # The same answer follows, however long the thinking.
    assert none.pieces.text() == choice.pieces.text()
    own = Overrides(reasoning_tokens=7, output_tokens=20)
    fixed = make.one(request(overrides=own), profile)
    assert (fixed.reasoning_tokens, len(fixed.pieces)) == (7, 13)


def test_a_limit_within_reasoning_leaves_nothing_to_show(make: Make) -> None:
    choice = make.one(request(reasoning_effort="low", max_tokens=30, stop=(".",)))
    assert (choice.reasoning_tokens, len(choice.pieces)) == (30, 0)
    assert choice.finish_reason == "length"


def test_echo_says_the_last_user_message(make: Make, tokenizer: Tokenizer) -> None:
    text = "Ω sees a 🧿 and 日本語."
    chat = ChatPrompt((Message("user", "no"), Message("user", text), Message("assistant", "no")))
    echo = Overrides(echo=True)
    choice = make.one(request(chat, overrides=echo))
    assert choice.pieces.text() == text
    assert choice.pieces.ids(0, 99) == tokenizer.encode(text)
    assert choice.finish_reason == "stop"
    assert not choice.pieces.dense
    for limit in range(1, len(choice.pieces)):
        cut = make.one(request(chat, overrides=echo, max_tokens=limit))
        assert (len(cut.pieces), cut.finish_reason) == (limit, "length")
        assert text.startswith(cut.pieces.text())
    exact = make.one(request(chat, overrides=echo, max_tokens=len(choice.pieces)))
    assert exact.finish_reason == "stop"


def test_echo_of_other_prompts(make: Make, tokenizer: Tokenizer) -> None:
    echo = Overrides(echo=True)
    text = "A bare text."
    assert make.one(request(TextPrompt(text), overrides=echo)).pieces.text() == text
    ids = TokenPrompt(tuple(tokenizer.encode(text)))
    assert make.one(request(ids, overrides=echo)).pieces.text() == text
    silent = make.one(request(ChatPrompt((Message("system", "x"),)), overrides=echo))
    assert (silent.output_tokens, silent.finish_reason) == (0, "stop")


def test_echo_goes_on_where_it_must(make: Make) -> None:
    asked = request(
        TextPrompt("Short."), overrides=Overrides(echo=True), max_tokens=50, ignore_eos=True
    )
    choice = make.one(asked)
    assert (len(choice.pieces), choice.finish_reason) == (50, "length")
    assert choice.pieces.text().startswith("Short.")


def test_a_stop_string_ends_the_answer(make: Make) -> None:
    whole = make.one(request(max_tokens=200, ignore_eos=True))
    text = whole.pieces.text()
    stop = text[150:165]
    at = text.index(stop)
    cut = make.one(request(max_tokens=200, ignore_eos=True, stop=("never there", stop)))
    assert cut.pieces.text() == text[:at]
    assert cut.finish_reason == "stop"
    count = len(cut.pieces)
    # The tokens that complete the stop string were generated, and are paid for.
    assert cut.pieces.ids(0, count) == whole.pieces.ids(0, count)
    generated = "".join(whole.pieces.tokens(0, count))
    assert stop in generated
    assert stop not in "".join(whole.pieces.tokens(0, count - 1))


def test_a_prompt_without_room_is_refused(make: Make) -> None:
    for text, field in ((TextPrompt("a " * 10_000), "prompt"), (HELLO, "messages")):
        profile = replace(make.profile, limits=Limits(10, 10))
        with pytest.raises(PlanError, match="maximum context length is 10 tokens") as caught:
            make(request(text), profile)
        assert caught.value.code == "context_length_exceeded"
        assert caught.value.param == field
        assert caught.value.status == 400


def test_prompt_and_answer_share_the_context(make: Make) -> None:
    tokens = make(request()).prompt_tokens
    profile = replace(make.profile, limits=Limits(tokens + 50, 60))
    assert make.one(request(max_tokens=50, ignore_eos=True), profile).output_tokens == 50
    with pytest.raises(PlanError, match=f"needs {tokens + 51}") as caught:
        make(request(max_tokens=51), profile)
    assert caught.value.code == "context_length_exceeded"
    # Unasked, an answer takes what is left.
    assert make.one(request(ignore_eos=True), profile).output_tokens == 50


def test_too_long_an_answer_is_refused(make: Make) -> None:
    assert make.one(request(max_tokens=2_000, ignore_eos=True)).output_tokens == 2_000
    with pytest.raises(PlanError, match="at most 2000") as caught:
        make(request(max_tokens=2_001))
    assert caught.value.param == "max_tokens"


def test_what_takes_long_is_known_before(planner: Planner, profile: Profile) -> None:
    def long(asked: GenerationRequest, tokens: int = 10, prompts: int = 1) -> bool:
        return planner.takes_long(asked, profile, [PromptPlan(tokens)] * prompts)

    stop = replace(request(stop=("x",), max_tokens=1_000, ignore_eos=True), n=8)
    assert not long(request())
    assert not long(request(n=128))
    assert long(request(n=128), prompts=3)
    assert not long(stop)
    assert long(replace(stop, n=11))
    assert not long(replace(stop, n=11, stop=()))
    echo = request(overrides=Overrides(echo=True))
    assert not long(echo, 9_000)
    assert long(echo, 11_000)
    assert long(replace(request(n=9), output_format=OutputFormat("json_object")))


def test_what_would_fill_the_memory_is_refused(planner: Planner, profile: Profile) -> None:
    huge = replace(profile, limits=Limits(1 << 30, 1 << 30))
    prompts = [PromptPlan(10)]
    for asked in (
        request(n=9, max_tokens=1_000_000, ignore_eos=True),
        request(n=2, max_tokens=100_000, ignore_eos=True, top_logprobs=20),
    ):
        with pytest.raises(PlanError, match="held in memory") as caught:
            planner.plan(asked, huge, prompts)
        assert caught.value.param == "n"
        assert planner.plan(replace(asked, stream=True), huge, prompts).completion_tokens
        assert planner.plan(replace(asked, n=1), huge, prompts).completion_tokens
    echo = request(n=100, overrides=Overrides(echo=True), stream=True)
    with pytest.raises(PlanError, match="held in memory"):
        planner.plan(echo, huge, [PromptPlan(100_000)])
