"""A sequence: one choice's tokens on their way through an engine."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from paceline.core.acceptance import Acceptance
from paceline.core.steps import FOREVER, StepClock


class State(IntEnum):
    """Where a sequence is. It ends in exactly one of the last two, exactly once."""

    OVERHEAD = 0
    WAITING = 1
    PREFILL = 2
    DECODE = 3
    FINISHED = 4
    ABORTED = 5


class Sequence:
    """What the engine knows of a sequence. Times are ns on the driver's clock; -1: not yet.

    Token `base_token` is due at boundary `base_step` of `clock`, and those after it as
    `acceptance` says. A preempted sequence holds its first `base_token` tokens, the last of them
    since boundary `held_step`, and gets a new base step when it comes back.
    """

    __slots__ = (
        "acceptance",
        "admitted_ns",
        "base_step",
        "base_token",
        "blocks",
        "cached_tokens",
        "clock",
        "end_ns",
        "end_step",
        "engine_ns",
        "first_ns",
        "follows",
        "held_step",
        "key",
        "kv_tokens",
        "order",
        "output_tokens",
        "owner",
        "phase",
        "preemptions",
        "prompt_tokens",
        "received_ns",
        "replica_index",
        "state",
        "to_prefill",
    )

    def __init__(
        self,
        prompt_tokens: int,
        output_tokens: int,
        *,
        key: int = 0,
        blocks: tuple[int, ...] = (),
        follows: bool = False,
        owner: Any = None,
    ) -> None:
        """`follows` marks one more choice of the prompt that the sequence before it prefills."""
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.key = key
        self.blocks = blocks
        self.follows = follows
        self.owner = owner
        self.state = State.OVERHEAD
        self.order = 0
        self.replica_index = 0
        self.cached_tokens = 0
        self.to_prefill = 0
        self.kv_tokens = 0.0
        self.preemptions = 0
        self.clock: StepClock | None = None
        self.acceptance: Acceptance | None = None
        self.phase = 0
        self.base_step = FOREVER
        self.base_token = 0
        self.held_step = 0
        self.end_step = FOREVER
        self.received_ns = self.engine_ns = self.admitted_ns = -1
        self.first_ns = self.end_ns = -1

    @property
    def ended(self) -> bool:
        """Whether it finished or was aborted."""
        return self.state >= State.FINISHED

    def tokens_by(self, step: int) -> int:
        """How many tokens there are once boundary `step` of its clock has been shown."""
        ahead = step - self.base_step
        if ahead < 0:
            return self.base_token if step >= self.held_step else 0
        if self.acceptance is not None:
            ahead = self.acceptance.gained(self.phase, ahead)
        count = self.base_token + 1 + ahead
        return count if count < self.output_tokens else self.output_tokens

    def step_of(self, token: int) -> int:
        """The boundary at which `token`, at or after the base, is due."""
        ahead = token - self.base_token
        if self.acceptance is not None:
            ahead = self.acceptance.steps_for(self.phase, ahead)
        return self.base_step + ahead

    def due(self, token: int) -> int:
        """When `token` is due (ns); before the base, when the last one held was."""
        assert self.clock is not None, "a sequence that no engine has started has no due times"
        step = self.step_of(token) if token >= self.base_token else self.held_step
        return self.clock.due(step)
