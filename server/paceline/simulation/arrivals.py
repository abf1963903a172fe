"""What arrives and when: a recorded trace, or a process that is drawn.

Requests are made one by one as the run asks for them; a trace is kept in compact arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from paceline.core.profile import Profile
from paceline.core.rng import mix64
from paceline.simulation.lengths import Length, WorkloadError

Job = tuple[int, int, int, tuple[int, ...]]
"""When a request arrives (ns from the start), prompt tokens, output tokens, prompt blocks."""

_PROMPT_LENGTH, _OUTPUT_LENGTH = 0x1E46, 0x0D7A


class Workload(Protocol):
    """A source of requests, the same ones each time it is asked."""

    def jobs(self, profile: Profile) -> Iterator[Job]:
        """The requests in order of arrival; blocks are of the profile's block size."""
        ...

    def describe(self) -> dict[str, Any]:
        """What it is, for a report."""
        ...


class Trace:
    """Recorded requests, in order of time, in 24 bytes each and 8 a prompt block.

    An id of a prompt block stands for all of the prompt up to the block's end.
    """

    def __init__(self, block_tokens: int = 0) -> None:
        """`block_tokens` is how many tokens a block of the trace covers; 0: it has none."""
        self.block_tokens = block_tokens
        self._numbers: dict[int, int] = {}
        """The ids, each with a small number to stand for it: small ones are cheap to keep."""
        self._at = array("q")
        self._prompt = array("q")
        self._output = array("q")
        self._ids = array("q")
        self._ids_end = array("q")

    def __len__(self) -> int:
        return len(self._at)

    @property
    def span_ns(self) -> int:
        """From the first arrival to the last."""
        return self._at[-1] - self._at[0] if self._at else 0

    def add(self, at_ns: int, prompt: int, output: int, ids: tuple[int, ...] = ()) -> None:
        """Note one request. An answer without a token still takes the step of its first."""
        self._at.append(at_ns)
        self._prompt.append(max(prompt, 1))
        self._output.append(max(output, 1))
        if self.block_tokens:
            numbers = self._numbers
            self._ids.extend([numbers.setdefault(i, len(numbers)) for i in ids])
            self._ids_end.append(len(self._ids))

    def in_order(self) -> Trace:
        """This trace, or a copy of it in order of time where it isn't; ties stay as they are."""
        at = self._at
        if all(at[i] <= at[i + 1] for i in range(len(at) - 1)):
            return self
        copy = Trace(self.block_tokens)
        for i in sorted(range(len(at)), key=at.__getitem__):
            copy.add(at[i], self._prompt[i], self._output[i], tuple(self._block_ids(i)))
        return copy

    def jobs(
        self,
        block_tokens: int,
        *,
        speedup: float = 1.0,
        repeat: int = 1,
        limit: int | None = None,
    ) -> Iterator[Job]:
        """The requests from time 0 on, `repeat` times over, `limit` at most in all.

        A repetition begins one mean gap after the last arrival of the one before it. Its prompts
        are new ones: they share blocks among each other, with no other repetition's.
        """
        count = len(self)
        first = self._at[0] if count else 0
        period = self.span_ns + (self.span_ns // (count - 1) if count > 1 else 1_000_000_000)
        left = count * repeat if limit is None else min(limit, count * repeat)
        at, prompts, outputs = self._at, self._prompt, self._output
        with_blocks = self.block_tokens > 0
        for turn in range(repeat):
            offset = turn * period - first
            for i in range(min(count, left)):
                at_ns = at[i] + offset
                blocks = self._blocks(i, block_tokens, turn) if with_blocks else ()
                yield (
                    at_ns if speedup == 1.0 else int(at_ns / speedup),
                    prompts[i],
                    outputs[i],
                    blocks,
                )
            left -= count
            if left <= 0:
                return

    def _block_ids(self, i: int) -> array[int]:
        if not self.block_tokens:
            return self._ids
        return self._ids[self._ids_end[i - 1] if i else 0 : self._ids_end[i]]

    def _blocks(self, i: int, size: int, turn: int) -> tuple[int, ...]:
        """The prompt's whole blocks of `size` tokens.

        A block is known to be the same as another where the ids under their last tokens are, and
        their places in the prompt.
        """
        ids, own = self._block_ids(i), self.block_tokens
        whole = min(self._prompt[i], len(ids) * own) // size
        first = turn * len(self._numbers)
        parts, rest = divmod(own, size)
        if not rest:
            # Whole blocks of ours make up one of theirs: each gets a run of numbers.
            numbers = [n for j in ids for n in range((first + j) * parts, (first + j + 1) * parts)]
            return tuple(numbers[:whole])
        last = (((k + 1) * size - 1) // own for k in range(whole))
        return tuple([(first + ids[j]) << 24 | k for k, j in enumerate(last)])


@dataclass(frozen=True, slots=True)
class TraceWorkload:
    """A trace, faster or slower than it was, once or several times."""

    trace: Trace
    name: str
    speedup: float = 1.0
    repeat: int = 1
    limit: int | None = None

    def jobs(self, profile: Profile) -> Iterator[Job]:
        """The requests in order of arrival."""
        return self.trace.jobs(
            profile.prefix_cache.block_tokens,
            speedup=self.speedup,
            repeat=self.repeat,
            limit=self.limit,
        )

    def describe(self) -> dict[str, Any]:
        """What it is, for a report."""
        return {
            "kind": "trace",
            "name": self.name,
            "requests_in_trace": len(self.trace),
            "speedup": self.speedup,
            "repeat": self.repeat,
            "limit": self.limit,
        }


@dataclass(frozen=True, slots=True)
class Drawn:
    """Requests with drawn lengths, `requests` of them.

    With a `rate` (requests a second) they come by themselves, their gaps drawn from a gamma
    distribution of shape `burstiness` and mean 1 / rate, which is how vLLM's `bench serve` defines
    it: 1 is a Poisson process, less is burstier, more is steadier. Without a rate all could come
    at once: it is for users who ask when their last answer has ended.
    """

    prompt: Length
    output: Length
    requests: int
    seed: int = 0
    rate: float | None = None
    burstiness: float = 1.0
    reasoning_effort: str | None = None

    def __post_init__(self) -> None:
        if self.requests < 1:
            raise WorkloadError("the number of requests must be at least 1")
        if self.rate is not None and not 0 < self.rate <= 1e9:
            raise WorkloadError("the rate must be above 0 and at most 1e9 requests a second")
        if not 0 < self.burstiness <= 1e9:
            raise WorkloadError("burstiness must be above 0 and at most 1e9")

    def jobs(self, profile: Profile) -> Iterator[Job]:
        """The requests in order of arrival; the profile's reasoning tokens come on top."""
        thinking = 0
        if self.reasoning_effort is not None:
            thinking = profile.reasoning.tokens(self.reasoning_effort)
        gap = _gaps(self.rate, self.burstiness, self.seed)
        prompt_key, output_key = (
            mix64(self.seed ^ _PROMPT_LENGTH),
            mix64(self.seed ^ _OUTPUT_LENGTH),
        )
        at_s = 0.0
        for i in range(self.requests):
            at_s += next(gap)
            prompt = self.prompt.draw(prompt_key + i)
            yield int(at_s * 1e9), prompt, self.output.draw(output_key + i) + thinking, ()

    def describe(self) -> dict[str, Any]:
        """What it is, for a report."""
        about: dict[str, Any] = {
            "kind": "drawn",
            "input": str(self.prompt),
            "output": str(self.output),
            "requests": self.requests,
            "seed": self.seed,
        }
        if self.rate is not None:
            about |= {"rate": self.rate, "burstiness": self.burstiness}
        if self.reasoning_effort is not None:
            about["reasoning_effort"] = self.reasoning_effort
        return about


def _gaps(rate: float | None, burstiness: float, seed: int) -> Iterator[float]:
    """Seconds between arrivals. For another rate the same gaps come, longer or shorter."""
    random = Random(seed)
    while True:
        if rate is None:
            yield 0.0
        elif burstiness == 1.0:
            yield random.expovariate(1.0) / rate
        else:
            yield random.gammavariate(burstiness, 1.0 / burstiness) / rate
