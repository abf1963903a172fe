"""Speculative decoding: how many tokens each step yields, as a fixed pattern.

Of K drafted tokens a step keeps the accepted beginning and adds one of its own, so it yields 1 to
K + 1 tokens. With each draft accepted with probability p after those before it, the mean is
1 + p + p^2 + … + p^K (Leviathan et al. 2023, eq. 1); p is chosen to meet the profile's mean.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import accumulate

from paceline.core.rng import mix64, unit

_PERIOD = 2048
_BLOCK = 32
"""Steps over which the mean is kept exactly, so that no stretch of the pattern runs far from it."""


class Acceptance:
    """Tokens gained over steps, for sequences that each start somewhere in one long pattern."""

    __slots__ = ("_sums", "_total", "uniform")

    def __init__(self, tokens_per_step: float, draft_tokens: int, seed: int = 0) -> None:
        """`tokens_per_step` is the mean, from 1 to `draft_tokens` + 1."""
        self.uniform = tokens_per_step == 1.0
        pattern = [1] * _PERIOD
        if not self.uniform:
            chance = _chance(tokens_per_step, draft_tokens)
            pattern = []
            for start in range(0, _PERIOD, _BLOCK):
                block = [_draw(chance, draft_tokens, seed + start + i) for i in range(_BLOCK)]
                total = round(tokens_per_step * (start + _BLOCK)) - sum(pattern)
                _settle(block, total, draft_tokens + 1, seed + start)
                pattern += block
        self._sums = list(accumulate(pattern, initial=0))
        self._total = self._sums[-1]

    def gained(self, phase: int, steps: int) -> int:
        """Tokens of `steps` steps for a sequence that starts at `phase`."""
        return steps if self.uniform else self._sum(phase + steps) - self._sum(phase)

    def steps_for(self, phase: int, tokens: int) -> int:
        """The fewest steps that yield at least `tokens` tokens from `phase` on."""
        if self.uniform or tokens <= 0:
            return max(tokens, 0)
        periods, rest = divmod(self._sum(phase) + tokens - 1, self._total)
        return periods * _PERIOD + bisect_left(self._sums, rest + 1) - phase

    def phase(self, key: int) -> int:
        """Where in the pattern a sequence with this key starts."""
        return 0 if self.uniform else mix64(key) % _PERIOD

    def _sum(self, steps: int) -> int:
        periods, rest = divmod(steps, _PERIOD)
        return periods * self._total + self._sums[rest]


@lru_cache(64)
def acceptance(tokens_per_step: float, draft_tokens: int) -> Acceptance:
    """The pattern of a profile, made once for all of its replicas."""
    return Acceptance(tokens_per_step, draft_tokens)


def _chance(mean: float, draft_tokens: int) -> float:
    """The acceptance probability whose mean yield is `mean`, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        if sum(p**k for k in range(draft_tokens + 1)) < mean:
            low = p
        else:
            high = p
    return high


def _draw(chance: float, draft_tokens: int, key: int) -> int:
    tokens, u = 1, unit(key)
    while tokens <= draft_tokens and u < chance**tokens:
        tokens += 1
    return tokens


def _settle(block: list[int], total: int, most: int, seed: int) -> None:
    """Move single steps up or down until the block's sum is the mean's."""
    missing = total - sum(block)
    change = 1 if missing > 0 else -1
    i = 0
    while missing:
        at = mix64(seed ^ (0x5DEECE66D + i)) % len(block)
        if 1 <= block[at] + change <= most:
            block[at] += change
            missing -= change
        i += 1
