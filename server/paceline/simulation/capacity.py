"""The highest load that still holds an SLO, by bisection over simulated runs.

It takes for granted that more load never makes a service better: with few requests a run, chance
can break that by a little near the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor
from typing import Literal

LoadKind = Literal["rate", "users", "speedup"]

_DOUBLINGS = 24
_HALVINGS = 24


@dataclass(frozen=True, slots=True)
class Probe:
    """One run of the search: its load, what was measured (ms by name), whether it held."""

    load: float
    measured: dict[str, float]
    holds: bool


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the search found.

    `load` is the highest that held, None if none did; `bounded` says whether a higher one broke
    the SLO, so that the answer is an end and not only where the search stopped.
    """

    load: float | None
    bounded: bool
    probes: tuple[Probe, ...]


def find_capacity(
    measure: Callable[[float], Probe],
    *,
    start: float = 1.0,
    whole: bool = False,
    tolerance: float = 0.01,
    most: float = 1e7,
) -> Capacity:
    """Search upwards from `start` by doubling, or downwards by halving, then bisect.

    `whole` loads are whole numbers from 1 up and are found exactly; others to `tolerance`, a
    fraction of the answer. Nothing above `most` is tried.
    """
    probes: list[Probe] = []

    def holds(load: float) -> bool:
        probes.append(measure(load))
        return probes[-1].holds

    low: float | None = None
    high: float | None = None
    load = float(max(floor(start), 1)) if whole else start
    load = min(load, most)
    if holds(load):
        low = load
        for _ in range(_DOUBLINGS):
            if low >= most:
                break
            load = min(low * 2, most)
            if not holds(load):
                high = load
                break
            low = load
    else:
        high = load
        for _ in range(_HALVINGS):
            if whole and high <= 1:
                break
            load = float(floor(high / 2)) if whole else high / 2
            if holds(load):
                low = load
                break
            high = load
    if low is None or high is None:
        return Capacity(low, False, tuple(probes))
    while high - low > (1.0 if whole else tolerance * low):
        load = float(floor((low + high) / 2)) if whole else (low + high) / 2
        if holds(load):
            low = load
        else:
            high = load
    return Capacity(low, True, tuple(probes))
