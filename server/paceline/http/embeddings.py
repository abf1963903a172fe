"""POST /v1/embeddings: unit vectors that hang on nothing but the input."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Mapping

import orjson

from paceline.core.errors import PlanError
from paceline.core.ledger import Amount, Times
from paceline.core.profile import Profile
from paceline.core.request import TextPrompt, TokenPrompt
from paceline.core.usage import Usage
from paceline.http import faults
from paceline.http.admission import Entrance, reason_of
from paceline.http.auth import caller_of
from paceline.http.respond import (
    JSON,
    ClientGoneError,
    Receive,
    Scope,
    api_headers,
    public_headers,
    read_body,
    request_id,
    send_body,
    send_error,
)
from paceline.http.sink import Send
from paceline.runtime.admission import Admitted
from paceline.runtime.engine import LiveEngine
from paceline.runtime.ids import random_hex
from paceline.runtime.keys import Caller
from paceline.runtime.price_book import NOT_SOLD
from paceline.runtime.tiers import Service, UnknownModelError
from paceline.runtime.vectors import DEFAULT_DIMENSIONS, unit_vector
from paceline.wire.embeddings import EmbeddingRequest, encode_embeddings, parse_embeddings
from paceline.wire.errors import (
    ApiError,
    bad_json,
    from_refusal,
    invalid,
    model_not_found,
    server_error,
)
from paceline.wire.fields import unknown_header

log = logging.getLogger("paceline")

PATH = "/v1/embeddings"
_NO_PRICE = Amount(None, None)
_MOST_TOKENS = 8192
"""Of one input, as OpenAI's embedding models have it."""

_MANY_NUMBERS = 100_000
"""Numbers from which on they are written out in a thread, so that others need not wait."""


class Embeddings:
    """Answers as soon as the vectors are made; no profile says how long embedding takes."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        engine = self._engine
        received_ns = engine.clock.now_ns()
        rid = request_id(scope)
        status = 200
        admitted: Admitted | None = None
        try:
            body = await read_body(scope, receive, engine.settings.max_body_bytes)
            request, profile = self._parse(body, public_headers(scope))
            faults.only_errors(request.overrides, "to embeddings")
            faults.refuse(request.overrides, stream=False)
            admitted = await self._let_in(request, profile, caller_of(scope), rid)
            tokens, answer = await self._answer(request)
            await self._settled(admitted, Usage(tokens, 0), received_ns)
            headers = api_headers(JSON, rid, self._since(received_ns))
            if request.unknown:
                headers.append(
                    (b"x-paceline-unknown-fields", unknown_header(request.unknown).encode())
                )
            await send_body(send, 200, answer, headers)
        except ClientGoneError:
            status = 499
        except ApiError as error:
            status = error.status
            engine.metrics.refused(reason_of(error))
            await send_error(send, error, rid, self._since(received_ns))
        except Exception:
            status = 500
            log.exception("request %s failed", rid)
            await send_error(send, server_error(), rid, self._since(received_ns))
        finally:
            if admitted is not None:
                admitted.release()
        engine.metrics.request(PATH, status)

    def _parse(self, body: bytes, headers: Mapping[str, str]) -> tuple[EmbeddingRequest, Profile]:
        try:
            data = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise bad_json(str(error)) from None
        request = parse_embeddings(data, headers)
        try:
            return request, self._engine.profile(request.model)
        except UnknownModelError:
            raise model_not_found(request.model) from None

    async def _let_in(
        self, request: EmbeddingRequest, profile: Profile, caller: Caller, rid: str
    ) -> Admitted:
        """Have it admitted: it is no part of any limit, and nobody has published its price."""
        entrance = Entrance(self._engine, caller, "openai", PATH, rid, "emb-" + random_hex(12))
        return await entrance.admit(
            Service(profile, NOT_SOLD),
            model=request.model,
            stream=False,
            most=_NO_PRICE,
        )

    async def _settled(self, admitted: Admitted, usage: Usage, received_ns: int) -> None:
        """Write it down, and wait until that is safe."""
        written = asyncio.get_running_loop().create_future()

        def then() -> None:
            if not written.done():
                written.set_result(None)

        times = Times(total_ns=self._engine.clock.now_ns() - received_ns)
        admitted.settle("finished", usage, times=times, then=then)
        await written

    async def _answer(self, request: EmbeddingRequest) -> tuple[int, bytes]:
        """The prompt's tokens, and the body."""
        delay_ms = request.overrides.ttft_ms
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        tokens = 0
        vectors: list[array[float]] = []
        for i, item in enumerate(request.inputs):
            tokens += await self._count(item, i)
            key = item.text if isinstance(item, TextPrompt) else item.ids
            vectors.append(unit_vector(key, request.dimensions or DEFAULT_DIMENSIONS))
            if i % 8 == 7:
                await asyncio.sleep(0)
        if len(vectors) * len(vectors[0]) < _MANY_NUMBERS:
            return tokens, encode_embeddings(request, vectors, tokens)
        return tokens, await asyncio.to_thread(encode_embeddings, request, vectors, tokens)

    async def _count(self, item: TextPrompt | TokenPrompt, i: int) -> int:
        try:
            measured = await self._engine.counter.measure_async(item)
        except PlanError as refusal:
            raise from_refusal(refusal, {"prompt": f"input[{i}]"}) from None
        if measured.tokens > _MOST_TOKENS:
            raise invalid(
                f"input[{i}]",
                f"An input may have at most {_MOST_TOKENS} tokens; this one has {measured.tokens}.",
                "context_length_exceeded",
            )
        return measured.tokens

    def _since(self, ns: int) -> float:
        return (self._engine.clock.now_ns() - ns) / 1e9
