"""/v1/conversations: items that responses are added to."""

from __future__ import annotations

import os
import time
from typing import Any

from fastapi import APIRouter, Request, Response

from paceline.http.response_routes import answer, body_of, page
from paceline.http.responses import Keeper, with_ids
from paceline.runtime.responses_store import Conversation
from paceline.wire.errors import ApiError, invalid
from paceline.wire.fields import an_array, body_object, missing
from paceline.wire.responses.items import Item, is_reference, listed, parse_item
from paceline.wire.sampling import metadata

PATH = "/v1/conversations"
_MOST_ADDED = 20
"""Items in one request, as OpenAI has it."""


def conversation_routes(keeper: Keeper) -> APIRouter:
    """Conversations and their items."""
    router = APIRouter(prefix=PATH)
    store = keeper.store

    @router.post("", summary="Begin a conversation")
    async def create(request: Request) -> Response:
        body = body_object(await body_of(request, keeper))
        made: Conversation[Item] = Conversation(
            "conv_" + os.urandom(16).hex(), int(time.time()), _metadata(body)
        )
        items = _added(keeper, body.get("items") or [])
        store.put(made)
        store.extend(made, items)
        return _shown(made)

    @router.get("/{conversation_id}", summary="A conversation")
    async def retrieve(conversation_id: str) -> Response:
        return _shown(keeper.find_conversation(conversation_id))

    @router.post("/{conversation_id}", summary="Change a conversation's metadata")
    async def update(conversation_id: str, request: Request) -> Response:
        found = keeper.find_conversation(conversation_id)
        body = body_object(await body_of(request, keeper))
        if "metadata" not in body:
            raise missing("metadata")
        found.metadata = _metadata(body)
        return _shown(found)

    @router.delete("/{conversation_id}", summary="Forget a conversation")
    async def delete(conversation_id: str) -> Response:
        keeper.find_conversation(conversation_id)
        store.remove(conversation_id)
        return answer({"id": conversation_id, "object": "conversation.deleted", "deleted": True})

    @router.post("/{conversation_id}/items", summary="Add items")
    async def add(conversation_id: str, request: Request) -> Response:
        found = keeper.find_conversation(conversation_id)
        body = body_object(await body_of(request, keeper))
        if body.get("items") is None:
            raise missing("items")
        items = _added(keeper, body["items"])
        store.extend(found, items)
        return answer(page(items, _MOST_ADDED, "asc", None))

    @router.get("/{conversation_id}/items", summary="A conversation's items")
    async def items(
        conversation_id: str, limit: int = 20, order: str = "desc", after: str | None = None
    ) -> Response:
        return answer(page(keeper.find_conversation(conversation_id).items, limit, order, after))

    @router.get("/{conversation_id}/items/{item_id}", summary="One of them")
    async def item(conversation_id: str, item_id: str) -> Response:
        found = keeper.find_conversation(conversation_id)
        for key, each in found.items:
            if key == item_id:
                return answer(listed(each, key))
        raise _no_item(item_id)

    @router.delete("/{conversation_id}/items/{item_id}", summary="Take an item out")
    async def drop(conversation_id: str, item_id: str) -> Response:
        found = keeper.find_conversation(conversation_id)
        if not store.drop_item(found, item_id):
            raise _no_item(item_id)
        return _shown(found)

    return router


def _added(keeper: Keeper, value: Any) -> list[tuple[str, Item]]:
    """Items to add, each with an id. Raises ApiError."""
    given = an_array(value, "items")
    if len(given) > _MOST_ADDED:
        raise invalid("items", f"At most {_MOST_ADDED} items can be added at a time.")
    found = []
    for i, each in enumerate(given):
        item: Item | None = parse_item(each, f"items[{i}]")
        if item is not None and is_reference(item):
            item = keeper.item(item.data["id"])
        if item is None:
            raise _no_item(str(each.get("id")))
        found.append(item)
    return with_ids(found, "_" + os.urandom(12).hex())


def _metadata(body: Any) -> dict[str, str]:
    given = body.get("metadata")
    return {} if given is None else dict(metadata(given, "metadata"))


def _shown(found: Conversation[Item]) -> Response:
    return answer(
        {
            "id": found.id,
            "object": "conversation",
            "created_at": found.created,
            "metadata": found.metadata,
        }
    )


def _no_item(item_id: str) -> ApiError:
    return ApiError(
        404, f"Item with id {item_id!r} not found.", param="item_id", code="item_not_found"
    )
