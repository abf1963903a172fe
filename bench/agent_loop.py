"""An agent's loop over HTTP and over a WebSocket: what the transport saves, and where.

Starts a server and plays a loop of tool calls against it twice: over POST /v1/responses, sending
the whole history each turn, and over the WebSocket, sending only what is new. Tools take no time.
The server's own record of each turn tells what lay before prefill, in prefill and in decoding.

    python bench/agent_loop.py --model spark-1000 --calls 20 --tokens 50 100 200 400
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

import servers
from openai import OpenAI

from paceline.runtime.text import Ring
from paceline.runtime.tokenizer import Tokenizer

HOST = "127.0.0.1"
_ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@dataclass(frozen=True, slots=True)
class Loop:
    """A whole loop, in seconds: as the client saw it, and its parts by the server's records."""

    total_s: float
    before_prefill_s: float
    prefill_s: float
    decode_s: float


def message(text: str) -> dict[str, Any]:
    """One user message as an input item."""
    return {"type": "message", "role": "user", "content": text}


def over_http(client: OpenAI, model: str, turns: list[str], tokens: int) -> None:
    """Every turn sends all that was said before."""
    history: list[Any] = []
    for text in turns:
        history.append(message(text))
        with client.responses.create(
            model=model,
            input=history,
            store=False,
            stream=True,
            extra_body={"paceline": {"output_tokens": tokens}},
        ) as stream:
            for event in stream:
                if event.type in _ENDS:
                    assert event.type == "response.completed", event
                    history += [item.model_dump() for item in event.response.output]


def over_websocket(client: OpenAI, model: str, turns: list[str], tokens: int) -> None:
    """Every turn sends what is new, and names the response before it."""
    previous: str | None = None
    with client.responses.connect() as connection:
        for text in turns:
            frame: Any = {
                "type": "response.create",
                "model": model,
                "input": [message(text)],
                "store": False,
                "paceline": {"output_tokens": tokens},
            }
            if previous is not None:
                frame["previous_response_id"] = previous
            connection.send(frame)
            for event in connection:
                if event.type in _ENDS:
                    assert event.type == "response.completed", event
                    previous = event.response.id
                    break


def records(port: int, count: int) -> list[dict[str, Any]]:
    """The server's records of the latest requests."""
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    connection.request("GET", f"/paceline/requests?limit={count}")
    found: list[dict[str, Any]] = json.loads(connection.getresponse().read())["data"]
    connection.close()
    return found


def play(port: int, args: argparse.Namespace, tokens: int, *, websocket: bool) -> Loop:
    """One loop, timed."""
    ring = Ring(Tokenizer())
    # A prompt of another text each time, so that no loop finds the cache of the one before.
    key = 1_000 * tokens + websocket
    first = ring.window(key, args.prompt_tokens).text()
    results = [ring.window(key + i, args.result_tokens).text() for i in range(1, args.calls + 1)]
    client = OpenAI(base_url=f"http://{HOST}:{port}/v1", api_key="any", max_retries=0)
    run = over_websocket if websocket else over_http
    began = time.perf_counter()
    run(client, args.model, [first, *results], tokens)
    total_s = time.perf_counter() - began
    parts = [record["split_ms"] for record in records(port, args.calls + 1)]
    return Loop(
        total_s,
        sum(part["overhead"] + part["queue"] for part in parts) / 1e3,
        sum(part["prefill"] for part in parts) / 1e3,
        sum(part["decode"] for part in parts) / 1e3,
    )


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="spark-1000")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--tokens", type=int, nargs="+", default=[50, 100, 200, 400])
    parser.add_argument("--prompt-tokens", type=int, default=8_000)
    parser.add_argument("--result-tokens", type=int, default=500)
    args = parser.parse_args()
    print("| Tokens a call | HTTP, s | before prefill | prefill | decode | WebSocket, s |", end="")
    print(" before prefill | prefill | decode | saved |")
    print("|---:" * 10 + "|")
    with servers.own_server() as running:
        for tokens in args.tokens:
            plain = play(running.port, args, tokens, websocket=False)
            socket = play(running.port, args, tokens, websocket=True)
            cells = [tokens]
            for loop in (plain, socket):
                cells += [
                    f"{seconds:.2f}"
                    for seconds in (
                        loop.total_s,
                        loop.before_prefill_s,
                        loop.prefill_s,
                        loop.decode_s,
                    )
                ]
            saved = 1 - socket.total_s / plain.total_s
            print("| " + " | ".join(map(str, cells)) + f" | {saved:.0%} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
