"""What an answer comes to: its tokens, and where its time went.

`received_ns` is when its request came, `begun_ns` when its first token left, 0 before that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Sequence as Seqs

from paceline.core.ledger import Times
from paceline.core.plan import Plan
from paceline.core.prefix_cache import PrefixCache
from paceline.core.sequence import Sequence
from paceline.core.usage import Usage
from paceline.runtime.sink import Timing


def whole_usage(plan: Plan, seqs: Seqs[Sequence], cache: PrefixCache | None) -> Usage:
    """All of it; what was cached is known once its prefill has begun."""
    _, cached, written = _prompts(plan, seqs, cache)
    return Usage(
        prompt_tokens=plan.prompt_tokens,
        completion_tokens=plan.completion_tokens,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=plan.reasoning_tokens,
    )


def sent_usage(
    plan: Plan,
    seqs: Seqs[Sequence],
    cache: PrefixCache | None,
    sent: Iterable[int],
    now_ns: int,
) -> Usage:
    """What has left: prompts whose prefill is over, and `sent` tokens of each choice.

    A choice's reasoning leaves first.
    """
    read = [seq for seq in seqs if 0 <= seq.first_ns <= now_ns]
    prompt, cached, written = _prompts(plan, read, cache)
    output = reasoning = 0
    for tokens, choice in zip(sent, plan.choices, strict=True):
        output += tokens
        reasoning += min(tokens, choice.reasoning_tokens)
    return Usage(prompt, output, cached, written, reasoning)


def _prompts(
    plan: Plan, seqs: Iterable[Sequence], cache: PrefixCache | None
) -> tuple[int, int, int]:
    """Tokens of the sequences' prompts, of these those read from the cache and written to it."""
    prompt = cached = written = 0
    for seq in seqs:
        if seq.follows:
            continue
        prompt += seq.prompt_tokens
        if cache is not None:
            cached += seq.cached_tokens
            if plan.request.cached:
                written += cache.write_tokens(seq.prompt_tokens, seq.cached_tokens)
    return prompt, cached, written


def timing(seqs: Seqs[Sequence], received_ns: int, begun_ns: int, now_ns: int) -> Timing:
    """Where the time went up to now, by the choice that came first; one of them has to be there."""
    seq = min(seqs, key=first_ns)
    end_ns = max(s.end_ns for s in seqs)
    return Timing(
        overhead_s=(seq.engine_ns - received_ns) / 1e9,
        queue_s=(seq.admitted_ns - seq.engine_ns) / 1e9,
        prefill_s=(seq.first_ns - seq.admitted_ns) / 1e9,
        decode_s=max(end_ns - seq.first_ns, 0) / 1e9,
        ttft_s=((begun_ns or seq.first_ns) - received_ns) / 1e9,
        total_s=(now_ns - received_ns) / 1e9,
    )


def times(seqs: Seqs[Sequence], received_ns: int, begun_ns: int, now_ns: int) -> Times:
    """The same in whole nanoseconds for the ledger, as far as the answer got."""
    seq = min(seqs, key=first_ns)
    if seq.first_ns < 0:
        return Times(total_ns=now_ns - received_ns)
    decoded_ns = max(s.end_ns for s in seqs) - seq.first_ns
    return Times(
        (begun_ns or seq.first_ns) - received_ns,
        seq.admitted_ns - seq.engine_ns,
        seq.first_ns - seq.admitted_ns,
        max(decoded_ns, 0),
        now_ns - received_ns,
    )


def first_ns(seq: Sequence) -> float:
    """When a sequence's first token came; one without any comes last."""
    return seq.first_ns if seq.first_ns >= 0 else math.inf
