"""Letting a request in: its tier, its limits, its hold, and the answer to one that isn't let in."""

from __future__ import annotations

import time
from dataclasses import dataclass

from paceline.core.ledger import Amount, Hold, Standing
from paceline.core.money import digits
from paceline.core.plan import Plan
from paceline.core.request import GenerationRequest
from paceline.core.usage import Usage
from paceline.http.books import found
from paceline.http.faults.error import AskedForError
from paceline.http.rate_limits import headers as limit_headers
from paceline.http.rate_limits import limit_refusal, tokens_of
from paceline.http.sink import Headers
from paceline.runtime.admission import Admitted, Claim
from paceline.runtime.engine import LiveEngine
from paceline.runtime.keys import Caller
from paceline.runtime.ledger.interface import UnreadableError
from paceline.runtime.limits import Account, Admission
from paceline.runtime.tiers import Service, TierRefusedError
from paceline.wire.errors import ApiError
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.quota import Api, shortage_error
from paceline.wire.retry import retry_headers

_FULL_WAIT_NS = 1_000_000_000
"""What is told a request for a full tier: a guess, since no clock knows when a slot is free."""

_REASONS = frozenset(
    {
        "admin_required",
        "context_length_exceeded",
        "insufficient_quota",
        "invalid_api_key",
        "model_not_found",
        "rate_limit_exceeded",
        "resource_unavailable",
        "server_shutting_down",
        "tier_not_entitled",
        "usage_limit_reached",
    }
)


def reason_of(error: ApiError) -> str:
    """Why a request was refused, for counting: one of a few words, whatever its code is."""
    if isinstance(error, AskedForError):
        return "fault"
    if error.code in _REASONS:
        return error.code
    if error.status == 401:
        return "invalid_api_key"
    return "server_error" if error.status >= 500 else "invalid_request"


def choose(engine: LiveEngine, request: GenerationRequest, caller: Caller) -> Service:
    """What serves a request. Raises UnknownModelError, and ApiError for a tier refused."""
    sequences = request.n * len(request.prompts)
    overrides = request.overrides
    if overrides.ttft_ms is not None or overrides.rate is not None:
        # It brings a clock of its own, and takes no slot.
        sequences = 0
    try:
        return engine.tiers.choose(request.model, request.service_tier, caller, sequences)
    except TierRefusedError as refusal:
        raise tier_refusal(refusal, request.model) from None


def claim(engine: LiveEngine, service: Service, caller: Caller, sequences: int) -> Claim | None:
    """Slots for a request on its way; None where it would wait for one anyway."""
    if engine.tiers.patient(caller):
        return None
    return engine.deployments.claim(service.profile, sequences)


def tier_refusal(refusal: TierRefusedError, model: str) -> ApiError:
    """429 for a tier that is full, 403 for one that the key may not use."""
    name = model[:100]
    if refusal.why == "not_entitled":
        return ApiError(
            403,
            f"Your API key may not use service tier {refusal.tier} of {name}.",
            param="service_tier",
            code="tier_not_entitled",
        )
    return ApiError(
        429,
        f"Resource unavailable: service tier {refusal.tier} of {name} has no free slot. You are "
        "not charged for this request. Try again later, or with another service_tier.",
        param="service_tier",
        code="resource_unavailable",
        headers=retry_headers(_FULL_WAIT_NS),
    )


@dataclass(frozen=True, slots=True)
class Entrance:
    """A request on its way in: whose it is, and what it will be written down as."""

    engine: LiveEngine
    caller: Caller
    api: Api
    endpoint: str
    request_id: str
    answer_id: str
    """The program's own id, unique for ever."""

    async def let_in(self, plan: Plan, service: Service, claimed: Claim | None = None) -> Admitted:
        """Have a planned request admitted. Raises ApiError (429, or Anthropic's 400)."""
        request = plan.request
        used, most = tokens_of(plan)
        return await self.admit(
            service,
            model=request.model,
            stream=request.stream,
            tokens=(used, most),
            most=service.sale.most(plan.prompt_tokens, most - plan.prompt_tokens),
            claimed=claimed,
        )

    async def admit(
        self,
        service: Service,
        *,
        model: str,
        stream: bool,
        most: Amount,
        tokens: tuple[int, int] | None = None,
        claimed: Claim | None = None,
    ) -> Admitted:
        """Have a request admitted that can cost the most.

        `tokens` are those that it will use and the most that it might; None for what no rate
        limit counts. Raises ApiError.
        """
        engine, caller = self.engine, self.caller
        profile, tier = service.profile, service.served
        account: Account | None = None
        if tokens is not None:
            # First without taking anything: who has to wait need not be held for.
            account = self._account(service)
            self._check(account, tokens[1], model)
        terms = caller.terms
        hold = Hold(
            id=self.answer_id,
            request_id=self.request_id,
            key_id=caller.key_id,
            model=model,
            billed_as=service.sale.model,
            profile=profile.name,
            tier_asked=service.asked,
            tier_served=tier,
            endpoint=self.endpoint,
            stream=stream,
            created_us=time.time_ns() // 1000,
            most=most,
        )
        shortage = await found(engine.ledger.hold(hold, terms))
        if shortage is not None:
            standing = await found(engine.ledger.standing(caller.key_id, terms, hold.created_us))
            raise shortage_error(
                shortage,
                now_us=hold.created_us,
                api=self.api,
                plan_type=caller.plan_type,
                headers=self._headers(account, standing),
            )
        if tokens is not None:
            # Others may have come in meanwhile, and an idle account may have been forgotten.
            account = self._account(service)
            try:
                self._check(account, tokens[1], model)
            except ApiError:
                engine.ledger.release(hold)
                raise
            if account is not None:
                account.take(tokens[0], engine.clock.now_ns())
        admitted = Admitted(
            engine.ledger,
            hold,
            service,
            caller,
            engine.profile_metrics(profile, tier),
            account=None if account is None else Admission(account),
            claim=claimed,
        )
        if terms:
            try:
                admitted.standing = await found(
                    engine.ledger.standing(caller.key_id, terms, hold.created_us)
                )
            except BaseException:
                admitted.release()
                raise
        return admitted

    def _account(self, service: Service) -> Account | None:
        engine = self.engine
        return engine.limits.account(
            self.caller, service.profile.name, service.served, engine.clock.now_ns()
        )

    def _check(self, account: Account | None, most_tokens: int, model: str) -> None:
        if account is None:
            return
        now_ns = self.engine.clock.now_ns()
        refusal = account.refusal(most_tokens, now_ns)
        if refusal is not None:
            raise limit_refusal(refusal, model, self._headers(account, None))

    def _headers(self, account: Account | None, standing: Standing | None) -> dict[str, str]:
        return limit_headers(
            self.caller,
            account,
            standing,
            api=self.api,
            now_ns=self.engine.clock.now_ns(),
            now_us=time.time_ns() // 1000,
        )


def answer_headers(engine: LiveEngine, admitted: Admitted, api: Api) -> Headers:
    """What an answer's headers say of its tier, its cost where that is known, and the limits."""
    made: Headers = [(b"x-paceline-tier", admitted.service.served.encode())]
    cost = admitted.cost
    if cost is not None:
        if cost.usd is not None:
            made.append((b"x-paceline-cost-usd", digits(cost.usd).encode()))
        if cost.credits is not None:
            made.append((b"x-paceline-credits", digits(cost.credits).encode()))
    account = None if admitted.account is None else admitted.account.account
    if account is not None or admitted.standing is not None:
        told = limit_headers(
            admitted.caller,
            account,
            admitted.standing,
            api=api,
            now_ns=engine.clock.now_ns(),
            now_us=time.time_ns() // 1000,
        )
        made += [(key.encode(), value.encode("latin-1")) for key, value in told.items()]
    return made


async def caller_headers(engine: LiveEngine, caller: Caller) -> Headers:
    """What the headers of an upgrade say of a key's plan; nothing where nothing bounds it."""
    if not caller.terms:
        return []
    now_us = time.time_ns() // 1000
    try:
        standing = await engine.ledger.standing(caller.key_id, caller.terms, now_us)
    except UnreadableError:
        # The first request will say so.
        return []
    made = limit_headers(
        caller, None, standing, api="openai", now_ns=engine.clock.now_ns(), now_us=now_us
    )
    return [(key.encode(), value.encode("latin-1")) for key, value in made.items()]


def bill_json(service: Service, usage: Usage) -> bytes:
    """The `paceline` object beside a usage: what it costs, and why."""
    cost = service.sale.cost(usage)
    return json_bytes(
        {
            "cost_usd": None if cost.usd is None else digits(cost.usd),
            "credits": None if cost.credits is None else digits(cost.credits),
            "tier_asked": service.asked,
            "tier_served": service.served,
            "profile": service.profile.name,
            "rates_since": service.sale.since,
        }
    )
