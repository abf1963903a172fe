"""What a Paceline server noted of the calls, asked for once the run is over.

The listing tells where each request's time went. Of some streams the record of every write is
read too: where server and client are on one machine, their clocks are one, and from a write to
its stamp is the client's own lateness.
"""

from __future__ import annotations

import http.client
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from paceline.client.stream import BaseUrl
from paceline_loadtest.endpoint import PATHS
from paceline_loadtest.model import Call, Dialect

_MOST_LISTED = 1000
_STREAMS_READ = 24
_TIMEOUT_S = 30.0
_TOLERANCE_S = 0.001


class ServerRecords:
    """Reads records of one server; each method blocks, and gives nothing where there is nothing."""

    def __init__(self, root: BaseUrl, dialect: Dialect, api_key: str = "paceline") -> None:
        self._root = root
        self._dialect = dialect
        self._headers = {"Authorization": f"Bearer {api_key}"}

    def fill(self, calls: Sequence[Call]) -> None:
        """Note in each call where its time went, and what it was billed."""
        listed = self._get(f"/paceline/requests?limit={_MOST_LISTED}")
        rows = [row for row in (listed or {}).get("data", ()) if row.get("state") == "finished"]
        by_id = {row["id"]: row for row in rows}
        if self._dialect == "responses-websocket":
            _name_by_time(calls, [r for r in rows if r["endpoint"].endswith(PATHS["responses"])])
        for call in calls:
            row = by_id.get(call.request_id or "")
            if row is not None:
                _fill(call, row)

    def receipt(self, calls: Sequence[Call], late: array[float]) -> None:
        """Add to `late` how long some streams' tokens took from being written to being stamped."""
        streams = [call for call in calls if call.ok and call.request_id and len(call.chunk_at) > 1]
        # The latest ones, whose records are still there, spread over what is left of the run.
        latest = sorted(streams, key=lambda call: call.end_at or 0.0)[-_MOST_LISTED // 2 :]
        step = max(-(-len(latest) // _STREAMS_READ), 1)
        for call in latest[::step]:
            record = self._get(f"/paceline/requests/{call.request_id}")
            if record is not None and _one_clock(call, record):
                late.extend(_late(call, record))

    def _get(self, path: str) -> dict[str, Any] | None:
        root = self._root
        kind = http.client.HTTPSConnection if root.scheme == "https" else http.client.HTTPConnection
        connection = kind(root.host, root.port, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", root.path + path, headers=self._headers)
            response = connection.getresponse()
            found = orjson.loads(response.read()) if response.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return found if isinstance(found, dict) else None


def _fill(call: Call, row: dict[str, Any]) -> None:
    split = row.get("split_ms") or {}
    server = call.server
    for name in ("overhead", "queue", "prefill", "decode"):
        ms = split.get(name)
        if ms is not None:
            setattr(server, f"{name}_s", ms / 1e3)
    server.profile = row.get("profile") or server.profile
    bill = row.get("bill") or {}
    server.cost_usd = bill.get("cost_usd") or server.cost_usd
    server.credits = bill.get("credits") or server.credits


def _name_by_time(calls: Iterable[Call], rows: Iterable[dict[str, Any]]) -> None:
    """Find the records of calls without ids, as a WebSocket's are: each the next one received.

    Only where the clocks are one; where two calls were sent at nearly the same time, their counts
    of tokens must tell them apart.
    """
    ordered = sorted(rows, key=lambda row: row["received_ns"])
    received = [row["received_ns"] / 1e9 for row in ordered]
    taken: set[int] = set()
    for call in sorted(calls, key=lambda call: call.sent_at or 0.0):
        if not call.ok or call.sent_at is None or call.headers_at is None:
            continue
        at = bisect_left(received, call.sent_at)
        while at < len(ordered) and received[at] <= call.headers_at + _TOLERANCE_S:
            row = ordered[at]
            same = (row["prompt_tokens"], row["output_tokens"]) == (
                call.prompt_tokens,
                call.output_tokens,
            )
            if at not in taken and same:
                taken.add(at)
                call.request_id = row["id"]
                break
            at += 1


def _one_clock(call: Call, record: dict[str, Any]) -> bool:
    """Whether the server's clock is ours: it received the request between our two stamps."""
    if call.sent_at is None or call.first_at is None:
        return False
    received = record["received_ns"] / 1e9
    within: bool = call.sent_at - _TOLERANCE_S <= received <= call.first_at
    return within


def _late(call: Call, record: dict[str, Any]) -> list[float]:
    """From each token's write to the stamp of its chunk, where there is a chunk for each."""
    choices = record.get("choices") or [{"chunks": ()}]
    writes = choices[0]["chunks"]
    received = record["received_ns"] / 1e9
    left = [received + w["left_ms"] / 1e3 for w in writes for _ in range(w["tokens"])]
    if len(left) != len(call.chunk_at):
        # Hidden reasoning comes first, and has no chunks.
        left = left[record.get("reasoning_tokens") or 0 :]
    if len(left) != len(call.chunk_at):
        return []
    return [max(at - sent, 0.0) for at, sent in zip(call.chunk_at, left, strict=True)]
