"""What a WebSocket of responses is made of: its sink, its memory, its errors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from paceline.core.usage import Usage
from paceline.http.responses import Keeper
from paceline.http.sink import HandSender
from paceline.runtime.sink import Timing
from paceline.wire.errors import ApiError
from paceline.wire.jsonbytes import json_bytes
from paceline.wire.responses.events import SEPARATOR
from paceline.wire.responses.items import Item

_REMEMBERED = 16
"""Latest responses of a connection that can be continued though they weren't stored."""


class FrameSink:
    """One response's way out: each event a text frame. A `Sink`."""

    def __init__(
        self, sender: HandSender, ended: Callable[[], None], stream_id: str | None
    ) -> None:
        self.drained: Callable[[], None] | None = None
        self._sender = sender
        self._ended = ended
        self._stream_id = stream_id

    @property
    def blocked(self) -> bool:
        """Whether the connection can't take more."""
        return self._sender.blocked

    def begin(self, timing: Timing | None) -> None:
        """Nothing: frames have no headers."""

    def write(self, data: bytes) -> None:
        """Send some events."""
        post = self._sender.post
        for frame in data.decode().split("\n")[:-1]:
            post({"type": "websocket.send", "text": frame})

    def end(self, data: bytes) -> None:
        """Send the last events."""
        self.write(data)
        self._ended()

    def refuse(self, status: int, message: str, code: str) -> None:
        """Send an error in place of an answer."""
        self.end(error_frame(ApiError(status, message, code=code), self._stream_id))

    def whole(self, usage: Usage, timing: Timing) -> None:
        """Never called: over a WebSocket every answer is a stream."""
        raise AssertionError

    async def ready(self) -> None:
        """Wait until the reader has caught up."""
        await self._sender.ready()


class Memory:
    """The connection's own latest responses, in front of what everybody can see."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._latest: OrderedDict[str, Sequence[Item]] = OrderedDict()

    def remember(self, response_id: str, items: Sequence[Item]) -> None:
        """Keep a response of this connection."""
        self._latest[response_id] = items
        if len(self._latest) > _REMEMBERED:
            self._latest.popitem(last=False)

    def response(self, response_id: str) -> Sequence[Item]:
        """All items up to and with a response's own output. Raises ApiError."""
        found = self._latest.get(response_id)
        return self._keeper.response(response_id) if found is None else found

    def conversation(self, conversation_id: str) -> Sequence[Item]:
        """A conversation's items. Raises ApiError."""
        return self._keeper.conversation(conversation_id)

    def item(self, item_id: str) -> Item | None:
        """An item by its id."""
        for items in reversed(self._latest.values()):
            for item in reversed(items):
                if item.key == item_id:
                    return item
        return self._keeper.item(item_id)


def error_frame(error: ApiError, stream_id: str | None) -> bytes:
    """An error as a frame, with what would have been its headers."""
    inside: dict[str, Any] = {
        "type": error.type,
        "code": error.code,
        "message": error.message,
        "param": error.param,
        **error.extra,
    }
    frame: dict[str, Any] = {
        "type": "error",
        "status": error.status,
        "error": inside,
        "headers": {key.lower(): value for key, value in error.headers.items()},
    }
    if stream_id is not None:
        frame["stream_id"] = stream_id
    return json_bytes(frame) + SEPARATOR


def upgrade_required() -> ApiError:
    """426: WebSockets are switched off, or a plain request asked for the wrong thing."""
    return ApiError(
        426,
        "This endpoint is not served over WebSockets here: send the request by POST.",
        code="upgrade_required",
        headers={"Upgrade": "websocket", "Connection": "Upgrade"},
    )


def expired(limit_s: float) -> ApiError:
    """400: a connection has lived as long as it may."""
    minutes = limit_s / 60
    return ApiError(
        400,
        f"Responses websocket connection limit reached ({minutes:g} minutes). "
        "Create a new websocket connection to continue.",
        code="websocket_connection_limit_reached",
    )
