"""When each chunk of a recorded answer is due: as recorded, scaled, or as a profile would.

At a profile's pace a chunk leaves with the last of the tokens that it holds, counted from its
text: tokens whose text nobody was sent, hidden reasoning, come before the first. The profile is
taken as idle: its first token after an idle machine's time, each further one at its ceiling.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from paceline.client.sse import DONE, SseParser
from paceline.core.profile import Profile
from paceline.recording.document import Exchange
from paceline.recording.turns import Turn

Timing = Literal["recorded", "scaled", "profile"]

Count = Callable[[str], int]
"""The number of tokens of a text."""


def scaled(exchange: Exchange, speed: float) -> tuple[int, list[int], int]:
    """Nanoseconds until the head, each chunk and the end, at so many times the recorded speed."""
    head_ns = exchange.response.head_ns if exchange.response is not None else exchange.end_ns
    times = (round(chunk.at_ns / speed) for chunk in exchange.chunks)
    return round(head_ns / speed), list(times), round(exchange.end_ns / speed)


def as_profile(exchange: Exchange, profile: Profile, count: Count) -> tuple[int, list[int], int]:
    """The same at a profile's pace."""
    weights, prompt, hidden = tokens_of(exchange, count)
    if not sum(weights) and not hidden:
        # An error, say: nothing that a model has made.
        return scaled(exchange, 1.0)
    times = _paced(weights, hidden, prompt, profile)
    # Headers leave with the first chunk that there is, as a server sends them.
    head_ns = times[0] if times else round(idle_ttft_ms(profile, prompt) * 1e6)
    return head_ns, times, times[-1] if times else head_ns


def turn_times(turn: Turn, speed: float, profile: Profile | None, count: Count) -> list[int]:
    """Nanoseconds until each frame of a turn, scaled or, with a profile, at its pace."""
    if profile is None:
        return [round(chunk.at_ns / speed) for chunk in turn.frames]
    weights, usage = [], dict[str, int]()
    for chunk in turn.frames:
        data = _json(chunk.data)
        weights.append(sum(count(text) for text in _texts(data)))
        _note_usage(data, usage)
    shown = sum(weights)
    made = max(usage.get("output", shown) - shown, 0)
    if not shown and not made:
        return [chunk.at_ns for chunk in turn.frames]
    return _paced(weights, made, usage.get("prompt", 0), profile)


def _paced(weights: Sequence[int], made: int, prompt: int, profile: Profile) -> list[int]:
    """When each of some tokens is due, after those that were made before the first."""
    if is_instant(profile):
        return [0] * len(weights)
    token_ns = 1e9 / profile.ceiling_tok_s
    first_ns = idle_ttft_ms(profile, prompt) * 1e6
    times = []
    for weight in weights:
        made += weight
        times.append(round(first_ns + max(made - 1, 0) * token_ns))
    return times


def idle_ttft_ms(profile: Profile, prompt_tokens: int) -> float:
    """The time to a first token on an idle machine, nothing of the prompt cached (ms)."""
    if profile.kind != "engine":
        return profile.flat_ttft_ms
    overhead, engine = profile.overhead, profile.engine
    prefill = prompt_tokens * engine.step_ms_per_prefill_token / engine.data_parallel_size
    api = overhead.round_trip_ms + overhead.api_ms_p50 + overhead.per_token_ms
    return api + overhead.pipeline_stages * overhead.stage_ms + prefill + engine.step_ms


def tokens_of(exchange: Exchange, count: Count) -> tuple[list[int], int, int]:
    """The tokens that each chunk brings, those of the prompt, and those that were not shown."""
    streamed = _is_stream(exchange)
    weights, usage = [], dict[str, int]()
    if streamed:
        parser = SseParser()
        for chunk in exchange.chunks:
            weight = 0
            for event in parser.feed(chunk.data):
                data = None if event.data == DONE else _json(event.data)
                weight += sum(count(text) for text in _texts(data))
                _note_usage(data, usage)
            weights.append(weight)
    else:
        _note_usage(_json(exchange.body), usage)
        weights = [0] * len(exchange.chunks)
    shown = sum(weights)
    made = usage.get("output", shown)
    if not streamed and weights:
        # All of it is there before the first byte leaves.
        return [made, *weights[1:]], usage.get("prompt", 0), 0
    return weights, usage.get("prompt", 0), max(made - shown, 0)


def _is_stream(exchange: Exchange) -> bool:
    response = exchange.response
    if response is None:
        return False
    kinds = (value for key, value in response.headers if key.lower() == "content-type")
    return next(kinds, "").lower().startswith("text/event-stream")


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _note_usage(data: Any, usage: dict[str, int]) -> None:
    """Remember the counts of an event or an object, wherever its dialect puts them."""
    if not isinstance(data, dict):
        return
    for holder in (data, data.get("response"), data.get("message")):
        found = holder.get("usage") if isinstance(holder, dict) else None
        if not isinstance(found, dict):
            continue
        for name, words in (
            ("prompt", ("prompt_tokens", "input_tokens")),
            ("output", ("completion_tokens", "output_tokens")),
        ):
            for word in words:
                if isinstance(found.get(word), int):
                    usage[name] = found[word]


def _texts(data: Any) -> list[str]:
    """What a stream's event adds to the answer: text, reasoning or a tool's arguments."""
    if not isinstance(data, dict):
        return []
    delta = data.get("delta")
    if isinstance(delta, str):
        return [delta]
    if isinstance(delta, dict):
        return _strings(delta, ("text", "thinking", "partial_json"))
    found: list[str] = []
    choices = data.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        found += _strings(choice, ("text",))
        delta = choice.get("delta")
        if isinstance(delta, dict):
            found += _strings(delta, ("content", "reasoning_content", "reasoning", "refusal"))
            calls = delta.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                function = call.get("function") if isinstance(call, dict) else None
                if isinstance(function, dict):
                    found += _strings(function, ("name", "arguments"))
    return found


def _strings(found: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [found[name] for name in names if isinstance(found.get(name), str)]


def model_of(body: bytes) -> tuple[str | None, str | None]:
    """The model and the tier that a request asks for."""
    data = _json(body)
    found = data if isinstance(data, dict) else {}
    model, tier = found.get("model"), found.get("service_tier")
    return (model if isinstance(model, str) else None, tier if isinstance(tier, str) else None)


def is_instant(profile: Profile) -> bool:
    """Whether a profile has no pace at all."""
    return math.isinf(profile.ceiling_tok_s)
