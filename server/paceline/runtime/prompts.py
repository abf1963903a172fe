"""Prompts, counted once a message and hashed once a block.

An agent's loop sends its whole history again each turn. What was seen before is found again by
its hash, so a turn costs by the number of its messages and by the size of what is new.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from paceline.core.errors import PlanError
from paceline.core.plan import PromptPlan
from paceline.core.request import ChatPrompt, Prompt, TextPrompt
from paceline.core.rng import hash64
from paceline.runtime.lru import ByteLRU
from paceline.runtime.tokenizer import Tokenizer

LONG_TEXT = 50_000
"""Characters not seen before from which on they are encoded off the event loop: some 3 ms."""

LONG_PROMPT = 1_000_000
"""Characters from which on even their hashing happens there: about a millisecond."""

# A text up to this many characters is its own key; a longer one's is its hash.
_SHORT_TEXT = 256

# Stand-ins for the chat format's own tokens and for what has no text; above every real id. With
# them a message costs 3 tokens and its role's, and the reply is primed with 3: the recipe of
# OpenAI's cookbook for its chat models ("How to count tokens with tiktoken").
_START, _SEPARATOR, _END, _FIXED = range(1 << 31, (1 << 31) + 4)
_REPLY_ROLE = "assistant"

# What a memo's entry takes beside its payload, in bytes: key, tuple, digest, array, dict slot.
_ENTRY_BYTES = 600
_BLOCK_BYTES = 40


@dataclass(frozen=True, slots=True)
class _Part:
    """A message, or a prompt that has none; `role` is None where there is no chat format."""

    role: str | None
    fixed_tokens: int
    text: str
    key: str | bytes
    ids: array[int] | None = None


@dataclass(frozen=True, slots=True)
class _State:
    """A prompt up to and with some part.

    `content` is a hash of all of it; `chain` that of its last whole block; `tail` are the tokens
    after it. `blocks` are those that the last part completed.
    """

    content: bytes
    tokens: int
    chain: int
    tail: array[int]
    blocks: tuple[int, ...] = ()


class PromptCounter:
    """Measures prompts, with a memory of at most `cache_bytes` of those before.

    Not thread-safe: to be used on the event loop, from which it takes long work by itself.
    """

    def __init__(self, tokenizer: Tokenizer, cache_bytes: int = 64 << 20) -> None:
        self._tokenizer = tokenizer
        self._roles: dict[str, array[int]] = {}
        self._ids: ByteLRU[str | bytes, array[int]] = ByteLRU(cache_bytes // 2)
        self._states: ByteLRU[tuple[object, ...], _State] = ByteLRU(cache_bytes // 2)

    @property
    def memory_bytes(self) -> int:
        """What the memory of earlier prompts takes, roughly."""
        return self._ids.bytes + self._states.bytes

    def measure(
        self, prompt: Prompt, block_tokens: int = 0, salt: str = "", *, keep_text: bool = False
    ) -> PromptPlan:
        """Count a prompt and hash its prefix-cache blocks.

        Two prompts with the same `salt` whose first k whole blocks of `block_tokens` tokens are
        equal have the same first k hashes, and differ from the first block on that differs. With
        `block_tokens` 0 there are no blocks. The text stays in the plan with `keep_text`.

        Raises PlanError for a token id that o200k_base doesn't have.
        """
        scope = (block_tokens, salt)
        blocks: list[int] = []
        state, rest = self._recall(self._parts(prompt), scope, blocks)
        if rest:
            ids = self._recall_ids(rest)
            made = self._extend(state, rest, ids, block_tokens)
            state = self._remember(state, rest, made, scope, blocks)
            self._remember_ids(rest, ids)
        return self._plan(prompt, state, blocks, block_tokens, keep_text)

    async def measure_async(
        self, prompt: Prompt, block_tokens: int = 0, salt: str = "", *, keep_text: bool = False
    ) -> PromptPlan:
        """`measure`, with whatever takes long in a thread, so that the event loop goes on."""
        if _characters(prompt) < LONG_TEXT:
            return self.measure(prompt, block_tokens, salt, keep_text=keep_text)
        if _characters(prompt) < LONG_PROMPT:
            parts = self._parts(prompt)
        else:
            parts = await asyncio.to_thread(self._parts, prompt)
        scope = (block_tokens, salt)
        blocks: list[int] = []
        state, rest = self._recall(parts, scope, blocks)
        if rest:
            ids = self._recall_ids(rest)
            if sum(len(part.text) for part in rest) < LONG_TEXT:
                made = self._extend(state, rest, ids, block_tokens)
            else:
                made = await asyncio.to_thread(self._extend, state, rest, ids, block_tokens)
            state = self._remember(state, rest, made, scope, blocks)
            self._remember_ids(rest, ids)
        return self._plan(prompt, state, blocks, block_tokens, keep_text)

    def count(self, text: str) -> int:
        """The number of tokens of a bare text."""
        return self.measure(TextPrompt(text)).tokens

    def ids(self, text: str) -> array[int]:
        """The token ids of a text, from memory where a message had it."""
        key = _key(text)
        found = self._ids.get(key)
        return array("I", self._tokenizer.encode(text)) if found is None else found

    def _parts(self, prompt: Prompt) -> list[_Part]:
        if isinstance(prompt, ChatPrompt):
            return [
                _Part(m.role, m.fixed_tokens + self._name_tokens(m.name), m.text, _key(m.text))
                for m in prompt.messages
            ]
        if isinstance(prompt, TextPrompt):
            return [_Part(None, 0, prompt.text, _key(prompt.text))]
        size = self._tokenizer.vocabulary_size
        if prompt.ids and (min(prompt.ids) < 0 or max(prompt.ids) >= size):
            raise PlanError(
                f"A token id in the prompt is not in the vocabulary: ids go from 0 to {size - 1}.",
                "prompt",
                "invalid_value",
            )
        ids = array("I", prompt.ids)
        return [_Part(None, 0, "", b"ids" + blake2b(ids, digest_size=16).digest(), ids)]

    def _recall(
        self, parts: list[_Part], scope: tuple[int, str], blocks: list[int]
    ) -> tuple[_State, list[_Part]]:
        """How far the prompt is known: the state there and the parts after it; adds blocks."""
        state = _State(b"", 0, hash64(scope[1]) if scope[0] else 0, array("I"))
        recall = self._states.get
        for at, part in enumerate(parts):
            found = recall((scope, state.content, part.role, part.fixed_tokens, part.key))
            if found is None:
                return state, parts[at:]
            state = found
            blocks += state.blocks
        return state, []

    def _recall_ids(self, parts: Sequence[_Part]) -> dict[str | bytes, array[int]]:
        found = {}
        for part in parts:
            ids = part.ids or self._ids.get(part.key)
            if ids is not None:
                found[part.key] = ids
        return found

    def _remember_ids(
        self, parts: Sequence[_Part], known: Mapping[str | bytes, array[int]]
    ) -> None:
        for part in parts:
            # A short text is encoded again as fast as it is found.
            if len(part.text) > _SHORT_TEXT:
                ids = known[part.key]
                self._ids.put(part.key, ids, _ENTRY_BYTES + ids.itemsize * len(ids))

    def _extend(
        self,
        state: _State,
        parts: Sequence[_Part],
        known: dict[str | bytes, array[int]],
        block_tokens: int,
    ) -> list[_State]:
        """The state after each part; adds to `known` the ids of those it doesn't hold."""
        made: list[_State] = []
        for part in parts:
            ids = known.get(part.key)
            if ids is None:
                ids = known[part.key] = array("I", self._tokenizer.encode(part.text))
            tokens = len(ids) + part.fixed_tokens
            role_ids = None if part.role is None else self._role_ids(part.role)
            if role_ids is not None:
                tokens += 3 + len(role_ids)
            chain, tail = state.chain, state.tail
            blocks: tuple[int, ...] = ()
            if block_tokens:
                line = tail[:]
                if role_ids is not None:
                    line.append(_START)
                    line += role_ids
                    line.append(_SEPARATOR)
                line += ids
                line.extend([_FIXED] * part.fixed_tokens)
                if role_ids is not None:
                    line.append(_END)
                blocks, tail = _hash_blocks(chain, line, block_tokens)
                chain = blocks[-1] if blocks else chain
            content = _content(state.content, part)
            state = _State(content, state.tokens + tokens, chain, tail, blocks)
            made.append(state)
        return made

    def _remember(
        self,
        state: _State,
        parts: Sequence[_Part],
        made: Sequence[_State],
        scope: tuple[int, str],
        blocks: list[int],
    ) -> _State:
        for part, after in zip(parts, made, strict=True):
            key = (scope, state.content, part.role, part.fixed_tokens, part.key)
            size = _ENTRY_BYTES + _BLOCK_BYTES * len(after.blocks) + 4 * len(after.tail)
            self._states.put(key, after, size)
            state = after
            blocks += state.blocks
        return state

    def _plan(
        self, prompt: Prompt, state: _State, blocks: list[int], block_tokens: int, keep_text: bool
    ) -> PromptPlan:
        tokens = state.tokens
        if isinstance(prompt, ChatPrompt):
            role_ids = self._role_ids(_REPLY_ROLE)
            tokens += 2 + len(role_ids)
            if block_tokens and tokens // block_tokens > len(blocks):
                line = state.tail + array("I", (_START, *role_ids, _SEPARATOR))
                blocks += _hash_blocks(state.chain, line, block_tokens)[0]
        text = self._text(prompt) if keep_text else ""
        digest = int.from_bytes(state.content[:8], "little")
        return PromptPlan(tokens, tuple(blocks), text, digest)

    def _text(self, prompt: Prompt) -> str:
        if isinstance(prompt, ChatPrompt):
            return "\n".join(message.text for message in prompt.messages)
        return prompt.text if isinstance(prompt, TextPrompt) else self._tokenizer.decode(prompt.ids)

    def _name_tokens(self, name: str) -> int:
        """A name costs its own tokens and one more (the recipe's `tokens_per_name`)."""
        return 1 + len(self._tokenizer.encode(name)) if name else 0

    def _role_ids(self, role: str) -> array[int]:
        ids = self._roles.get(role)
        if ids is None:
            ids = array("I", self._tokenizer.encode(role))
            if len(self._roles) < 64:
                self._roles[role] = ids
        return ids


def _characters(prompt: Prompt) -> int:
    if isinstance(prompt, ChatPrompt):
        return sum([len(message.text) for message in prompt.messages])
    return len(prompt.text) if isinstance(prompt, TextPrompt) else 0


def _key(text: str) -> str | bytes:
    if len(text) <= _SHORT_TEXT:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _content(before: bytes, part: _Part) -> bytes:
    role = (part.role or "").encode("utf-8", "surrogatepass")
    key = part.key if isinstance(part.key, bytes) else part.key.encode("utf-8", "surrogatepass")
    whole = b"%b%d:%b%d:%d:%b" % (
        before,
        -1 if part.role is None else len(role),
        role,
        part.fixed_tokens,
        isinstance(part.key, bytes),
        key,
    )
    return blake2b(whole, digest_size=16).digest()


def _hash_blocks(
    chain: int, ids: array[int], block_tokens: int
) -> tuple[tuple[int, ...], array[int]]:
    """The hashes of the whole blocks of `ids`, each over the one before, and what is left."""
    whole = len(ids) // block_tokens * block_tokens
    if not whole:
        return (), ids
    data = ids.tobytes()
    width = block_tokens * ids.itemsize
    link = chain.to_bytes(8, "little")
    hashes: list[int] = []
    for at in range(0, whole * ids.itemsize, width):
        link = blake2b(link + data[at : at + width], digest_size=8).digest()
        hashes.append(int.from_bytes(link, "little"))
    return tuple(hashes), ids[whole:]
