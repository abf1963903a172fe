"""What can be done with a response besides creating it; conversations are next door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from sse_starlette import EventSourceResponse

from paceline.core.errors import PlanError
from paceline.core.plan import Plan
from paceline.core.request import GenerationRequest
from paceline.core.usage import Usage
from paceline.http.background import Background
from paceline.http.generate import Dialect, parse_json
from paceline.http.respond import public_headers
from paceline.http.responses import PATH, Keeper, with_ids
from paceline.runtime.responses_store import StoredResponse
from paceline.wire import sse
from paceline.wire.errors import from_refusal, invalid, too_large
from paceline.wire.fields import body_object
from paceline.wire.head import Head, LogprobsFn
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.responses.choice import ID_PREFIX
from paceline.wire.responses.encode import ResponseStream
from paceline.wire.responses.items import TRIGGER, Item, listed
from paceline.wire.responses.object import usage_json
from paceline.wire.responses.request import RESPONSE_NAMES, parse_response

COMPACT_PATH = PATH + "/compact"
_JSON = "application/json"
_MOST_LISTED = 100


def response_routes(keeper: Keeper) -> APIRouter:
    """Everything under /v1/responses but the creation of one."""
    router = APIRouter(prefix=PATH)

    @router.post("/input_tokens", summary="What an input would come to, in tokens")
    async def input_tokens(request: Request) -> Response:
        body = body_object(await body_of(request, keeper))
        # No model is needed to count, nor anything to be generated.
        asked = {"model": "any", **{k: v for k, v in body.items() if v is not None}}
        parsed = parse_response(asked, public_headers(request.scope), keeper)
        (prompt,) = parsed.prompts
        try:
            measured = await keeper.engine.counter.measure_async(prompt)
        except PlanError as refusal:
            raise from_refusal(refusal, RESPONSE_NAMES) from None
        return answer({"object": "response.input_tokens", "input_tokens": measured.tokens})

    @router.get("/{response_id}", summary="A response, or its events from any on")
    async def retrieve(
        response_id: str, stream: bool = False, starting_after: int = -1
    ) -> Response:
        found = keeper.find(response_id)
        live = found.live
        if not stream:
            return Response(_now(found), media_type=_JSON)
        if not isinstance(live, Background):
            raise invalid("stream", "Only a response made in the background can be streamed.")
        if starting_after < -1:
            raise invalid("starting_after", "starting_after must be a sequence number.")
        return EventSourceResponse(
            live.follow(starting_after),
            sep="\n",
            ping=3600,
            headers={"content-type": sse.CONTENT_TYPE, "x-accel-buffering": "no"},
        )

    @router.delete("/{response_id}", summary="Forget a response")
    async def delete(response_id: str) -> Response:
        found = keeper.find(response_id)
        if isinstance(found.live, Background):
            found.live.cancel()
        keeper.store.remove(response_id)
        return answer({"id": response_id, "object": "response", "deleted": True})

    @router.post("/{response_id}/cancel", summary="Break off a response in the background")
    async def cancel(response_id: str) -> Response:
        found = keeper.find(response_id)
        if not isinstance(found.live, Background):
            raise invalid("response_id", "Only a response made in the background can be cancelled.")
        found.live.cancel()
        return Response(_now(found), media_type=_JSON)

    @router.get("/{response_id}/input_items", summary="What a response was asked")
    async def input_items(
        response_id: str, limit: int = 20, order: str = "desc", after: str | None = None
    ) -> Response:
        found = keeper.find(response_id)
        items = with_ids(found.input_items, response_id)
        return answer(page(items, limit, order, after))

    return router


def page(
    items: Sequence[tuple[str, Item]], limit: int, order: str, after: str | None
) -> dict[str, Any]:
    """A page of items as OpenAI's lists have it. Raises ApiError."""
    if not 1 <= limit <= _MOST_LISTED:
        raise invalid("limit", f"limit must be from 1 to {_MOST_LISTED}.")
    if order not in ("asc", "desc"):
        raise invalid("order", "order must be asc or desc.")
    found = list(items) if order == "asc" else list(reversed(items))
    if after is not None:
        at = next((i for i, (key, _) in enumerate(found) if key == after), None)
        if at is None:
            raise invalid("after", f"There is no item {after!r} to list after.")
        found = found[at + 1 :]
    shown = found[:limit]
    return {
        "object": "list",
        "data": [listed(item, key) for key, item in shown],
        "first_id": shown[0][0] if shown else "",
        "last_id": shown[-1][0] if shown else "",
        "has_more": len(found) > limit,
    }


def compact_dialect(keeper: Keeper) -> Dialect:
    """POST /v1/responses/compact: a request with a compaction for an answer."""

    def parse(body: Any, headers: Mapping[str, str]) -> GenerationRequest:
        body = dict(body_object(body))
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
        body["input"] = [*items, {"type": TRIGGER}] if isinstance(items, list) else items
        body["store"], body["stream"] = False, False
        return parse_response(body, headers, keeper)

    return keeper.dialect(path=COMPACT_PATH, parse=parse, whole=_compacted)


def _compacted(
    plan: Plan,
    head: Head,
    usage: Usage,
    *,
    show_reasoning: bool,
    logprobs: LogprobsFn | None,
) -> bytes:
    stream = ResponseStream(plan, head, show_reasoning=show_reasoning, logprobs=logprobs)
    return (
        b'{"id":%b,"object":"response.compaction","created_at":%d,"output":[%b],"usage":%b%b}'
        % (
            json_bytes(ID_PREFIX + head.id.removeprefix(ID_PREFIX)),
            head.created,
            stream.output(),
            usage_json(usage),
            head.cost(usage),
        )
    )


def _now(found: StoredResponse[Item]) -> bytes:
    """A response as it is at the moment."""
    if found.under_way and isinstance(found.live, Background):
        return found.live.response("in_progress" if found.live.begun else "queued")
    return found.final


async def body_of(request: Request, keeper: Keeper) -> Any:
    """A request's JSON. Raises ApiError."""
    data = await request.body()
    limit = keeper.engine.settings.max_body_bytes
    if len(data) > limit:
        raise too_large(limit)
    return parse_json(data) if data else {}


def answer(value: Any) -> Response:
    """A small object."""
    return Response(orjson.dumps(value), media_type=_JSON)
