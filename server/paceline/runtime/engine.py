"""The server's engine room: profiles at work, and the way from a request to an answer under way.

No HTTP here: a request comes parsed, and its answer goes to a `Sink`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from paceline.core.deployment import Transport
from paceline.core.encode import StreamEncoder
from paceline.core.errors import PlanError
from paceline.core.logprobs import TokenLogprob
from paceline.core.plan import ChoicePlan, Plan, PromptPlan
from paceline.core.profile import Profile
from paceline.core.request import ChatPrompt, GenerationRequest
from paceline.core.steps import NS_PER_MS
from paceline.runtime.admission import Admitted, NoLedger
from paceline.runtime.clock import Clock
from paceline.runtime.deployments import Deployments
from paceline.runtime.keys import Keys
from paceline.runtime.ledger.interface import Ledger
from paceline.runtime.limits import Limits
from paceline.runtime.logprobs import LogprobSource
from paceline.runtime.metrics import Metrics, ProfileMetrics
from paceline.runtime.pacer import Pacer
from paceline.runtime.planner import Planner
from paceline.runtime.price_book import PriceBook
from paceline.runtime.profile_files import ProfileRegistry
from paceline.runtime.prompts import PromptCounter
from paceline.runtime.records import RecordStore, RequestRecord
from paceline.runtime.scripts import Scripts, load_scripts
from paceline.runtime.settings import Settings
from paceline.runtime.sink import Sink
from paceline.runtime.stream import Answer
from paceline.runtime.text import Ring
from paceline.runtime.tiers import Service, Tiers
from paceline.runtime.tokenizer import Tokenizer

_LEAST_STEP_MS = 0.001


class LiveEngine:
    """Everything between a parsed request and its paced bytes. Lives on the event loop."""

    def __init__(
        self,
        settings: Settings,
        registry: ProfileRegistry,
        clock: Clock,
        ledger: Ledger | None = None,
    ) -> None:
        """Loads the vocabulary, which takes some tenths of a second, and the scripts.

        Without a ledger nothing is written down, and everybody can pay. Raises ScriptError,
        KeyFileError and RateFileError.
        """
        self.settings = settings
        self.registry = registry
        self.clock = clock
        self.tokenizer = Tokenizer()
        ring = Ring(self.tokenizer)
        self.counter = PromptCounter(self.tokenizer)
        self.scripts = Scripts(load_scripts(settings.scripts)) if settings.scripts else None
        self.planner, self._patient = (
            Planner(
                self.tokenizer,
                ring,
                counter,
                tool_calls_per_turn=settings.tool_calls_per_turn,
                scripts=self.scripts,
            )
            for counter in (self.counter, PromptCounter(self.tokenizer, 0))
        )
        self._long_plans = asyncio.Lock()
        self.metrics = Metrics()
        self.deployments = Deployments(clock, self.metrics)
        self.records = RecordStore(settings.timing_requests)
        self.keys = Keys(settings.keys_file, [key.get_secret_value() for key in settings.api_key])
        self.limits = Limits(settings.rpm, settings.tpm, settings.max_streams, settings.rpd)
        self.ledger: Ledger = NoLedger() if ledger is None else ledger
        self.metrics.ledger = self.ledger
        self.tiers = self._tiers()
        self.draining = False
        self._logprobs = LogprobSource(self.tokenizer, ring)
        self._pacer: Pacer | None = None
        self.deployments.register(self.registry.profiles())

    @property
    def pacer(self) -> Pacer:
        """The pacer, once `start` has been called on the running event loop."""
        assert self._pacer is not None, "the engine has not been started"
        return self._pacer

    def start(self) -> None:
        """Take up work on the running event loop."""
        self._pacer = Pacer(self.clock, self.settings.pacer_utilisation)

    def stop(self) -> None:
        """Break off what is still under way and stop the timer."""
        if self._pacer is not None:
            for answer in list(self._pacer.answers):
                self._pacer.abort(answer, "shutdown")
            self._pacer.close()

    def break_off(self, message: str) -> None:
        """End every answer under way with an error that its client can read."""
        for answer in list(self.pacer.answers):
            self.pacer.break_off(answer, message)

    # -- profiles ------------------------------------------------------------------------------

    def profile(self, model: str) -> Profile:
        """The profile that serves a model name as a rule. Raises UnknownModelError."""
        return self.tiers.standard(model)

    def _tiers(self) -> Tiers:
        settings = self.settings
        return Tiers(
            self.registry,
            PriceBook.load(settings.rates, settings.price_date),
            accept_any_model=settings.accept_any_model,
            when_full=settings.when_full,
            when_not_entitled=settings.when_not_entitled,
            room=self.deployments.have_room,
        )

    def reload(self) -> None:
        """Read the user's profiles, rate cards and keys file again, all or nothing.

        Streams under way go on as they began, at their old prices. Raises ProfileFileError,
        RateFileError and KeyFileError.
        """
        entries = self.keys.read()
        tiers = self._tiers()
        self.registry.reload(self.settings.profiles)
        self.keys.take(entries)
        self.tiers = tiers
        self.deployments.register(self.registry.profiles())

    # -- requests ------------------------------------------------------------------------------

    async def plan(self, request: GenerationRequest, service: Service) -> Plan:
        """Count the prompts, off the loop where they are long, and decide the answer.

        Raises PlanError.
        """
        plan = await self._plan_fitting(request, service.profile)
        plan.tier = service.served
        return plan

    async def _plan_fitting(self, request: GenerationRequest, profile: Profile) -> Plan:
        try:
            return await self._plan(request, profile)
        except PlanError as refusal:
            if not request.drop_oldest or refusal.code != "context_length_exceeded":
                raise
            shorter = await self._shortened(request, profile)
            if shorter is None:
                raise
        return await self._plan(shorter, profile)

    async def _shortened(
        self, request: GenerationRequest, profile: Profile
    ) -> GenerationRequest | None:
        """The request without as many of its oldest messages as it takes to fit.

        What comes before the first word of the user's stays (instructions, tools), and so does
        the last message; None where that is too much still.
        """
        prompt = request.prompts[0]
        if not isinstance(prompt, ChatPrompt):
            return None
        messages = prompt.messages
        kept = 0
        while kept < len(messages) and messages[kept].role in ("developer", "system"):
            kept += 1
        room = profile.limits.context_tokens
        if profile.kind == "engine" and profile.engine.kv_cache_tokens:
            room = min(room, profile.engine.kv_cache_tokens)
        room -= request.max_tokens or 1
        low, high = kept + 1, len(messages)
        found = None
        while low < high:
            middle = (low + high) // 2
            shorter = ChatPrompt(messages[:kept] + messages[middle:])
            if (await self.counter.measure_async(shorter)).tokens <= room:
                found, high = shorter, middle
            else:
                low = middle + 1
        return None if found is None else replace(request, prompts=(found,))

    async def _plan(self, request: GenerationRequest, profile: Profile) -> Plan:
        rules = profile.prefix_cache
        block = rules.block_tokens if rules.enabled and request.cached else 0
        salt = f"{profile.name}\0{request.cache_key or ''}" if block else ""
        measured = [
            await self.counter.measure_async(prompt, block, salt, keep_text=request.echo_prompt)
            for prompt in request.prompts
        ]
        plan = await self._decide(request, profile, measured)
        self._check_room(plan)
        return plan

    async def _decide(
        self, request: GenerationRequest, profile: Profile, measured: list[PromptPlan]
    ) -> Plan:
        if not self.planner.takes_long(request, profile, measured):
            return self.planner.plan(request, profile, measured)
        # One at a time, by a planner of its own: neither is thread-safe.
        async with self._long_plans:
            return await asyncio.to_thread(self._patient.plan, request, profile, measured)

    def _check_room(self, plan: Plan) -> None:
        """Refuse what no replica could ever hold, rather than let it wait for ever."""
        room = plan.profile.engine.kv_cache_tokens
        if plan.profile.kind != "engine" or not room:
            return
        for choice in plan.choices:
            needed = plan.prompts[choice.prompt_index].tokens + choice.output_tokens
            if needed > room:
                raise PlanError(
                    f"This request needs {needed} tokens of KV cache and a replica of "
                    f"{plan.profile.name} has {room}.",
                    "prompt",
                    "context_length_exceeded",
                )

    def logprobs(self, plan: Plan) -> Callable[[ChoicePlan, int, int], list[TokenLogprob]]:
        """The function that tells an encoder the log probabilities of a plan's tokens."""
        top = plan.request.top_logprobs or 0
        source = self._logprobs

        def tokens(choice: ChoicePlan, start: int, stop: int) -> list[TokenLogprob]:
            return source.tokens(choice.seed, start, choice.pieces.ids(start, stop), top)

        return tokens

    def open(
        self,
        plan: Plan,
        encoder: StreamEncoder | None,
        sink: Sink,
        *,
        request_id: str,
        endpoint: str,
        received_ns: int,
        admitted: Admitted | None = None,
    ) -> Answer:
        """An answer with its record and its metrics, not yet started."""
        request, profile = plan.request, plan.profile
        record = self.records.open(
            RequestRecord(
                id=request_id,
                received_ns=received_ns,
                created_s=time.time(),
                endpoint=endpoint,
                model=request.model,
                profile=profile.name,
                tier=plan.tier,
                tier_asked=request.service_tier or "auto",
                billed_as="" if admitted is None else admitted.hold.billed_as,
                stream=request.stream,
                prompt_tokens=plan.prompt_tokens,
                output_tokens=plan.completion_tokens,
                reasoning_tokens=plan.reasoning_tokens,
            )
        )
        return Answer(
            plan,
            encoder,
            sink,
            metrics=self.profile_metrics(profile, plan.tier),
            records=self.records,
            record=record,
            admitted=admitted,
        )

    def profile_metrics(self, profile: Profile, tier: str = "default") -> ProfileMetrics:
        """A profile's counters for what it serves as one tier."""
        return self.metrics.profile(profile.name, tier, profile.limits.context_tokens)

    def start_answer(self, answer: Answer, transport: Transport = "http") -> None:
        """Put an answer to work: on its profile's engine, or on a clock of its own."""
        self._submit(answer, transport)
        if answer.admitted is not None:
            answer.admitted.arrived()

    def _submit(self, answer: Answer, transport: Transport) -> None:
        plan = answer.plan
        overrides = plan.request.overrides
        at_work = self.deployments.of(plan.profile)
        own_clock = overrides.ttft_ms is not None or overrides.rate is not None
        # What happens in the middle of an answer needs one that has a middle.
        without_clock = plan.profile.kind == "instant" and not own_clock
        if not own_clock and not without_clock:
            self.pacer.submit(answer, at_work.shared, transport=transport)
            return
        profile = plan.profile
        # Without a rate of its own a request goes on at its profile's ceiling; an instant one's
        # is without end, and no clock ticks that fast.
        step_ms = profile.engine.step_ms
        if without_clock:
            step_ms = _LEAST_STEP_MS
        elif overrides.rate:
            step_ms = 1000.0 / overrides.rate
        elif profile.kind == "engine":
            step_ms = 1000.0 / profile.ceiling_tok_s
        ttft_ms = overrides.ttft_ms
        if ttft_ms is None:
            ttft_ms = _idle_ttft_ms(plan)
        self.pacer.submit(
            answer,
            at_work.own,
            ttft_ns=round(ttft_ms * NS_PER_MS),
            step_ns=step_ms * NS_PER_MS,
        )


def _idle_ttft_ms(plan: Plan) -> float:
    """A first token's time on an idle machine, for a request that sets only its rate."""
    profile = plan.profile
    if profile.kind != "engine":
        return profile.flat_ttft_ms
    overhead, engine = profile.overhead, profile.engine
    prefill = plan.prompt_tokens * engine.step_ms_per_prefill_token / engine.data_parallel_size
    fill = overhead.pipeline_stages * overhead.stage_ms
    api = overhead.round_trip_ms + overhead.api_ms_p50 + overhead.per_token_ms
    return api + fill + prefill + engine.step_ms
