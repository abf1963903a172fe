"""Anthropic's Messages on the common way: the dialect, its headers, and counting tokens."""

from __future__ import annotations

import logging
from collections.abc import Container
from typing import Any

import orjson

from paceline.core.errors import PlanError
from paceline.http.generate import Dialect, parse_json
from paceline.http.respond import (
    JSON,
    ClientGoneError,
    Receive,
    Scope,
    Style,
    public_headers,
    read_body,
    request_id,
    send_body,
    send_error,
)
from paceline.http.sink import Headers, Send
from paceline.runtime.engine import LiveEngine
from paceline.runtime.tiers import UnknownModelError
from paceline.wire.anthropic.encode import ID_PREFIX, MessageStream, whole_message
from paceline.wire.anthropic.errors import error_body, error_status
from paceline.wire.anthropic.request import NAMES, parse_count, parse_message
from paceline.wire.errors import ApiError, from_refusal, model_not_found, server_error

log = logging.getLogger("paceline")

PATH = "/v1/messages"
COUNT_PATH = PATH + "/count_tokens"


def _headers(content_type: bytes, rid: str, processing_s: float) -> Headers:
    del processing_s  # Anthropic's API doesn't tell it; Server-Timing does
    name = rid.encode("ascii")
    return [
        (b"content-type", content_type),
        (b"request-id", name),
        (b"x-request-id", name),
        (b"anthropic-organization-id", b"paceline"),
    ]


STYLE = Style(_headers, error_body, error_status, "anthropic")

MESSAGES = Dialect(PATH, ID_PREFIX, parse_message, MessageStream, whole_message, NAMES, style=STYLE)


def is_anthropic(path: str, headers: Container[str]) -> bool:
    """Whether an error leaves in Anthropic's envelope: by its path, or by who asks."""
    return path == PATH or path.startswith(PATH + "/") or "anthropic-version" in headers


class CountTokens:
    """POST /v1/messages/count_tokens: what the prompt of a message would come to."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        engine = self._engine
        rid = request_id(scope)
        status = 200
        try:
            body = await read_body(scope, receive, engine.settings.max_body_bytes)
            tokens = await self._count(parse_json(body), public_headers(scope))
            answer = orjson.dumps({"input_tokens": tokens})
            await send_body(send, 200, answer, STYLE.headers(JSON, rid, 0.0))
        except ClientGoneError:
            status = 499
        except ApiError as error:
            status = error.status
            await send_error(send, error, rid, 0.0, style=STYLE)
        except Exception:
            status = 500
            log.exception("request %s failed", rid)
            await send_error(send, server_error(), rid, 0.0, style=STYLE)
        engine.metrics.request(COUNT_PATH, status)

    async def _count(self, data: Any, headers: dict[str, str]) -> int:
        request = parse_count(data, headers)
        try:
            self._engine.profile(request.model)
            (prompt,) = request.prompts
            return (await self._engine.counter.measure_async(prompt)).tokens
        except UnknownModelError:
            raise model_not_found(request.model) from None
        except PlanError as refusal:
            raise from_refusal(refusal, NAMES) from None
