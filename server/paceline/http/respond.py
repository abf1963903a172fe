"""Requests' bodies in, small answers out, and the headers that every answer carries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from paceline.http.auth import CALLER, key_of
from paceline.http.sink import Headers, Send
from paceline.runtime.ids import random_hex
from paceline.runtime.keys import NOBODY, Caller, key_id
from paceline.runtime.sink import Timing
from paceline.wire.errors import ApiError, too_large
from paceline.wire.quota import Api

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

JSON = b"application/json"
_ID_LIMIT = 128


class ClientGoneError(Exception):
    """The client left before its request was complete."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first value of a request header; `name` in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


def request_id(scope: Scope) -> str:
    """The request's id: the caller's own `X-Request-Id` where it is usable, else a new one."""
    given = header(scope, b"x-request-id")
    if given and len(given) <= _ID_LIMIT and all(33 <= c <= 126 for c in given):
        return given.decode("ascii")
    return "req_" + random_hex(16)


PRIVATE = frozenset(
    {
        b"authorization",
        b"x-api-key",
        b"api-key",
        b"cookie",
        b"proxy-authorization",
        # Nobody tells us who they are but by a key.
        b"paceline-key-id",
    }
)
"""Headers whose values nobody but the front door gets to see."""


def public_headers(scope: Scope) -> dict[str, str]:
    """The request's headers by lower-case name, without those that carry credentials.

    In their place stands `paceline-key-id`, by which the caller's key can be told from others: the
    first 12 digits of its SHA-256.
    """
    found = {
        key.decode("latin-1"): value.decode("latin-1")
        for key, value in scope["headers"]
        if key not in PRIVATE
    }
    caller: Caller | None = scope.get(CALLER)
    if caller is None:
        given = key_of(scope["headers"])
        caller = Caller(key_id=key_id(given)) if given else NOBODY
    if caller.key_id:
        found["paceline-key-id"] = caller.key_id
    return found


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body, at most `limit` bytes. Raises ApiError (413) and ClientGoneError."""
    announced = header(scope, b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > limit:
        raise too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise too_large(limit)
        if not message.get("more_body", False):
            return b"".join([*parts, part]) if parts else part
        parts.append(part)


def api_headers(content_type: bytes, rid: str, processing_s: float) -> Headers:
    """What OpenAI puts on every answer, and what kind of answer it is."""
    return [(b"content-type", content_type), *identity_headers(rid, processing_s)]


def identity_headers(rid: str, processing_s: float) -> Headers:
    """What OpenAI puts on every answer."""
    return [
        (b"x-request-id", rid.encode("ascii")),
        (b"openai-processing-ms", b"%d" % round(processing_s * 1000)),
        (b"openai-version", b"2020-10-01"),
        (b"openai-organization", b"paceline"),
    ]


@dataclass(frozen=True, slots=True)
class Style:
    """What an API's answers have in common whatever they hold: headers, and how it says no.

    `headers` takes the content type, the request's id and the seconds since it came; `error`
    makes the body of an error; `status` is the API's own status for one of ours.
    """

    headers: Callable[[bytes, str, float], Headers]
    error: Callable[[ApiError, str], bytes]
    status: Callable[[int], int] = int
    api: Api = "openai"


def _openai_error(error: ApiError, rid: str) -> bytes:
    del rid  # it is told in a header alone
    return error.body()


OPENAI = Style(api_headers, _openai_error)


def server_timing(timing: Timing) -> tuple[bytes, bytes]:
    """The Server-Timing header: where the time to here went, in milliseconds."""
    parts: Iterable[tuple[str, float]] = (
        ("overhead", timing.overhead_s),
        ("queue", timing.queue_s),
        ("prefill", timing.prefill_s),
        ("ttft", timing.ttft_s),
        ("decode", timing.decode_s),
        ("total", timing.total_s),
    )
    text = ", ".join(f"{name};dur={seconds * 1000:.3f}" for name, seconds in parts)
    return b"server-timing", text.encode("ascii")


async def send_body(
    send: Send, status: int, body: bytes, headers: Headers, *, head: bool = False
) -> None:
    """An answer in one piece; for HEAD only its headers."""
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else body})


async def refuse_upgrade(scope: Scope, send: Send, error: ApiError, rid: str) -> None:
    """Answer a WebSocket's handshake with an error, where the server can; else with a 403."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        # Then the server makes a 403 of it.
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = api_headers(JSON, rid, 0.0)
    headers += [(k.lower().encode(), v.encode("latin-1")) for k, v in error.headers.items()]
    start = {"type": "websocket.http.response.start", "status": error.status, "headers": headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": error.body()})


async def send_error(
    send: Send,
    error: ApiError,
    rid: str,
    processing_s: float,
    *,
    style: Style = OPENAI,
    head: bool = False,
) -> None:
    """An error in its envelope."""
    headers = style.headers(JSON, rid, processing_s)
    headers += [(k.lower().encode(), v.encode("latin-1")) for k, v in error.headers.items()]
    body = style.error(error, rid)
    await send_body(send, style.status(error.status), body, headers, head=head)
