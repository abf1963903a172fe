"""How the API layer's wait changes with the load and the request: a measured surface.

On real deployments the time to first token holds more than the engine's steps explain, and that
part differs with how many requests are in flight and how long they are. A fit notes it at the
points that it saw; in between it is interpolated (simple kriging of the logarithm, exponential
kernel), and far from them it falls back to the profile's own overhead.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log2

Site = tuple[float, float, float, float]
"""Requests in flight, prompt tokens, output tokens, and the weight of this point."""

RANGES = (4.0, 4.0, 6.0)
"""Over how many doublings of each the correlation falls to 1/e."""


def kernel(a: tuple[float, float, float], b: tuple[float, float, float]) -> float:
    """The correlation of two points given by the binary logarithms of their coordinates."""
    return exp(
        -abs(a[0] - b[0]) / RANGES[0] - abs(a[1] - b[1]) / RANGES[1] - abs(a[2] - b[2]) / RANGES[2]
    )


def coordinates(
    in_flight: float, prompt_tokens: float, output_tokens: float
) -> tuple[float, float, float]:
    """The binary logarithms that the surface lives in; anything below 1 counts as 1."""
    return log2(max(in_flight, 1)), log2(max(prompt_tokens, 1)), log2(max(output_tokens, 1))


class OverheadSurface:
    """The factor on a profile's API overhead: exp of a weighted sum of kernels."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self._sites = [(coordinates(*site[:3]), site[3]) for site in sites]

    def factor(self, in_flight: int, prompt_tokens: int, output_tokens: int) -> float:
        """The factor for a request with `in_flight` requests at the deployment, itself included."""
        if not self._sites:
            return 1.0
        at = coordinates(in_flight, prompt_tokens, output_tokens)
        return exp(sum(weight * kernel(at, site) for site, weight in self._sites))
