"""The token endpoints: one handler for every dialect that answers in one request.

They are plain ASGI, without the framework's argument parsing: that costs a request more than all
of its planning. The handler's task waits for nothing but the client's leaving, since the pacer
writes; so one wait serves as the end of an answer and as its abort.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import orjson

from paceline.core.deployment import Transport
from paceline.core.encode import StreamEncoder
from paceline.core.errors import PlanError
from paceline.core.plan import Plan
from paceline.core.request import GenerationRequest
from paceline.core.usage import Usage
from paceline.http import faults, instant
from paceline.http.admission import Entrance, answer_headers, bill_json, choose, claim, reason_of
from paceline.http.auth import caller_of
from paceline.http.faults.deliver import deliver as deliver_with_fault
from paceline.http.respond import (
    JSON,
    OPENAI,
    ClientGoneError,
    Receive,
    Scope,
    Style,
    public_headers,
    read_body,
    request_id,
    send_error,
    server_timing,
)
from paceline.http.sink import AsgiSink, Headers, Send
from paceline.runtime.admission import Admitted, Claim
from paceline.runtime.engine import LiveEngine
from paceline.runtime.ids import random_hex
from paceline.runtime.keys import Caller
from paceline.runtime.sink import Timing
from paceline.runtime.tiers import UnknownModelError
from paceline.wire import sse
from paceline.wire.errors import (
    ApiError,
    bad_json,
    from_refusal,
    model_not_found,
    server_error,
)
from paceline.wire.fields import unknown_header
from paceline.wire.head import Head, LogprobsFn

log = logging.getLogger("paceline")


LARGE = 20_000
"""Tokens, each log probability counted as one, from which on a whole answer is made in a thread."""


class _MakeStream(Protocol):
    def __call__(
        self,
        plan: Plan,
        head: Head,
        *,
        tokens_per_chunk: int,
        show_reasoning: bool,
        logprobs: LogprobsFn | None,
    ) -> StreamEncoder: ...


class _MakeWhole(Protocol):
    def __call__(
        self,
        plan: Plan,
        head: Head,
        usage: Usage,
        *,
        show_reasoning: bool,
        logprobs: LogprobsFn | None,
    ) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """A parser and an encoder: all that an endpoint adds to the common way."""

    path: str
    id_prefix: str
    parse: Callable[[Any, Mapping[str, str]], GenerationRequest]
    """Takes the body and the request's headers by lower-case name, without credentials."""
    stream: _MakeStream
    whole: _MakeWhole
    names: Mapping[str, str] = field(default_factory=dict)
    """The dialect's words for the core's fields."""
    style: Style = OPENAI
    """The API's headers and errors."""
    transport: Transport = "http"


@dataclass(frozen=True, slots=True)
class Ready:
    """A request that nothing can refuse any more, and how its answer is written."""

    dialect: Dialect
    plan: Plan
    head: Head
    tokens_per_chunk: int
    show_reasoning: bool
    logprobs: LogprobsFn | None
    admitted: Admitted
    """What it holds; whoever doesn't open an answer has to release it."""

    @property
    def request(self) -> GenerationRequest:
        """What was asked."""
        return self.plan.request

    def encoder(self) -> StreamEncoder:
        """A fresh encoder of the answer as a stream; all of them write the same bytes."""
        return self.dialect.stream(
            self.plan,
            self.head,
            tokens_per_chunk=self.tokens_per_chunk,
            show_reasoning=self.show_reasoning,
            logprobs=self.logprobs,
        )

    def whole(self, usage: Usage) -> bytes:
        """The answer as one object."""
        return self.dialect.whole(
            self.plan,
            self.head,
            usage,
            show_reasoning=self.show_reasoning,
            logprobs=self.logprobs,
        )


async def prepare(
    engine: LiveEngine,
    dialect: Dialect,
    data: Any,
    headers: Mapping[str, str],
    *,
    caller: Caller,
    rid: str,
) -> Ready:
    """Parse, plan and let in; all that can refuse a request does it here, before any answer.

    Raises ApiError.
    """
    if engine.draining:
        raise ApiError(503, "The server is shutting down.", code="server_shutting_down")
    answer_id = dialect.id_prefix + random_hex(12)
    promised = None
    try:
        request = dialect.parse(data, headers)
        try:
            service = choose(engine, request, caller)
            promised = claim(engine, service, caller, request.n * len(request.prompts))
            plan = await engine.plan(request, service)
        except UnknownModelError:
            raise model_not_found(request.model) from None
        except PlanError as refusal:
            raise from_refusal(refusal, dialect.names) from None
        faults.refuse(request.overrides, stream=request.stream, transport=dialect.transport)
        entrance = Entrance(engine, caller, dialect.style.api, dialect.path, rid, answer_id)
        admitted = await entrance.let_in(plan, service, promised)
    except RecursionError:
        _leave(promised)
        # JSON may be nested deeper than it can be written again or walked.
        raise bad_json("it is nested too deeply") from None
    except BaseException:
        _leave(promised)
        raise
    show = engine.settings.show_reasoning
    if request.show_reasoning is not None:
        show = request.show_reasoning
    told = request.overrides.cost_in_body
    if told is None:
        told = engine.settings.cost_in_body
    return Ready(
        dialect,
        plan,
        Head(
            id=answer_id,
            created=int(time.time()),
            model=request.model,
            service_tier=plan.tier,
            bill=partial(bill_json, service) if told else None,
        ),
        engine.settings.tokens_per_chunk,
        show,
        engine.logprobs(plan) if request.top_logprobs is not None else None,
        admitted,
    )


def _leave(promised: Claim | None) -> None:
    if promised is not None:
        promised.leave()


class Generate:
    """POST to a token endpoint."""

    def __init__(self, engine: LiveEngine, dialect: Dialect) -> None:
        self.engine = engine
        self.dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        engine, dialect = self.engine, self.dialect
        received_ns = engine.clock.now_ns()
        rid = request_id(scope)
        status = 200
        ready: Ready | None = None
        try:
            body = await read_body(scope, receive, engine.settings.max_body_bytes)
            data = parse_json(body)
            ready = await prepare(
                engine, dialect, data, public_headers(scope), caller=caller_of(scope), rid=rid
            )
            await self.deliver(ready, receive, send, rid, received_ns)
        except ClientGoneError:
            status = 499
        except ApiError as error:
            status = error.status
            engine.metrics.refused(reason_of(error))
            await send_error(send, error, rid, self._since(received_ns), style=dialect.style)
        except Exception:
            status = 500
            log.exception("request %s failed", rid)
            await send_error(
                send, server_error(), rid, self._since(received_ns), style=dialect.style
            )
        finally:
            if status >= 400 and ready is not None:
                ready.admitted.release()
        engine.metrics.request(dialect.path, status)

    async def deliver(
        self, ready: Ready, receive: Receive, send: Send, rid: str, received_ns: int
    ) -> None:
        """Answer, until the end or the client's leaving."""
        engine, plan = self.engine, ready.plan
        sink = self.sink(ready, send, rid, received_ns)
        if plan.request.overrides.fault is not None:
            await deliver_with_fault(
                engine, ready, sink, receive, send, rid=rid, received_ns=received_ns
            )
            return
        answer = engine.open(
            plan,
            ready.encoder() if ready.request.stream else None,
            sink,
            request_id=rid,
            endpoint=self.dialect.path,
            received_ns=received_ns,
            admitted=ready.admitted,
        )
        if instant.is_instant(plan):
            answer.open_early()
            await instant.deliver(engine, answer, sink, receive)
            return
        sink.drained = lambda: engine.pacer.resume(answer)
        answer.open_early()
        engine.start_answer(answer, self.dialect.transport)
        # All that can come now is the client's leaving, or the end of the answer.
        while (await receive())["type"] != "http.disconnect":
            pass
        if not answer.over:
            engine.pacer.abort(answer)

    def sink(self, ready: Ready, send: Send, rid: str, received_ns: int) -> AsgiSink:
        """The answer's way out, with its headers."""
        request, plan, style = ready.request, ready.plan, self.dialect.style

        def headers(timing: Timing | None) -> Headers:
            spent_s = self._since(received_ns) if timing is None else timing.total_s
            content_type = sse.CONTENT_TYPE.encode() if request.stream else JSON
            made = style.headers(content_type, rid, spent_s)
            if timing is not None:
                made.append(server_timing(timing))
            made.append((b"x-paceline-profile", plan.profile.name.encode("utf-8")))
            made += answer_headers(self.engine, ready.admitted, style.api)
            if request.stream:
                made += SSE_HEADERS
            if request.unknown:
                made.append(
                    (b"x-paceline-unknown-fields", unknown_header(request.unknown).encode())
                )
            return made

        def refusal(status: int, message: str, code: str) -> tuple[int, Headers, bytes]:
            error = ApiError(status, message, code=code)
            made = style.headers(JSON, rid, self._since(received_ns))
            made += answer_headers(self.engine, ready.admitted, style.api)
            return style.status(status), made, style.error(error, rid)

        weight = plan.completion_tokens * (1 + 20 * (request.top_logprobs or 0))
        large = not request.stream and weight > LARGE
        return AsgiSink(send, headers, ready.whole, refusal, large=large)

    def _since(self, ns: int) -> float:
        return (self.engine.clock.now_ns() - ns) / 1e9


def parse_json(body: bytes) -> Any:
    """A body's JSON. Raises ApiError."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_json(str(error)) from None


SSE_HEADERS: Headers = [(k.lower().encode(), v.encode()) for k, v in sse.HEADERS.items()]
