"""The server's own record of some requests, and the figures that follow from it.

A figure is computed as the judge it is compared with defines it: see judge.py.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from paceline.core.percentile import percentile

_TIMEOUT_S = 30.0
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Served:
    """One finished request; times in ms of the server's monotonic clock."""

    received_ms: float
    left_ms: tuple[float, ...]
    """When each token was handed to the connection."""
    ended_ms: float

    @property
    def tokens(self) -> int:
        return len(self.left_ms)

    @property
    def ttft_ms(self) -> float:
        return self.left_ms[0] - self.received_ms

    @property
    def decode_ms(self) -> float:
        """First token to last."""
        return self.left_ms[-1] - self.left_ms[0]

    @property
    def gaps_ms(self) -> list[float]:
        pairs = zip(self.left_ms[:-1], self.left_ms[1:], strict=True)
        return [later - earlier for earlier, later in pairs]


Own = Callable[[Sequence[Served]], float]


def mean(of: Callable[[Served], float]) -> Own:
    """The plain mean of something over requests."""
    return lambda requests: sum(map(of, requests)) / len(requests)


def median(of: Callable[[Served], float]) -> Own:
    """The middle of something over requests."""
    return lambda requests: percentile(sorted(map(of, requests)), 50.0)


def worst_hundredth(of: Callable[[Served], Iterable[float]]) -> Own:
    """The 99th percentile of all values of all requests, interpolated."""
    return lambda requests: percentile(sorted(v for r in requests for v in of(r)), 99.0)


def total_tokens(requests: Sequence[Served]) -> float:
    """Output tokens of all requests."""
    return sum(request.tokens for request in requests)


def throughput(until: Callable[[Served], float]) -> Own:
    """Tokens a second, from the first request received to the latest end."""

    def own(requests: Sequence[Served]) -> float:
        begun = min(request.received_ms for request in requests)
        return 1000 * total_tokens(requests) / (max(map(until, requests)) - begun)

    return own


def arrivals(requests: Sequence[Served]) -> float:
    """Requests a second, from the first received to the last."""
    received = sorted(request.received_ms for request in requests)
    return 1000 * (len(received) - 1) / (received[-1] - received[0])


def known_ids(port: int) -> set[str]:
    """The ids of the requests that the server has on record, of the latest thousand."""
    return {record["id"] for record in _get(port, f"/paceline/requests?limit={_MOST}")["data"]}


def fetch(port: int, ids: Iterable[str]) -> list[Served]:
    """What the server recorded of these requests.

    Raises RuntimeError for one that it has no complete record of.
    """
    return [served(_get(port, f"/paceline/requests/{quote(name, safe='')}")) for name in ids]


def served(record: dict[str, Any]) -> Served:
    """A record as `GET /paceline/requests/{id}` gives it."""
    (choice,) = record["choices"]
    if record["state"] != "finished" or choice["chunks_not_kept"]:
        raise RuntimeError(f"the record of {record['id']} is not complete: {record['state']}")
    received = record["received_ns"] / 1e6
    left = [
        received + chunk["left_ms"] for chunk in choice["chunks"] for _ in range(chunk["tokens"])
    ]
    if len(left) != record["output_tokens"]:
        raise RuntimeError(f"{record['id']}: {len(left)} tokens left of {record['output_tokens']}")
    return Served(received, tuple(left), received + record["times_ms"]["ended"])


def _get(port: int, path: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise RuntimeError(f"GET {path}: HTTP {response.status}: {body[:200]!r}")
    found: dict[str, Any] = json.loads(body)
    return found
