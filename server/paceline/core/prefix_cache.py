"""The prompt cache: which whole blocks of a prompt were prefilled before, and not too long ago.

A block's hash covers everything before it, so a prompt's hits are a prefix of its blocks. The
rules are OpenAI's published ones: at least so many tokens, then steps of a block.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence as Blocks

from paceline.core.profile import PrefixCache as Rules

_MOST_BLOCKS = 1 << 20


class PrefixCache:
    """Blocks by hash with the time until which they live; the longest unused goes first."""

    def __init__(self, rules: Rules, most_blocks: int = _MOST_BLOCKS) -> None:
        self.rules = rules
        self._ttl_ns = int(rules.ttl_s * 1e9)
        self._most = most_blocks
        self._until: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def hit_tokens(self, blocks: Blocks[int], prompt_tokens: int, now_ns: int) -> int:
        """Tokens of the prompt that need no prefill; always leaves at least one that does."""
        rules = self.rules
        if not rules.enabled or prompt_tokens < rules.min_tokens:
            return 0
        hits = 0
        for block in blocks:
            if self._until.get(block, 0) <= now_ns:
                break
            hits += 1
        tokens = min(hits, (prompt_tokens - 1) // rules.block_tokens) * rules.block_tokens
        return tokens if tokens >= rules.min_tokens else 0

    def store(self, blocks: Blocks[int], prompt_tokens: int, now_ns: int) -> None:
        """Keep a prefilled prompt's blocks, or keep them longer."""
        rules = self.rules
        if not rules.enabled or prompt_tokens < rules.min_tokens:
            return
        until = now_ns + self._ttl_ns
        for block in blocks:
            self._until[block] = until
            self._until.move_to_end(block)
        while len(self._until) > self._most:
            self._until.popitem(last=False)

    def write_tokens(self, prompt_tokens: int, cached_tokens: int) -> int:
        """Tokens that a prompt newly writes to the cache."""
        rules = self.rules
        if not rules.enabled or prompt_tokens < rules.min_tokens:
            return 0
        return max(prompt_tokens // rules.block_tokens * rules.block_tokens - cached_tokens, 0)
