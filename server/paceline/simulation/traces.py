"""Traces from files: Azure's CSV, Mooncake's JSON lines, and what this program recorded itself."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TextIO

from paceline.simulation.arrivals import Trace

TraceFormat = Literal["azure", "mooncake", "recording", "requests"]

MOONCAKE_BLOCK_TOKENS = 512
"""Tokens under one of Mooncake's hash ids, as its trace's description says."""

RECORDING_BLOCK_TOKENS = 128
"""Tokens under one block of our own recordings, unless a line says otherwise."""

_MOST_NS = 1 << 61


class TraceError(ValueError):
    """A trace that can't be used: which file, which line, and why."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        where = f"{path}:{line}" if line else f"{path}"
        super().__init__(f"{where}: {reason}")


def load_trace(path: Path) -> tuple[Trace, TraceFormat]:
    """Read a trace; its form is told by its first line. Raises TraceError."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            kind = _kind(path, file.readline())
            file.seek(0)
            trace = _READERS[kind](path, file)
    except OSError as error:
        raise TraceError(path, 0, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise TraceError(path, 0, "is not UTF-8 text") from error
    if not len(trace):
        raise TraceError(path, 0, "holds no request")
    return trace.in_order(), kind


def _kind(path: Path, first: str) -> TraceFormat:
    if first.upper().startswith("TIMESTAMP,"):
        return "azure"
    if '"hash_ids"' in first or '"input_length"' in first:
        return "mooncake"
    if '"at_s"' in first:
        return "recording"
    # A saved listing is one JSON object, perhaps over many lines.
    if first.lstrip()[:1] in {"{", "["}:
        return "requests"
    raise TraceError(
        path,
        1,
        "is neither an Azure CSV (TIMESTAMP,ContextTokens,GeneratedTokens), nor Mooncake JSON "
        "lines, nor a recording of this program",
    )


def _azure(path: Path, file: TextIO) -> Trace:
    trace = Trace()
    rows = csv.reader(file)
    header = [name.strip() for name in next(rows)]
    try:
        columns = [header.index(n) for n in ("TIMESTAMP", "ContextTokens", "GeneratedTokens")]
    except ValueError as error:
        raise TraceError(path, 1, "needs TIMESTAMP, ContextTokens and GeneratedTokens") from error
    for row in rows:
        if not row:
            continue
        try:
            stamp, prompt, output = (row[i] for i in columns)
            trace.add(_stamp_ns(stamp), _count(int(prompt)), _count(int(output)))
        except (ValueError, IndexError) as error:
            raise TraceError(path, rows.line_num, f"can't be read: {error}") from error
    return trace


def _stamp_ns(text: str) -> int:
    """A time such as `2023-11-16 18:15:46.6805900`, exactly: its digits go past microseconds."""
    whole = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
    fraction = text[19:].partition("+")[0].removesuffix("Z")
    if fraction and not (fraction.startswith(".") and fraction[1:].isdigit()):
        raise ValueError(f"{text!r} is no time")
    seconds = int((whole - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return seconds * 1_000_000_000 + int(fraction[1:10].ljust(9, "0"))


def _mooncake(path: Path, file: TextIO) -> Trace:
    trace = Trace(MOONCAKE_BLOCK_TOKENS)
    for line, data in _objects(path, file):
        try:
            trace.add(
                _time_ns(data["timestamp"], 1e6),
                _count(data["input_length"]),
                _count(data["output_length"]),
                _ids(data.get("hash_ids", [])),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise TraceError(path, line, f"can't be read: {error}") from error
    return trace


def _recording(path: Path, file: TextIO) -> Trace:
    trace: Trace | None = None
    for line, data in _objects(path, file):
        try:
            block_tokens = _count(data.get("block_tokens", RECORDING_BLOCK_TOKENS))
            if trace is None:
                trace = Trace(block_tokens)
            if block_tokens != trace.block_tokens or not block_tokens:
                raise ValueError("block_tokens must be above 0 and the same on every line")
            trace.add(
                _time_ns(data["at_s"], 1e9),
                _count(data["prompt_tokens"]),
                _count(data["output_tokens"]),
                _ids(data.get("blocks") or []),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise TraceError(path, line, f"can't be read: {error}") from error
    return trace or Trace()


def _requests(path: Path, file: TextIO) -> Trace:
    """A saved answer of `GET /paceline/requests`: arrivals and lengths; it has no blocks."""
    trace = Trace()
    try:
        data = json.load(file)
        records = data["data"] if isinstance(data, dict) else data
        for record in records:
            if record["state"] != "running":
                trace.add(
                    _time_ns(record["created"], 1e9),
                    _count(record["prompt_tokens"]),
                    _count(record["output_tokens"]),
                )
    except (json.JSONDecodeError, KeyError, ValueError, TypeError) as error:
        reason = f"is no saved listing of requests: {error!r}"
        raise TraceError(path, 0, reason) from error
    return trace


def _objects(path: Path, file: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except ValueError as error:
            raise TraceError(path, number, f"is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise TraceError(path, number, "must be an object")
        yield number, data


def _time_ns(value: Any, unit_ns: float) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no time")
    if abs(value) * unit_ns > _MOST_NS:
        raise ValueError(f"{value!r} is out of range")
    return round(value * unit_ns) if isinstance(value, float) else value * int(unit_ns)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
        raise ValueError(f"{value!r} is no number of tokens")
    return value


def _ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(i) is int for i in value):
        raise ValueError("block ids must be a list of whole numbers")
    return tuple(value)


_READERS = {
    "azure": _azure,
    "mooncake": _mooncake,
    "recording": _recording,
    "requests": _requests,
}
