from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.errors import PlanError
from paceline.core.plan import PromptPlan
from paceline.core.request import ChatPrompt, Message, Prompt, TextPrompt, TokenPrompt
from paceline.runtime.prompts import PromptCounter
from paceline.runtime.text import Ring
from paceline.runtime.tokenizer import Tokenizer

TEXTS = st.text("ab \n🙂é.", max_size=400)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "developer"]),
    text=TEXTS,
    fixed_tokens=st.sampled_from([0, 0, 0, 1, 85]),
    name=st.sampled_from(["", "", "", "ann", "weather_tool"]),
)
CHATS = st.builds(ChatPrompt, st.lists(MESSAGES, max_size=6).map(tuple))
PROMPTS: st.SearchStrategy[Prompt] = st.one_of(
    CHATS,
    st.builds(TextPrompt, TEXTS),
    st.builds(TokenPrompt, st.lists(st.integers(0, 200_018), max_size=50).map(tuple)),
)


class CountingTokenizer(Tokenizer):
    """Notes which texts were encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded: list[str] = []

    def encode(self, text: str) -> list[int]:
        self.encoded.append(text)
        return super().encode(text)


def chat(*texts: str) -> ChatPrompt:
    roles = ("user", "assistant")
    return ChatPrompt(tuple(Message(roles[i % 2], text) for i, text in enumerate(texts)))


@given(prompt=CHATS)
def test_a_chat_is_counted_by_the_published_recipe(
    tokenizer: Tokenizer, prompt: ChatPrompt
) -> None:
    expected = 3 + sum(
        3
        + tokenizer.count(m.role)
        + tokenizer.count(m.text)
        + m.fixed_tokens
        + (1 + tokenizer.count(m.name) if m.name else 0)
        for m in prompt.messages
    )
    assert PromptCounter(tokenizer).measure(prompt, 16).tokens == expected


def test_bare_prompts_have_no_overhead(tokenizer: Tokenizer) -> None:
    counter = PromptCounter(tokenizer)
    text = "Say this is a test, please, and then say it again."
    ids = tokenizer.encode(text)
    as_text = counter.measure(TextPrompt(text), 4, "m", keep_text=True)
    as_ids = counter.measure(TokenPrompt(tuple(ids)), 4, "m", keep_text=True)
    assert as_text.tokens == as_ids.tokens == len(ids)
    assert as_text.blocks == as_ids.blocks
    assert len(as_text.blocks) == len(ids) // 4
    assert as_text.text == as_ids.text == text
    assert counter.measure(TextPrompt(text)).text == ""
    assert counter.count(text) == len(ids)


def test_an_id_out_of_the_vocabulary_is_refused(tokenizer: Tokenizer) -> None:
    for wrong in (-1, 200_019, 1 << 40):
        with pytest.raises(PlanError, match="vocabulary") as caught:
            PromptCounter(tokenizer).measure(TokenPrompt((1, wrong)))
        assert caught.value.param == "prompt"
        assert caught.value.status == 400


@given(prompts=st.lists(PROMPTS, min_size=1, max_size=5), block=st.sampled_from([0, 1, 2, 5, 16]))
def test_memory_changes_nothing(tokenizer: Tokenizer, prompts: list[Prompt], block: int) -> None:
    warm = PromptCounter(tokenizer)
    tiny = PromptCounter(tokenizer, cache_bytes=2_000)
    for prompt in prompts * 2:
        fresh = PromptCounter(tokenizer).measure(prompt, block, "salt")
        assert warm.measure(prompt, block, "salt") == fresh
        assert tiny.measure(prompt, block, "salt") == fresh
        assert len(fresh.blocks) == (fresh.tokens // block if block else 0)


def _common(first: PromptPlan, second: PromptPlan) -> int:
    """How many hashes two prompts share from the front; asserts that they share no later one."""
    count = 0
    for one, other in zip(first.blocks, second.blocks, strict=False):
        if one != other:
            break
        count += 1
    assert not set(first.blocks[count:]) & set(second.blocks[count:])
    return count


@given(
    ids=st.lists(st.integers(0, 199_997), min_size=1, max_size=200),
    at=st.integers(0, 199),
    block=st.sampled_from([1, 2, 7, 16]),
)
def test_blocks_are_shared_up_to_the_token_that_differs(
    tokenizer: Tokenizer, ids: list[int], at: int, block: int
) -> None:
    counter = PromptCounter(tokenizer)
    at %= len(ids)
    changed = [*ids[:at], (ids[at] + 1) % 199_998, *ids[at + 1 :]]
    first = counter.measure(TokenPrompt(tuple(ids)), block, "m")
    second = counter.measure(TokenPrompt(tuple(changed)), block, "m")
    assert _common(first, second) == at // block


@given(key=st.integers(0, 50), lengths=st.lists(st.integers(1, 300), min_size=1, max_size=5))
def test_chats_share_blocks_within_a_message(
    tokenizer: Tokenizer, ring: Ring, key: int, lengths: list[int]
) -> None:
    counter = PromptCounter(tokenizer)
    texts = [ring.window(key + i, length).text() for i, length in enumerate(lengths)]
    whole = counter.measure(chat(*texts, "and then"), 16, "m")
    # The last message goes on after its common beginning: header, text up to where they part.
    other = counter.measure(chat(*texts[:-1], texts[-1] + " xylophone"), 16, "m")
    shared = sum(lengths) + 3 * len(lengths) + len(lengths) - 1
    assert _common(whole, other) == shared // 16


def test_a_reply_continues_its_own_prompt(tokenizer: Tokenizer, ring: Ring) -> None:
    counter = PromptCounter(tokenizer)
    asked = counter.measure(chat(ring.window(1, 300).text()), 16, "m")
    answered = counter.measure(chat(ring.window(1, 300).text(), "Yes."), 16, "m")
    assert answered.blocks[: len(asked.blocks)] == asked.blocks


def test_salt_and_content_tell_prompts_apart(tokenizer: Tokenizer, ring: Ring) -> None:
    counter = PromptCounter(tokenizer)
    text = ring.window(3, 100).text()
    one = counter.measure(chat(text), 16, "gpu-40")
    two = counter.measure(chat(text), 16, "wafer-750")
    assert _common(one, two) == 0
    assert one.digest == two.digest != 0
    assert counter.measure(chat(text + " Yes"), 16, "gpu-40").digest != one.digest
    assert counter.measure(TextPrompt(text), 16, "gpu-40").digest != one.digest


def test_history_is_encoded_once(ring: Ring) -> None:
    tokenizer = CountingTokenizer()
    counter = PromptCounter(tokenizer)
    texts = [ring.window(key, 200 + key).text() for key in range(40)]
    for turn in range(1, 41):
        counter.measure(chat(*texts[:turn]), 128, "m")
    for text in texts:
        assert tokenizer.encoded.count(text) == 1
    assert len(tokenizer.encoded) == 42  # the texts, and two roles
    # In another order, and under another salt, blocks differ but no text is encoded again.
    counter.measure(chat(*reversed(texts)), 128, "other")
    assert len(tokenizer.encoded) == 42


def test_memory_stays_within_its_bounds(tokenizer: Tokenizer, ring: Ring) -> None:
    counter = PromptCounter(tokenizer, cache_bytes=100_000)
    for key in range(200):
        counter.measure(chat(ring.window(key, 400).text(), f"number {key}"), 16, "m")
        assert counter.memory_bytes <= 100_000
    assert counter.memory_bytes > 50_000


async def test_measuring_off_the_loop_gives_the_same(tokenizer: Tokenizer, ring: Ring) -> None:
    long = ring.window(1, 30_000).text()
    huge = ring.window(2, 250_000).text()
    assert len(huge) > 1_000_000
    prompts: list[Prompt] = [
        chat("short"),
        chat(long, "short", long),
        chat(*(ring.window(key, 3_000).text() for key in range(9))),
        chat("short", huge),
        TextPrompt(long),
    ]
    counter = PromptCounter(tokenizer)
    for prompt in prompts * 2:
        expected = PromptCounter(tokenizer).measure(prompt, 128, "m")
        assert await counter.measure_async(prompt, 128, "m") == expected
    assert counter.count(long) == 30_000


@pytest.mark.realtime
async def test_a_long_text_leaves_the_loop_free(tokenizer: Tokenizer, ring: Ring) -> None:
    prompt = chat(ring.window(5, 400_000).text())
    task = asyncio.create_task(PromptCounter(tokenizer).measure_async(prompt, 128, "m"))
    began = time.perf_counter()
    turns = 0
    while not task.done():
        await asyncio.sleep(0.001)
        turns += 1
    took = time.perf_counter() - began
    assert task.result().tokens == 400_000 + 7
    # On the loop it would be one turn or two; a busy machine may give us fewer than we'd have.
    assert turns >= 5, f"{turns} turns of the loop in {took * 1000:.0f} ms"


def test_ids_come_from_memory(ring: Ring) -> None:
    tokenizer = CountingTokenizer()
    counter = PromptCounter(tokenizer)
    text = ring.window(1, 500).text()
    counter.measure(chat(text))
    before = len(tokenizer.encoded)
    assert counter.ids(text).tolist() == ring.window(1, 500).ids(0, 500)
    assert counter.ids("Hello").tolist() == tokenizer.encode("Hello")
    assert tokenizer.encoded[before:] == ["Hello", "Hello"]
