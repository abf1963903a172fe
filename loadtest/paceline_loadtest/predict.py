"""Loops run in virtual time, on the model that the server runs: what a load test should say.

A prediction is as good as the profile: prompts are counted as the server counts them, loops that
run at once share a batch, and each prompt finds in the prefix cache what the ones before it left.
Where a profile has random waits they are drawn, by keys of the loop's own: the server draws others
by the content of its requests, so of those only the distribution is the same. Of the client it
knows one number, what a call costs beyond the server's waiting, which is measured on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.core.deployment import deploy
from paceline.core.profile import Profile
from paceline.core.rng import hash64, mix64
from paceline.core.sequence import Sequence as Request
from paceline_loadtest.model import (
    Call,
    Dialect,
    Loop,
    LoopRun,
    ServerPart,
    ToolRun,
    ToolSpan,
    Turn,
    TurnRun,
)
from paceline_loadtest.prompts import prompt_tokens, shared_tokens
from paceline_loadtest.scenario import OnError
from paceline_loadtest.virtual import Process, VirtualTime

_NS = 1e9
REFUSED = "context_length_exceeded: the model's limits don't allow this request"
"""What a predicted call that the server would refuse has for an error."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How loops are run, beside what is in them.

    `client_s` is what a call costs beyond the server's waiting (seconds, from 0). It passes before
    the request is received, and is the `client` part of a breakdown. Without `shows_reasoning`,
    which is what a server does unless it is told otherwise, the first content that a client sees
    is the first visible one.
    """

    dialect: Dialect = "chat"
    stream: bool = True
    on_error: OnError = "stop"
    client_s: float = 0.0
    shows_reasoning: bool = False


DEFAULT_TERMS = Terms()


def predict(
    loops: Sequence[Loop],
    profile: Profile,
    terms: Terms = DEFAULT_TERMS,
    *,
    users: int = 1,
    think_s: float = 0.0,
    starts: Sequence[float] | None = None,
) -> list[LoopRun]:
    """Run loops on a profile that nobody else uses and whose cache is empty; one run a loop.

    `users` take the loops in order, each the next one `think_s` after it has ended its own. With
    `starts` loop i begins at that many seconds instead, whatever the others do. Times in the runs
    are seconds from the beginning; the runs are in the order of the loops.

    Raises ValueError for `users` below 1, and for another number of `starts` than of loops.
    """
    if users < 1:
        raise ValueError("there must be at least one user")
    if starts is not None and len(starts) != len(loops):
        raise ValueError(f"there are {len(starts)} starts for {len(loops)} loops")
    agents = _Agents(profile, terms)
    found: dict[int, LoopRun] = {}
    left = iter(enumerate(loops))

    def user() -> Process[None]:
        due_ns = 0
        for number, loop in left:
            yield due_ns
            found[number] = yield from agents.loop(loop)
            due_ns = agents.time.now_ns + round(think_s * _NS)

    def single(number: int) -> Process[None]:
        found[number] = yield from agents.loop(loops[number])

    if starts is None:
        for _ in range(min(users, len(loops))):
            agents.time.start(user())
    else:
        for number, at_s in enumerate(starts):
            agents.time.start(single(number), round(at_s * _NS))
    agents.time.run()
    return [found[number] for number in range(len(loops))]


def varies(profile: Profile) -> bool:
    """Whether a profile has waits that are drawn, so that no two runs need be alike."""
    overhead, tenants = profile.overhead, profile.tenants
    pairs = (
        (overhead.api_ms_p50, overhead.api_ms_p90),
        (tenants.queue_ms_p50, tenants.queue_ms_p90),
    )
    return any(p90 > p50 for p50, p90 in pairs)


class _Agents:
    """Loops as processes on one deployment."""

    def __init__(self, profile: Profile, terms: Terms) -> None:
        self.profile = profile
        self.terms = terms
        websocket = terms.dialect == "responses-websocket"
        deployment = deploy(profile, keep_history=True)
        self.time = VirtualTime(deployment, "websocket" if websocket else "http")

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return self.time.now_ns / _NS

    def loop(self, loop: Loop) -> Process[LoopRun]:
        """A loop from its first request to its end."""
        run = LoopRun(loop, self.now)
        prompts = list(prompt_tokens(loop, self.terms.dialect))
        blocks = self._blocks(loop, prompts[-1])
        for number, turn in enumerate(loop.turns):
            turn_run = TurnRun(self.now, Call(self.now))
            run.turns.append(turn_run)
            if turn.think_s:
                yield self._after(turn.think_s)
            key = hash64("predict", loop.id, loop.seed, number)
            yield from self._call(turn_run.call, turn, prompts[number], blocks, key)
            if turn_run.call.error is not None and self.terms.on_error == "stop":
                turn_run.ended_at = self.now
                run.stopped = turn_run.call.error
                break
            yield from self._tools(turn_run, turn)
            turn_run.ended_at = self.now
        run.ended_at = self.now
        return run

    def _after(self, seconds: float) -> int:
        return self.time.now_ns + round(seconds * _NS)

    def _blocks(self, loop: Loop, most: int) -> tuple[int, ...]:
        """The hashes of the longest prompt's blocks; a shorter one's are the first of them."""
        size = self.profile.prefix_cache.block_tokens
        common = shared_tokens(loop, self.terms.dialect) // size
        alike = hash64(loop.system_tokens, loop.tools_defined, loop.tool_definition_tokens)
        own = hash64(loop.id, loop.seed)
        return tuple(mix64((alike if i < common else own) + i) for i in range(most // size))

    def _call(
        self, call: Call, turn: Turn, prompt: int, blocks: tuple[int, ...], key: int
    ) -> Process[None]:
        """One request, from when it should be made to the last of its answer."""
        call.scheduled_at = call.slot_at = self.now
        yield self._after(self.terms.client_s)
        call.sent_at = self.now
        call.prompt_tokens = prompt
        output = self._allowed(prompt, turn.reasoning_tokens + turn.output_tokens)
        if not output:
            call.status, call.error, call.end_at = 400, REFUSED, self.now
            return
        size = self.profile.prefix_cache.block_tokens
        seq = Request(prompt, output, key=key, blocks=blocks[: prompt // size])
        yield seq
        self._note(call, seq, min(turn.reasoning_tokens, output))

    def _note(self, call: Call, seq: Request, reasoning: int) -> None:
        output = seq.output_tokens
        # One that was preempted has forgotten when exactly its first tokens were shown.
        first = (seq.first_ns if seq.preemptions else seq.due(0)) / _NS
        last = self.now
        call.status = 200
        call.first_at = first
        call.last_at = call.end_at = last
        if not reasoning:
            call.first_visible_at = first
        elif reasoning < output:
            call.first_visible_at = seq.due(reasoning) / _NS
        if not self.terms.stream:
            call.first_at = call.first_visible_at = last
        elif not self.terms.shows_reasoning:
            call.first_at = call.first_visible_at
        call.cached_tokens = seq.cached_tokens
        call.output_tokens, call.reasoning_tokens = output, reasoning
        call.server = ServerPart(
            overhead_s=(seq.engine_ns - seq.received_ns) / _NS,
            queue_s=(seq.admitted_ns - seq.engine_ns) / _NS,
            prefill_s=first - seq.admitted_ns / _NS,
            decode_s=last - first,
            profile=self.profile.name,
        )

    def _allowed(self, prompt: int, wanted: int) -> int:
        """How many tokens the server answers with; 0 where it refuses the request."""
        limits, engine = self.profile.limits, self.profile.engine
        if prompt >= limits.context_tokens:
            return 0
        output = min(wanted, limits.max_output_tokens, limits.context_tokens - prompt)
        room = engine.kv_cache_tokens if self.profile.kind == "engine" else 0
        return 0 if room and prompt + output > room else output

    def _tools(self, turn_run: TurnRun, turn: Turn) -> Process[None]:
        """The tools of a turn, side by side or one after another."""
        if turn.parallel:
            turn_run.tools += yield [self._tool(tool) for tool in turn.tools]
            return
        for tool in turn.tools:
            turn_run.tools.append((yield from self._tool(tool)))

    def _tool(self, tool: ToolRun) -> Process[ToolSpan]:
        """A tool; its sub-agents first, where it has some."""
        begun = self.now
        runs: list[LoopRun] = []
        if tool.agents:
            runs = yield [self.loop(agent) for agent in tool.agents]
        yield self._after(tool.seconds)
        return ToolSpan(tool.name, begun, self.now, runs)
