"""The token path through sse-starlette: absolute deadlines, all due tokens in one message.

It is here to be measured against Paceline's own way out, with nothing else different that can be
helped: frames are cut once, a stream never waits for a deadline that has passed, and what has
come due leaves in one piece. It knows the benchmark's model names, ``max_tokens`` and the header
``X-Paceline-TTFT-Ms``.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from naive_server import DEFAULT_TTFT_MS, ChatRequest, rate_of
from sse_starlette import EventSourceResponse

app = FastAPI()

_NEVER_S = 3600
_UNPACED_TOKENS = 32


def frame(model: str) -> bytes:
    """One event, the same for every token of a stream."""
    return (
        b'data: {"id":"chatcmpl-%b","object":"chat.completion.chunk","created":%d,"model":"%b",'
        b'"choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}\n\n'
        % (uuid.uuid4().hex.encode(), int(time.time()), model.encode())
    )


async def events(request: ChatRequest, ttft_s: float) -> AsyncIterator[bytes]:
    """Whatever is due, whenever the event loop comes round to this stream."""
    rate = rate_of(request.model)
    event = frame(request.model)
    first = time.monotonic() + ttft_s
    sent = 0
    while sent < request.max_tokens:
        if rate:
            now = time.monotonic()
            due = min(int((now - first) * rate) + 1, request.max_tokens) if now >= first else 0
            if due <= sent:
                await asyncio.sleep(max(first + sent / rate - now, 0.0))
                continue
        else:
            due = min(sent + _UNPACED_TOKENS, request.max_tokens)
        yield event * (due - sent)
        sent = due
    yield b"data: [DONE]\n\n"


@app.post("/v1/chat/completions")
async def chat(body: ChatRequest, request: Request) -> EventSourceResponse:
    """Only streams: the comparison is about them."""
    default_ms = DEFAULT_TTFT_MS if rate_of(body.model) else 0.0
    ttft_s = float(request.headers.get("x-paceline-ttft-ms", default_ms)) / 1000
    return EventSourceResponse(events(body, ttft_s), sep="\n", ping=_NEVER_S)
