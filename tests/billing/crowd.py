"""Many clients at once that write down what they were told, to hold a ledger against."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.core.usage import Usage

Way = Literal["chat", "completions", "responses", "messages"]

PATHS: Mapping[Way, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}


@dataclass(frozen=True, slots=True)
class Errand:
    """One request and how its client behaves; `leave_after` are events after which it leaves."""

    id: str
    key: str
    way: Way
    model: str
    prompt: str
    output_tokens: int
    stream: bool
    leave_after: int | None = None
    fault: str | None = None
    rate: float | None = None
    ttft_ms: float | None = None
    tier: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Of its request."""
        found = {"Authorization": f"Bearer {self.key}", "X-Request-Id": self.id}
        if self.fault is not None:
            found["X-Paceline-Fault"] = self.fault
        return found

    @property
    def body(self) -> dict[str, Any]:
        """In its dialect."""
        wishes: dict[str, Any] = {"output_tokens": self.output_tokens}
        if self.rate is not None:
            wishes["rate"] = self.rate
        if self.ttft_ms is not None:
            wishes["ttft_ms"] = self.ttft_ms
        found: dict[str, Any] = {"model": self.model, "stream": self.stream, "paceline": wishes}
        if self.tier is not None:
            found["service_tier"] = self.tier
        message = [{"role": "user", "content": self.prompt}]
        match self.way:
            case "chat":
                found["messages"] = message
                if self.stream:
                    found["stream_options"] = {"include_usage": True}
            case "completions":
                found["prompt"] = self.prompt
                if self.stream:
                    found["stream_options"] = {"include_usage": True}
            case "responses":
                found["input"] = self.prompt
                found["store"] = False
            case "messages":
                found["messages"] = message
                found["max_tokens"] = max(self.output_tokens, 1)
        return found


@dataclass(slots=True)
class Told:
    """What a client was told; `usage` only of an answer that came to its proper end."""

    errand: Errand
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    events: int = 0
    usage: Usage | None = None
    error: str = ""
    broke: str = ""
    """Why the connection ended before the answer did."""


async def run(
    host: str,
    port: int,
    errands: list[Errand],
    at_once: int,
    ended: Callable[[Told], None] = lambda _told: None,
) -> list[Told]:
    """Run all errands, so many at once, each on a connection of its own.

    `ended` is called with each that has come to its end.
    """
    gate = asyncio.Semaphore(at_once)

    async def one(errand: Errand) -> Told:
        async with gate:
            told = Told(errand)
            try:
                await asyncio.wait_for(_ask(host, port, told), 60)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                told.broke = type(error).__name__
            ended(told)
            return told

    return list(await asyncio.gather(*map(one, errands)))


async def _ask(host: str, port: int, told: Told) -> None:
    errand = told.errand
    body = json.dumps(errand.body).encode()
    head = [f"POST {PATHS[errand.way]} HTTP/1.1", f"Host: {host}:{port}", "Connection: close"]
    head += [f"{name}: {value}" for name, value in errand.headers.items()]
    head += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 22)
    try:
        writer.write("\r\n".join(head).encode() + body)
        await writer.drain()
        await _read(reader, told)
    finally:
        # Not a polite end: whoever leaves in the middle just goes.
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader, told: Told) -> None:
    raw = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    told.status = int(raw[0].split(" ", 2)[1])
    told.headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in raw[1:] if line)
    }
    chunked = told.headers.get("transfer-encoding") == "chunked"
    if not told.headers.get("content-type", "").startswith("text/event-stream"):
        if chunked:
            data = b"".join([piece async for piece in _chunks(reader)])
        else:
            data = await reader.readexactly(int(told.headers["content-length"]))
        document = json.loads(data)
        if told.status == 200:
            told.usage = usage_of(document["usage"])
        else:
            told.error = document["error"].get("code") or document["error"]["type"]
        return
    rest = b""
    last: dict[str, Any] = {}
    ended = False
    async for piece in _chunks(reader):
        *whole, rest = (rest + piece).split(b"\n\n")
        for event in whole:
            told.events += 1
            ended = _take(event, last, told) or ended
            if told.events == told.errand.leave_after:
                told.broke = "left"
                return
    if ended and last and not told.error:
        told.usage = usage_of(last)
    else:
        told.broke = told.broke or "no end"


async def _chunks(reader: asyncio.StreamReader) -> Any:
    """The pieces of a chunked body; raises IncompleteReadError where it breaks off."""
    while True:
        size = int((await reader.readuntil(b"\r\n"))[:-2], 16)
        data = await reader.readexactly(size + 2)
        if not size:
            return
        yield data[:-2]


def _take(event: bytes, usage: dict[str, Any], told: Told) -> bool:
    """Look at one event; whether it is the one that ends an answer."""
    line = next((x for x in event.split(b"\n") if x.startswith(b"data: ")), b"")[6:]
    if line == b"[DONE]":
        return True
    if not line:
        return False
    document = json.loads(line)
    kind = document.get("type")
    if document.get("error") or kind in {"error", "response.failed"}:
        told.error = str(document.get("error") or kind)
        return False
    # Messages tells the prompt's tokens first and the output's last; the others all at the end.
    holder = document.get("message") or document.get("response") or document
    usage.update({k: v for k, v in (holder.get("usage") or {}).items() if v is not None})
    return kind in {"message_stop", "response.completed", "response.incomplete"}


def usage_of(found: Mapping[str, Any]) -> Usage:
    """A dialect's usage object as counts."""
    if "prompt_tokens" in found:
        prompt = found["prompt_tokens_details"]
        return Usage(
            found["prompt_tokens"],
            found["completion_tokens"],
            prompt["cached_tokens"],
            prompt.get("cache_write_tokens") or 0,
            (found.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0,
        )
    if "input_tokens_details" in found:
        return Usage(
            found["input_tokens"],
            found["output_tokens"],
            found["input_tokens_details"]["cached_tokens"],
            found["input_tokens_details"]["cache_write_tokens"],
            found["output_tokens_details"]["reasoning_tokens"],
        )
    # Messages counts what was read from the cache or written to it apart from the rest.
    cached = found.get("cache_read_input_tokens") or 0
    written = found.get("cache_creation_input_tokens") or 0
    details = found.get("output_tokens_details") or {}
    return Usage(
        found["input_tokens"] + cached + written,
        found["output_tokens"],
        cached,
        written,
        details.get("thinking_tokens") or 0,
    )
