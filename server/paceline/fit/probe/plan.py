"""What a probe asks, in what order, and what it keeps of the answers.

Each experiment pins one thing down: tiny prompts the overhead, one stream the step and its
jitter, several streams the cost of a sequence, several with long prompts the cost of KV, prompts
of many lengths the prefill and its chunks, prompts beside a running stream the cost of a step
with prefill. Slots show only when a level of streams reaches them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median

from paceline.fit.probe.endpoint import Answer, Endpoint, ProbeError
from paceline.fit.probe.identify import Decode, Shift, Wait, identify_decode
from paceline.fit.probe.trace import line_with_shifts, line_with_stalls

FEWEST_REQUESTS = 40
_TINY_WORDS = 8
_LONG_STREAMS = 8
_BESIDE = 4
"""Streams that prompts come beside; more where there are more replicas."""
_LEAST_TOKENS = 12
"""A shorter run of tokens gives no step."""
_BETWEEN_INJECTIONS = 14
"""Tokens of the stream beside."""
_LONGEST_INJECTED = 2000
_WORDS_TO_CALIBRATE = 400


@dataclass(slots=True)
class Observed:
    """What a probe has seen."""

    requests: int = 0
    decode: list[Decode] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    shifts: list[Shift] = field(default_factory=list)
    tiny_ms: list[float] = field(default_factory=list)
    """TTFTs of tiny prompts on an idle endpoint."""
    tiny_tokens: int = 1
    round_trip_ms: float = 0.0
    """Of the connection: what no server decides."""
    step_ms: float = 0.0
    """Of one stream alone."""
    scatter_ms: float = 0.0
    stalls_ms: list[float] = field(default_factory=list)
    steps_seen: int = 0
    """Steps of one stream in which a stall would have been seen."""
    slots: int = 0
    """Streams that ran at once when more had been sent; 0 where all ran."""
    longest: int = 0


class Probe:
    """One probe of an endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        output_tokens: int = 256,
        longest_prompt: int = 8000,
        replicas: int = 0,
        told: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`replicas` 0: found if it shows. `told` hears what the probe does next."""
        if endpoint.left < FEWEST_REQUESTS:
            raise ProbeError(f"a probe takes at least {FEWEST_REQUESTS} requests")
        self._endpoint = endpoint
        self._budget = endpoint.left
        self._tokens = max(output_tokens, 4 * _LEAST_TOKENS)
        self._longest = longest_prompt
        self._replicas = replicas
        self._told = told
        self._tokens_per_word = 1.0
        self._template_tokens = 0.0
        self.seen = Observed()

    def run(self) -> Observed:
        """All experiments. Raises ProbeError."""
        self._calibrate()
        self._tiny()
        self._one_stream()
        self._levels()
        self._lengths()
        self._long_contexts()
        self._injections()
        self.seen.requests = self._budget - self._endpoint.left
        return self.seen

    def _words(self, tokens: float) -> int:
        return max(round((tokens - self._template_tokens) / self._tokens_per_word), _TINY_WORDS)

    def _calibrate(self) -> None:
        self._told("warming up")
        short = self._endpoint.ask(_TINY_WORDS, 1)
        long = self._endpoint.ask(_WORDS_TO_CALIBRATE, 1)
        words = _WORDS_TO_CALIBRATE - _TINY_WORDS
        self._tokens_per_word = max((long.prompt_tokens - short.prompt_tokens) / words, 0.1)
        self._template_tokens = short.prompt_tokens - _TINY_WORDS * self._tokens_per_word
        self.seen.tiny_tokens = short.prompt_tokens
        self.seen.round_trip_ms = median(self._endpoint.round_trip_ms() for _ in range(3))

    def _tiny(self) -> None:
        count = max(self._budget // 10, 5)
        self._told(f"{count} tiny prompts, one by one")
        for _ in range(count):
            answer = self._endpoint.ask(_TINY_WORDS, 1)
            self.seen.tiny_ms.append(answer.ttft_ms)

    def _note_wait(self, answer: Answer) -> None:
        self.seen.waits.append(Wait(answer.prompt_tokens, answer.ttft_ms))
        self.seen.longest = max(self.seen.longest, answer.prompt_tokens)

    def _one_stream(self) -> None:
        self._told("one stream by itself")
        scatters = []
        for _ in range(2):
            answer = self._endpoint.ask(_TINY_WORDS, self._tokens)
            if len(answer.times) < _LEAST_TOKENS:
                raise ProbeError("answers end before there is a step to be seen in them")
            line = line_with_stalls(answer.times, answer.tokens_per_event)
            scatters.append(line.scatter_ms)
            self.seen.stalls_ms += line.shifts_ms
            self.seen.steps_seen += answer.output_tokens
            self._note_decode(1, [answer], _TINY_WORDS)
        self.seen.scatter_ms = min(scatters)
        self.seen.step_ms = median(row.step_ms for row in self.seen.decode)

    def _levels(self) -> None:
        """Twice as many streams each time; the last level takes what is left for levels."""
        lengths, injections = self._shares()
        spare = self._endpoint.left - lengths - injections - _LONG_STREAMS - _BESIDE
        streams = 2
        while streams >= 2 and not self.seen.slots:
            self._told(f"{streams} streams at once")
            answers = self._endpoint.ask_together(streams, _TINY_WORDS, self._tokens)
            spare -= streams
            if not self._full(streams, answers):
                self._note_decode(streams, answers, _TINY_WORDS)
            streams = 2 * streams if 2 * streams <= spare else spare if spare > streams else 0

    def _shares(self) -> tuple[int, int]:
        """Requests for prompts of many lengths, and for prompts beside a stream."""
        return max(self._budget * 3 // 20, 6), max(self._budget // 10, 4)

    def _full(self, streams: int, answers: list[Answer]) -> bool:
        """Whether some had to wait until others had ended."""
        first_end = min(answer.times[-1] for answer in answers)
        at_once = sum(1 for answer in answers if answer.times[0] < first_end)
        if at_once == streams:
            return False
        self.seen.slots = at_once
        return True

    def _lengths(self) -> None:
        count, _ = self._shares()
        self._told(f"{count} prompts of up to {self._longest} tokens, one by one")
        for i in range(count):
            tokens = self._longest * (i % (count // 2) + 1) / (count // 2)
            try:
                self._note_wait(self._endpoint.ask(self._words(tokens), 1))
            except ProbeError:
                if not self.seen.waits or i > count // 2:
                    raise
                self._longest = int(tokens / 2)

    def _long_contexts(self) -> None:
        """Some streams with long contexts, all decoding at the same time for a while."""
        _, injections = self._shares()
        streams = max(min(_LONG_STREAMS, self._endpoint.left - injections, self.seen.slots or 8), 2)
        prompt = self._longest
        prefill_ms = self._prefill_ms_per_token() * prompt * streams
        catching_up = math.ceil(prefill_ms / self.seen.step_ms)
        tokens = min(self._tokens // 2 + catching_up, 4 * self._tokens)
        self._told(f"{streams} streams with {prompt} tokens of context")
        try:
            answers = self._endpoint.ask_together(streams, self._words(prompt), tokens)
        except ProbeError as error:
            self._told(f"so the cost of KV stays unknown: {error}")
            return
        self._note_decode(streams, answers, prompt)

    def _prefill_ms_per_token(self) -> float:
        long = max(self.seen.waits, key=lambda wait: wait.prompt)
        tiny = median(self.seen.tiny_ms)
        return max(long.ms - tiny, 0.0) / max(long.prompt, 1)

    def _note_decode(self, streams: int, answers: list[Answer], prompt: int) -> None:
        """The step while all of them decode."""
        begin = max(answer.times[0] for answer in answers)
        end = min(answer.times[-1] for answer in answers)
        steps, errors, contexts = [], [], []
        for answer in answers:
            inside = [i for i, at in enumerate(answer.times) if begin <= at <= end]
            if len(inside) < _LEAST_TOKENS:
                continue
            times = [answer.times[i] for i in inside]
            line = line_with_stalls(times, answer.tokens_per_event)
            steps.append(line.step_ms)
            errors.append(line.error_ms)
            middle = (inside[0] + inside[-1]) / 2 * answer.tokens_per_event
            contexts.append(answer.prompt_tokens + middle)
        if steps:
            context = sum(contexts) / len(contexts)
            # Streams share the engine's jitter, so many of them don't make the error smaller.
            row = Decode(streams, context, sum(steps) / len(steps), median(errors))
            self.seen.decode.append(row)
        elif prompt == _TINY_WORDS:
            raise ProbeError(f"{streams} streams never decoded together for long enough")

    def _injections(self) -> None:
        """Prompts that come while a stream decodes on every replica, one a while after another."""
        beside = identify_decode(self.seen.decode, replicas=self._replicas).replicas
        count = min(self._endpoint.left - beside, self._shares()[1])
        if count < 1:
            return
        self._told(f"{count} prompts beside {beside} running")
        step_s = self.seen.step_ms / 1000
        prompts = [min(self._longest, _LONGEST_INJECTED) * (i % 4 + 1) / 4 for i in range(count)]
        gaps_s = [
            _BETWEEN_INJECTIONS * step_s + prompt * self._prefill_ms_per_token() / 1000
            for prompt in prompts
        ]
        first_s = median(self.seen.tiny_ms) / 1000 + 0.05
        tokens = math.ceil((first_s + sum(gaps_s)) / step_s) + 2 * _BETWEEN_INJECTIONS
        began = threading.Semaphore(0)
        with ThreadPoolExecutor(beside + count) as pool:
            running = [
                pool.submit(self._endpoint.ask, _TINY_WORDS, tokens, began.release)
                for _ in range(beside)
            ]
            for future in running:
                future.add_done_callback(lambda _: began.release())
            for _ in running:
                began.acquire()
            # Not one after the other: a long overhead would outlast the stream.
            injected = []
            for prompt, gap_s in zip(prompts, gaps_s, strict=True):
                injected.append(pool.submit(self._endpoint.ask, self._words(prompt), 1))
                time.sleep(gap_s)
            self._note_shifts([f.result() for f in running], [f.result() for f in injected])

    def _note_shifts(self, background: list[Answer], injected: list[Answer]) -> None:
        """What each prompt held up the stream on its own replica: the one held up the most."""
        found: dict[int, Shift] = {}
        for answer in background:
            for i, shift in self._shifts(answer, injected):
                if i not in found or shift.ms > found[i].ms:
                    found[i] = shift
        self.seen.shifts = list(found.values())

    def _shifts(self, background: Answer, injected: list[Answer]) -> Iterator[tuple[int, Shift]]:
        """The shift of a stream's tokens at the end of each prompt's prefill."""
        half = self.seen.step_ms / 2000
        placed = []
        for i, answer in enumerate(injected):
            at = answer.times[0] - half
            place = next((j for j, time in enumerate(background.times) if time >= at), 0)
            if 4 < place < len(background.times) - 4:
                placed.append((i, place))
        if not placed:
            return
        places = [place for _, place in placed]
        line = line_with_shifts(background.times, places, background.tokens_per_event)
        edges = [0, *places, len(background.times)]
        for k, (i, _) in enumerate(placed):
            shortest = min(edges[k + 1] - edges[k], edges[k + 2] - edges[k + 1])
            error = line.scatter_ms * 2.0 / math.sqrt(max(shortest, 1))
            yield i, Shift(injected[i].prompt_tokens, line.shifts_ms[k], error)
