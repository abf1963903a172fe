"""Running a race: a thread a lane, all started at the same moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paceline.client.stream import BaseUrl, EventStream, StreamError
from paceline.race.lane import Lane


@dataclass(frozen=True, slots=True)
class Course:
    """What every lane is asked: the same, so that all say the same."""

    base: BaseUrl
    prompt: str
    tokens: int
    seed: int
    api_key: str = "paceline"

    def body(self, model: str) -> dict[str, Any]:
        """The request of a lane."""
        return {
            "model": model,
            "messages": [{"role": "user", "content": self.prompt}],
            "max_tokens": self.tokens,
            "ignore_eos": True,
            "seed": self.seed,
            # Hidden thinking would be out of the same number of tokens, so the text would differ.
            "reasoning_effort": "none",
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }


class Race:
    """Lanes that stream side by side, each in a thread of its own."""

    def __init__(self, course: Course, models: Sequence[str]) -> None:
        self.course = course
        self.lanes = [Lane(model, course.tokens) for model in models]
        self.started = 0.0
        """`time.perf_counter()` when the lanes were let go."""
        self._streams = [EventStream(course.base, course.api_key) for _ in models]
        self._go = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=pair, name=f"lane {pair[0].model}", daemon=True)
            for pair in zip(self.lanes, self._streams, strict=True)
        ]

    def start(self) -> None:
        """Connect all lanes, then let them go. Raises StreamError if the server isn't there."""
        try:
            for stream in self._streams:
                stream.open()
        except StreamError:
            for stream in self._streams:
                stream.finish()
            raise
        for thread in self._threads:
            thread.start()
        self.started = time.perf_counter()
        self._go.set()

    @property
    def over(self) -> bool:
        """Whether every lane has ended."""
        return all(lane.over for lane in self.lanes)

    def wait(self, timeout_s: float) -> None:
        """Return when a lane that still runs ends, or after the time."""
        running = next((t for t in self._threads if t.is_alive()), None)
        if running is not None:
            running.join(timeout_s)

    def stop(self) -> None:
        """End what still runs, and every thread."""
        now = time.perf_counter()
        for lane in self.lanes:
            lane.stop(now)
        for stream in self._streams:
            stream.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(2.0)

    def _run(self, lane: Lane, stream: EventStream) -> None:
        self._go.wait()
        try:
            lane.begin(stream.send("/chat/completions", self.course.body(lane.model)))
            for received in stream.receive():
                lane.receive(received.at, received.events)
                if lane.over:
                    break
            lane.end(time.perf_counter())
        except StreamError as error:
            lane.fail(time.perf_counter(), str(error))
        finally:
            stream.finish()
