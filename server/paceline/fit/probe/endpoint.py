"""An OpenAI-compatible endpoint, asked for answers of a known length, a thread a stream."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from paceline.client.sse import DONE
from paceline.client.stream import BaseUrl, EventStream, RefusedError, StreamError

# Common words: one token each with the space before them in the usual vocabularies.
_TEXT = """
    time year people way day man thing woman life child world school state family student group
    country problem hand part place case week company system program question work government
    number night point home water room mother area money story fact month lot right study book
    eye job word business issue side kind head house service friend father power hour game line
"""
_WORDS = _TEXT.split()
_FIELDS_THAT_MAY_BE_UNKNOWN = ("ignore_eos", "reasoning_effort")


class ProbeError(Exception):
    """A probe that can't go on; the message is for people."""


@dataclass(slots=True)
class Answer:
    """A streamed answer. Times are seconds on the clock of `time.perf_counter()`."""

    prompt_tokens: int = 0
    """Those that had to be prefilled: without the cached."""
    output_tokens: int = 0
    sent: float = 0.0
    times: list[float] = field(default_factory=list)
    """When each event with text came in."""

    @property
    def ttft_ms(self) -> float:
        """From the request to the first text."""
        return (self.times[0] - self.sent) * 1000.0

    @property
    def tokens_per_event(self) -> float:
        """How many tokens an event holds, on average."""
        return self.output_tokens / len(self.times)


class Endpoint:
    """Asks one model, never more often than `max_requests`. Safe to use from many threads."""

    def __init__(
        self,
        base: BaseUrl,
        api_key: str,
        model: str,
        max_requests: int,
        *,
        timeout_s: float = 120.0,
    ) -> None:
        self.model = model
        self.left = max_requests
        self._base = base
        self._api_key = api_key
        self._timeout_s = timeout_s
        # Another prefix in every run, so that no prompt cache has met it.
        self._random = random.Random(time.time_ns())
        self._dropped: set[str] = set()
        self._lock = threading.Lock()

    def prompt(self, words: int) -> str:
        """A prompt that nobody has sent before."""
        with self._lock:
            return " ".join(self._random.choices(_WORDS, k=max(words, 8)))

    def ask(self, words: int, tokens: int, began: Callable[[], None] | None = None) -> Answer:
        """One answer. `began` is called at its first text. Raises ProbeError."""
        stream = self._open()
        return self._run(stream, self._body(words, tokens), began)

    def ask_together(self, count: int, words: int, tokens: int) -> list[Answer]:
        """Answers of `count` requests sent at the same moment. Raises ProbeError."""
        streams = [self._open() for _ in range(count)]
        bodies = [self._body(words, tokens) for _ in range(count)]
        answers: list[Answer | None] = [None] * count
        errors: list[Exception] = []
        gate = threading.Barrier(count)

        def run(i: int) -> None:
            gate.wait()
            try:
                answers[i] = self._run(streams[i], bodies[i], None)
            except ProbeError as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return [answer for answer in answers if answer is not None]

    def round_trip_ms(self) -> float:
        """How long the way there and back takes: a request without messages is refused at once."""
        stream = self._open()
        sent = time.perf_counter()
        try:
            sent = stream.send("/chat/completions", {"model": self.model})
            for _ in stream.receive():
                pass
        except RefusedError:
            return (time.perf_counter() - sent) * 1000.0
        except StreamError as error:
            raise ProbeError(str(error)) from error
        finally:
            stream.finish()
        raise ProbeError("the endpoint answers a request that has no messages")

    def _open(self) -> EventStream:
        stream = EventStream(self._base, self._api_key, timeout_s=self._timeout_s)
        with self._lock:
            if self.left < 1:
                raise ProbeError("no request is left of --max-requests")
            self.left -= 1
        try:
            stream.open()
        except StreamError as error:
            raise ProbeError(str(error)) from error
        return stream

    def _body(self, words: int, tokens: int) -> dict[str, Any]:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": self.prompt(words)}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "reasoning_effort": "none",
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return {key: value for key, value in body.items() if key not in self._dropped}

    def _run(
        self, stream: EventStream, body: dict[str, Any], began: Callable[[], None] | None
    ) -> Answer:
        try:
            return _read(stream, body, began)
        except RefusedError as error:
            unknown = [key for key in _FIELDS_THAT_MAY_BE_UNKNOWN if key in body]
            if error.status not in {400, 422} or not any(key in str(error) for key in unknown):
                raise ProbeError(str(error)) from error
        except StreamError as error:
            raise ProbeError(str(error)) from error
        finally:
            stream.finish()
        # The endpoint knows less than vLLM does: ask again without what it named.
        self._dropped.update(unknown)
        again = {key: value for key, value in body.items() if key not in self._dropped}
        return self._run(self._open(), again, began)


def _read(stream: EventStream, body: dict[str, Any], began: Callable[[], None] | None) -> Answer:
    answer = Answer(sent=stream.send("/chat/completions", body))
    for received in stream.receive():
        for event in received.events:
            if event.data == DONE:
                break
            chunk = _object(event.data)
            if (error := chunk.get("error")) is not None:
                raise ProbeError(f"the stream ended with an error: {error}")
            if _has_text(chunk):
                answer.times.append(received.at)
                if began is not None and len(answer.times) == 1:
                    began()
            if isinstance(usage := chunk.get("usage"), dict):
                cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
                answer.prompt_tokens = int(usage.get("prompt_tokens") or 0) - int(cached)
                answer.output_tokens = int(usage.get("completion_tokens") or 0)
    if not answer.times:
        raise ProbeError("an answer had no text")
    if not answer.output_tokens:
        raise ProbeError("the endpoint reports no usage: without it tokens can't be counted")
    return answer


def _has_text(chunk: dict[str, Any]) -> bool:
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or {}
        if delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning"):
            return True
    return False


def _object(data: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ProbeError(f"a chunk is not a JSON object: {data[:80]}")
    return found
