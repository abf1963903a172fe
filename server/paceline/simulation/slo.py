"""The service-level objective: limits on TTFT, TPOT and E2E latency."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from paceline.simulation.lengths import WorkloadError

SLO_NAMES = ("ttft", "tpot", "e2e")


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits in ms by name, and the percentile of the requests that must meet each of them.

    Goodput counts single requests that meet all limits; capacity asks the percentile.
    """

    limits: dict[str, float] = field(default_factory=dict)
    percentile: float = 99.0

    def limit(self, name: str) -> float:
        """The limit in ms, infinite where none was stated."""
        return self.limits.get(name, math.inf)


def parse_slo(text: str | None, percentile: float = 99.0) -> Slo:
    """Read `ttft:2000,tpot:50` (ms). Raises WorkloadError."""
    if not 0 < percentile <= 100:
        raise WorkloadError("the percentile must be above 0 and at most 100")
    limits: dict[str, float] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, _, value = part.strip().partition(":")
        try:
            limit = float(value)
        except ValueError:
            limit = math.nan
        if name not in SLO_NAMES or name in limits or not 0 < limit < math.inf:
            raise WorkloadError(
                f"an SLO is ttft:MS, tpot:MS and e2e:MS, each once and above 0, not {part!r}"
            )
        limits[name] = limit
    return Slo(limits, percentile)
