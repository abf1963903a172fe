"""How a benchmark loads a deployment: the closed loop that measured points come from.

All users start at once and each has one request under way, ten in all unless the point says
otherwise; prompts and answers are drawn evenly between 0.8 and 1.0 of the stated lengths. The
means that a benchmark prints include the first burst, and here too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from paceline.fit.points import Point

_REQUESTS = 2560
_FEWEST_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Load:
    """The requests of one closed loop, in the order in which they are issued."""

    users: int
    prompts: list[int]
    outputs: list[int]
    weights: list[float]
    """What each request counts in a mean; they sum to 1."""


def load_of(point: Point) -> Load:
    """The requests of a point: always the same for the same point.

    Above 256 users fewer than ten rounds are played, at least four. The last round but one, the
    steadiest, then counts for those left out, so that the bursts after the common start and the
    thinning at the end keep their weight in the means.
    """
    users = point.users
    rounds = min(point.rounds, max(_REQUESTS // users, _FEWEST_ROUNDS))
    drawn = random.Random(f"{point.isl}/{point.osl}/{users}")
    low_isl = max(int(point.shortest * point.isl), 1)
    low_osl = max(int(point.shortest * point.osl), min(2, point.osl))
    count = rounds * users
    prompts = [drawn.randint(low_isl, point.isl) for _ in range(count)]
    outputs = [drawn.randint(low_osl, point.osl) for _ in range(count)]
    edge = 1.0 / (point.rounds * users)
    weights = [edge] * count
    if rounds < point.rounds:
        left_out = point.rounds - rounds
        weights[-2 * users : -users] = [edge * (1 + left_out)] * users
    return Load(users, prompts, outputs, weights)
