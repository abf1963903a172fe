"""Stop strings: where a text ends early, and what must wait until that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopScan:
    """What became of a text: the pieces released, one a token, and whether a stop ended it."""

    pieces: list[str]
    stopped: bool
    held: bool
    """Whether any text left later than its own token, or not at all."""
    stop: str = ""
    """The stop string that ended it."""


_SHORT = 64

_Step = tuple[str, str, str, str]


def scan(texts: Sequence[str], stops: Sequence[str], ignored: int = 0) -> StopScan:
    """Cut a text, given by token, before the first of the stop strings.

    What might be the beginning of a stop string is held back until it is known not to be, and
    flushed with the last token otherwise. The last piece belongs to the token that completes the
    stop string. A stop string completed by one of the first `ignored` tokens counts as text, as
    with vLLM's `min_tokens`. Where one token completes several, the one that begins first counts.
    """
    stops = [stop for stop in stops if stop]
    whole = "".join(texts)
    if not any(stop[0] in whole for stop in stops):
        return StopScan(list(texts), stopped=False, held=False)
    pieces: list[str] = []
    # Everything there is to know of the past is the text held back, and there are few different
    # tokens: most steps are one look-up.
    steps: dict[tuple[str, str], _Step] = {}
    held = ""
    late = False
    for text in texts:
        step = steps.get((held, text))
        if step is None:
            step = _step(held, text, stops)
            # What is held may be as long as a stop string, and differ each time.
            if len(held) < _SHORT:
                steps[held, text] = step
        released, held, before_stop, stop = step
        if stop and len(pieces) >= ignored:
            pieces.append(before_stop)
            return StopScan(pieces, stopped=True, held=True, stop=stop)
        pieces.append(released)
        late = late or bool(held)
    if held:
        pieces[-1] += held
    return StopScan(pieces, stopped=False, held=late)


def _step(held: str, text: str, stops: Sequence[str]) -> _Step:
    """Text released, text held now, and what precedes a stop string that `text` completes."""
    line = held + text
    if not any(stop[0] in line for stop in stops):
        return line, "", "", ""
    begins = []
    for stop in stops:
        # One that ends within the text held before was passed over already.
        at = line.find(stop, max(0, len(held) - len(stop) + 1))
        if at >= 0:
            begins.append((at, stop))
    keep = 0
    longest = max(map(len, stops)) - 1
    for size in range(min(longest, len(line)), 0, -1):
        end = line[-size:]
        if any(len(stop) > size and stop.startswith(end) for stop in stops):
            keep = size
            break
    cut = len(line) - keep
    at, stop = min(begins, default=(0, ""))
    return line[:cut], line[cut:], line[:at], stop
