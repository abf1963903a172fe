"""What is spent in virtual time: the tokens and the waiting of a trace, or of one agent's loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline.core.deployment import deploy
from paceline.core.prefix_cache import PrefixCache
from paceline.core.profile import Profile
from paceline.core.rng import mix64
from paceline.core.sequence import Sequence
from paceline.core.simulate import closed_loop
from paceline.core.sources import SOURCE_CLASSES, SourceClass
from paceline.core.usage import Usage
from paceline.simulation.arrivals import TraceWorkload
from paceline.simulation.lengths import WorkloadError
from paceline.simulation.run import run_open

_TIMING_SECTIONS = ("engine.", "overhead.", "variation.", "tenants.", "prefix_cache.")
_NOT_FELT_ALONE = (
    # What the requests of a lone user, whose cache is always fresh, can't feel.
    "engine.replicas",
    "engine.max_num_seqs",
    "engine.kv_cache_tokens",
    "prefix_cache.ttl_s",
)
_MOST_TURNS, _MOST_TOKENS = 100_000, 100_000_000


@dataclass(frozen=True, slots=True)
class Spending:
    """What one profile took. `refused` requests don't fit the model, and took nothing."""

    profile: Profile
    usages: tuple[Usage, ...]
    waited_ns: int
    """From each request to its last token, summed."""
    tools_ns: int = 0
    refused: int = 0
    alone: bool = True
    """Whether one request at a time was under way."""

    @property
    def total_ns(self) -> int:
        """Waiting and tools together."""
        return self.waited_ns + self.tools_ns

    @property
    def certainty(self) -> SourceClass:
        """The least certain class of the numbers that make the time."""
        unfelt = _NOT_FELT_ALONE if self.alone else ()
        classes = [
            source.kind
            for key in self.profile.numbers()
            if key.startswith(_TIMING_SECTIONS) and key not in unfelt
            if (source := self.profile.source(key)) is not None
        ]
        return max(classes, key=SOURCE_CLASSES.index, default="hypothesis")


@dataclass(frozen=True, slots=True)
class AgentLoop:
    """One agent that asks, runs a tool, and asks again with all that came before.

    Turn i has a prompt of `input` + i * `grow` tokens; each answer is `reasoning` tokens and then
    `output` visible ones; `tool_s` seconds pass between an answer and the next turn. A prompt
    begins with the whole of the one before it, so with `cache` the profile's prompt cache knows
    that part by its own rules. `seed` draws what is random about the waits.
    """

    turns: int = 20
    input: int = 8000
    grow: int = 1500
    output: int = 300
    reasoning: int = 200
    tool_s: float = 2.0
    cache: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what can't be. Raises WorkloadError."""
        if not 1 <= self.turns <= _MOST_TURNS:
            raise WorkloadError(f"turns must be from 1 to {_MOST_TURNS:,}")
        for name, low in (("input", 1), ("grow", 0), ("output", 0), ("reasoning", 0)):
            if not low <= getattr(self, name) <= _MOST_TOKENS:
                raise WorkloadError(f"{name} must be from {low} to {_MOST_TOKENS:,} tokens")
        if self.output + self.reasoning < 1:
            raise WorkloadError("output and reasoning together must be at least one token")
        if not 0 <= self.tool_s <= 1e6:
            raise WorkloadError("the tools' seconds must be from 0 to 1e6")

    def describe(self) -> dict[str, Any]:
        """What it is, for a report."""
        return {
            "kind": "agent loop",
            "turns": self.turns,
            "input": self.input,
            "grow": self.grow,
            "output": self.output,
            "reasoning": self.reasoning,
            "tool_s": self.tool_s,
            "cache": self.cache,
            "seed": self.seed,
        }

    def run(self, profile: Profile) -> Spending:
        """Run it on a profile. The loop ends before the first turn that the model can't take."""
        deployment = deploy(profile)
        limits, block_tokens = profile.limits, profile.prefix_cache.block_tokens
        answer, tool_ns = self.output + self.reasoning, round(self.tool_s * 1e9)
        begin = mix64(self.seed)
        turn = 0

        def next_request(_user: int, ended_ns: int) -> tuple[int, Sequence] | None:
            nonlocal turn
            prompt = self.input + turn * self.grow
            if turn == self.turns or answer > limits.max_output_tokens:
                return None
            if prompt + answer > limits.context_tokens:
                return None
            blocks = tuple(range(prompt // block_tokens)) if self.cache else ()
            key = mix64(begin + turn)
            at_ns = ended_ns + tool_ns if turn else 0
            turn += 1
            return at_ns, Sequence(prompt, answer, key=key, blocks=blocks)

        waited, usages = 0, []
        for seq in closed_loop(deployment, 1, next_request):
            waited += seq.end_ns - seq.received_ns
            written = 0
            if self.cache:
                written = deployment.cache.write_tokens(seq.prompt_tokens, seq.cached_tokens)
            usages.append(
                Usage(
                    prompt_tokens=seq.prompt_tokens,
                    completion_tokens=answer,
                    cached_tokens=seq.cached_tokens,
                    cache_write_tokens=written,
                    reasoning_tokens=self.reasoning,
                )
            )
        tools_ns = tool_ns * max(turn - 1, 0)
        return Spending(profile, tuple(usages), waited, tools_ns, self.turns - turn)


def spend_trace(profile: Profile, workload: TraceWorkload, *, seed: int = 0) -> Spending:
    """Run a trace on a profile. A trace without prompt blocks reads and writes no cache."""
    run = run_open(profile, workload, seed=seed)
    cache = PrefixCache(profile.prefix_cache)
    with_blocks = workload.trace.block_tokens > 0
    usages = tuple(
        Usage(
            prompt_tokens=prompt,
            completion_tokens=output,
            cached_tokens=cached,
            cache_write_tokens=cache.write_tokens(prompt, cached) if with_blocks else 0,
        )
        for prompt, output, cached in zip(run.prompt, run.output, run.cached, strict=True)
    )
    return Spending(profile, usages, sum(run.end) - sum(run.received), 0, run.refused, alone=False)
