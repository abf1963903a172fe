"""POST /v1/responses: the common way to an answer, with the memory that this dialect has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.core.request import GenerationRequest, Message
from paceline.core.usage import Usage
from paceline.http import faults
from paceline.http.admission import answer_headers
from paceline.http.background import Background
from paceline.http.generate import SSE_HEADERS, Dialect, Generate, Ready
from paceline.http.respond import JSON, Receive, api_headers, send_body
from paceline.http.sink import Send
from paceline.runtime.engine import LiveEngine
from paceline.runtime.responses_store import Conversation, ResponseStore, StoredResponse
from paceline.wire import sse
from paceline.wire.errors import ApiError
from paceline.wire.responses.choice import ID_PREFIX
from paceline.wire.responses.encode import ResponseStream, whole_response
from paceline.wire.responses.items import PREFIXES, Item, parse_item
from paceline.wire.responses.request import (
    RESPONSE_NAMES,
    Recall,
    ResponseContext,
    parse_response,
)

PATH = "/v1/responses"


class Keeper:
    """What is remembered of responses and conversations, and how it gets there."""

    def __init__(self, engine: LiveEngine) -> None:
        self.engine = engine
        self.store: ResponseStore[Item] = ResponseStore(engine.settings.responses_bytes)

    def response(self, response_id: str) -> Sequence[Item]:
        """All items up to and with a response's own output. Raises ApiError."""
        found = self.store.response(response_id)
        if found is None:
            raise previous_not_found(response_id)
        if found.under_way:
            raise ApiError(
                400,
                f"Response {response_id!r} is still under way.",
                param="previous_response_id",
                code="response_not_completed",
            )
        return found.items

    def conversation(self, conversation_id: str) -> Sequence[Item]:
        """A conversation's items. Raises ApiError."""
        return [item for _, item in self.find_conversation(conversation_id).items]

    def item(self, item_id: str) -> Item | None:
        """An item by its id, None if it isn't known."""
        return self.store.item(item_id)

    def find(self, response_id: str) -> StoredResponse[Item]:
        """A response that is kept. Raises ApiError."""
        found = self.store.response(response_id)
        if found is None:
            raise ApiError(
                404,
                f"Response with id {response_id!r} not found.",
                param="response_id",
                code="response_not_found",
            )
        return found

    def find_conversation(self, conversation_id: str) -> Conversation[Item]:
        """A conversation that is kept. Raises ApiError."""
        found = self.store.conversation(conversation_id)
        if found is None:
            raise ApiError(
                404,
                f"Conversation with id {conversation_id!r} not found.",
                param="conversation",
                code="conversation_not_found",
            )
        return found

    def dialect(self, recall: Recall | None = None, **changes: Any) -> Dialect:
        """The dialect with a memory: this one, or one that a connection puts in front of it."""
        memory = self if recall is None else recall

        def parse(body: Any, headers: Mapping[str, str]) -> GenerationRequest:
            request = parse_response(body, headers, memory)
            context = request.context
            if isinstance(context, ResponseContext) and context.background:
                faults.only_errors(request.overrides, "in the background")
            return request

        parts: dict[str, Any] = {
            "path": PATH,
            "id_prefix": ID_PREFIX,
            "parse": parse,
            "stream": ResponseStream,
            "whole": whole_response,
            "names": RESPONSE_NAMES,
        }
        return Dialect(**{**parts, **changes})

    def watch(self, ready: Ready, *, always: bool = False) -> ResponseContext:
        """Have a response remembered when it ends, if it is to be.

        `always` has its end told even where nothing is to be kept.
        """
        context = context_of(ready)
        context.now = _now

        def ended(
            status: str, final: bytes, output: Sequence[Mapping[str, Any]], usage: Usage | None
        ) -> None:
            self._ended(ready, status, final, output_items(output, usage))

        if context.store or context.conversation is not None or always:
            context.ended = ended
        return context

    def begin(self, ready: Ready, status: str, final: bytes) -> StoredResponse[Item]:
        """A response without output, not yet kept."""
        context = context_of(ready)
        before, own = tuple(context.history), tuple(context.items)
        asked = len(before) + len(own)
        return StoredResponse(ready.head.id, status, final, before + own, len(before), asked)

    def _ended(self, ready: Ready, status: str, final: bytes, output: Sequence[Item]) -> None:
        context = context_of(ready)
        if context.store:
            stored = self.store.response(ready.head.id) if context.background else None
            if stored is None and not context.background:
                stored = self.begin(ready, status, b"")
                self.store.put(stored)
            if stored is not None:
                self.store.finish(stored, status, final, output)
                if stored.live is not None:
                    stored.live.end_with(status, final)
        if context.conversation is not None and status in ("completed", "incomplete"):
            conversation = self.store.conversation(context.conversation)
            if conversation is not None:
                items = [*context.items, *output]
                self.store.extend(conversation, with_ids(items, ready.head.id))


class Responses(Generate):
    """POST /v1/responses."""

    def __init__(self, engine: LiveEngine, keeper: Keeper) -> None:
        super().__init__(engine, keeper.dialect())
        self._keeper = keeper

    async def deliver(
        self, ready: Ready, receive: Receive, send: Send, rid: str, received_ns: int
    ) -> None:
        """Answer, or begin an answer in the background and say so."""
        context = self._keeper.watch(ready)
        if not context.background:
            await super().deliver(ready, receive, send, rid, received_ns)
            return
        background = Background(self.engine, ready, rid, received_ns)
        stored = self._keeper.begin(ready, "queued", background.response("queued"))
        stored.live = background
        self._keeper.store.put(stored)
        background.start()
        stream = ready.request.stream
        headers = api_headers(sse.CONTENT_TYPE.encode() if stream else JSON, rid, 0.0)
        headers += answer_headers(self.engine, ready.admitted, self.dialect.style.api)
        if not stream:
            await send_body(send, 200, stored.final, headers)
            return
        headers += SSE_HEADERS
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def pump() -> None:
            async for data in background.follow():
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        pumping = asyncio.ensure_future(pump())
        # Whether the client leaves or has had it all, the response goes its own way.
        while (await receive())["type"] != "http.disconnect":
            pass
        pumping.cancel()


def context_of(ready: Ready) -> ResponseContext:
    """What this dialect's parser left in the request."""
    context = ready.request.context
    assert isinstance(context, ResponseContext), "this dialect's parser made the request"
    return context


def output_items(output: Sequence[Mapping[str, Any]], usage: Usage | None) -> list[Item]:
    """A response's output as items of the next one's history."""
    items = [parse_item(item, "output") for item in output]
    for item in items:
        if item.kind == "reasoning" and usage is not None:
            # Where it was kept here it need not be sealed to be known.
            item.message = Message("assistant", "", usage.reasoning_tokens)
    return items


def with_ids(items: Sequence[Item], owner: str) -> list[tuple[str, Item]]:
    """Items with their own ids, or with new ones made of their owner's and their place."""
    tail = owner.rpartition("_")[2]
    return [
        (item.key or f"{PREFIXES.get(item.kind, 'item')}_{tail}{at:04x}", item)
        for at, item in enumerate(items)
    ]


def previous_not_found(response_id: str) -> ApiError:
    """400 for a chain whose last link isn't known."""
    return ApiError(
        400,
        f"Previous response with id {response_id!r} not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def _now() -> int:
    return int(time.time())
