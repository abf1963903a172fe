"""The mock server most people write first: one ``asyncio.sleep`` a token.

It is here to be measured, not used. It knows the benchmark's model names, honours
``max_tokens`` and the header ``X-Paceline-TTFT-Ms``, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel

app = FastAPI()

#: Tokens a second of one stream; 0 doesn't wait at all.
RATES = {"wafer-600": 750.0, "b300-340": 340.0, "spark-1000": 1000.0, "instant": 0.0}
#: Milliseconds before the first token when the header names none.
DEFAULT_TTFT_MS = 20.0


class Message(BaseModel):
    role: str
    content: str


class ChatRequest(BaseModel):
    model: str
    messages: list[Message]
    max_tokens: int = 100
    stream: bool = False


def rate_of(model: str) -> float:
    """Tokens a second: from the table, or from the number a name such as ``flat-750`` ends in."""
    if model in RATES:
        return RATES[model]
    return float(model.rpartition("-")[2])


async def events(request: ChatRequest, ttft_s: float) -> AsyncIterator[str]:
    gap = 1 / rate if (rate := rate_of(request.model)) else 0.0
    completion = f"chatcmpl-{uuid.uuid4().hex}"
    created = int(time.time())
    for i in range(request.max_tokens):
        if wait := gap if i else ttft_s:
            await asyncio.sleep(wait)
        chunk = {
            "id": completion,
            "object": "chat.completion.chunk",
            "created": created,
            "model": request.model,
            "choices": [{"index": 0, "delta": {"content": " token"}, "finish_reason": None}],
        }
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


@app.post("/v1/chat/completions")
async def chat(body: ChatRequest, request: Request) -> Response:
    rate = rate_of(body.model)
    default_ms = DEFAULT_TTFT_MS if rate else 0.0
    ttft_s = float(request.headers.get("x-paceline-ttft-ms", default_ms)) / 1000
    if body.stream:
        return StreamingResponse(events(body, ttft_s), media_type="text/event-stream")
    if rate:
        await asyncio.sleep(ttft_s + (body.max_tokens - 1) / rate)
    return JSONResponse(
        {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": " token" * body.max_tokens},
                    "finish_reason": "length",
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": body.max_tokens},
        }
    )
