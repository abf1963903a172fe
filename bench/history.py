"""An agent's loop with a growing history: what is cached, and what counting it costs.

Starts a server and plays the turns of one conversation against it over one connection, each turn
sending the whole history again. Prints for each turn the prompt's tokens, how many of them came
from the cache, the prefill that was left (from Server-Timing), and the CPU time that the server
took for the request. Beside it, the time that counting alone takes, measured in this process.

    python bench/history.py --turns 30 --tokens 400000
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import servers

from paceline.core.request import ChatPrompt, Message
from paceline.runtime.prompts import PromptCounter
from paceline.runtime.text import Ring
from paceline.runtime.tokenizer import Tokenizer

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as the client and the operating system saw it."""

    number: int
    prompt_tokens: int
    cached_tokens: int
    prefill_ms: float
    ttft_ms: float
    server_cpu_ms: float
    counting_ms: float


def messages(ring: Ring, turns: int, tokens: int) -> list[dict[str, str]]:
    """A conversation of `turns` user messages and as many answers, `tokens` in all."""
    share = tokens // (2 * turns)
    roles = ("user", "assistant")
    return [
        {"role": roles[i % 2], "content": ring.window(i, share).text()} for i in range(2 * turns)
    ]


def cpu_ms(pid: int) -> float:
    """User and system time of a process so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def post(port: int, body: bytes) -> tuple[dict[str, Any], str]:
    """One request; returns the answer and its Server-Timing."""
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    if response.status != 200:
        raise SystemExit(f"{response.status}: {answer}")
    return answer, response.headers["server-timing"]


def timing_ms(header: str, name: str) -> float:
    """One duration of a Server-Timing header."""
    found = re.search(rf"\b{name};dur=([0-9.]+)", header)
    return float(found[1]) if found else 0.0


def counting_ms(counter: PromptCounter, history: list[dict[str, str]]) -> float:
    """The time to count a history and to hash its blocks, given what was counted before."""
    prompt = ChatPrompt(tuple(Message(m["role"], m["content"]) for m in history))
    began = time.perf_counter()
    counter.measure(prompt, 128, "agent")
    return (time.perf_counter() - began) * 1e3


def play(running: servers.Running, args: argparse.Namespace) -> list[Turn]:
    """All turns of the conversation."""
    tokenizer = Tokenizer()
    history = messages(Ring(tokenizer), args.turns, args.tokens)
    counter = PromptCounter(tokenizer)
    turns = []
    for number in range(1, args.turns + 1):
        sent = history[: 2 * number - 1]
        asked = {"model": args.model, "messages": sent, "max_completion_tokens": 1}
        before = cpu_ms(running.pid)
        answer, header = post(running.port, json.dumps(asked).encode())
        spent = cpu_ms(running.pid) - before
        usage = answer["usage"]
        turns.append(
            Turn(
                number,
                usage["prompt_tokens"],
                usage["prompt_tokens_details"]["cached_tokens"],
                timing_ms(header, "prefill"),
                timing_ms(header, "ttft"),
                spent,
                counting_ms(counter, sent),
            )
        )
    return turns


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="gpt-5.6-sol")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=400_000)
    args = parser.parse_args()
    with servers.own_server() as running:
        turns = play(running, args)
    print("| turn | prompt tokens | cached | prefill ms | TTFT ms | server CPU ms | counting ms |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for t in turns:
        print(
            f"| {t.number} | {t.prompt_tokens:,} | {t.cached_tokens:,} | {t.prefill_ms:.0f} | "
            f"{t.ttft_ms:.0f} | {t.server_cpu_ms:.1f} | {t.counting_ms:.2f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
