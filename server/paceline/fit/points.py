"""Measured points of deployments, and the CSV files that hold them."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from paceline.core.percentile import percentile


class PointsError(ValueError):
    """A file that no measured point can be read from; the message is for people."""


@dataclass(frozen=True, slots=True)
class Point:
    """Means over a closed loop of `users`: what one line of a benchmark says.

    `isl` and `osl` are the longest prompt and answer that the benchmark draws, in tokens;
    `shortest` is the shortest as a share of them. Each user sends `rounds` requests. Times are
    ms; one that was not measured is 0.
    """

    isl: int
    osl: int
    users: int
    ttft_ms: float
    tpot_ms: float
    shortest: float = 0.8
    rounds: int = 10


MAX_TOKENS = 1 << 24
MAX_USERS = 1 << 20

_COLUMNS = {
    "isl": ("isl", "input_len", "input_tokens"),
    "osl": ("osl", "output_len", "output_tokens"),
    "users": ("concurrency", "users", "max_concurrency"),
    "ttft_ms": ("ttft_ms", "ttft"),
    "tpot_ms": ("tpot_ms", "tpot"),
}
"""What each column may be called; times without a unit are ms."""


def read_csv(path: Path) -> dict[str, list[Point]]:
    """The points of each deployment of a file, in its order.

    Columns may stand in any order, others are ignored; a file without `deployment` is one
    deployment, named after the file. Rows that say nothing usable are left out. Raises
    PointsError.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _rows(csv.DictReader(file), path)
    except OSError as error:
        raise PointsError(f"{path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise PointsError(f"{path}: is not a CSV file in UTF-8: {error}") from error


def _rows(reader: csv.DictReader[str], path: Path) -> dict[str, list[Point]]:
    names = {(name or "").strip().lower(): name for name in reader.fieldnames or ()}
    columns: dict[str, str] = {}
    for field, known in _COLUMNS.items():
        found = next((names[name] for name in known if name in names), None)
        if found is not None:
            columns[field] = found
        elif field not in {"ttft_ms", "tpot_ms"}:
            raise PointsError(f"{path}: no column {known[0]}")
    if not columns.keys() & {"ttft_ms", "tpot_ms"}:
        raise PointsError(f"{path}: neither a column ttft_ms nor tpot_ms")
    deployment = names.get("deployment")
    found_points: dict[str, list[Point]] = {}
    for row in reader:
        name = (row.get(deployment) or "").strip() if deployment else path.stem
        point = point_of({field: row.get(column) for field, column in columns.items()})
        if point is not None:
            found_points.setdefault(name or path.stem, []).append(point)
    if not found_points:
        raise PointsError(f"{path}: no usable row")
    return found_points


def point_of(
    values: Mapping[str, object], *, shortest: float = 0.8, rounds: int = 10
) -> Point | None:
    """A point of raw values; None when it says nothing that a fit could use."""
    isl, osl, users = (_number(values.get(key)) for key in ("isl", "osl", "users"))
    ttft_ms, tpot_ms = (_time(values.get(key)) for key in ("ttft_ms", "tpot_ms"))
    if min(isl, osl, users) < 1 or max(isl, osl) > MAX_TOKENS or users > MAX_USERS:
        return None
    if round(osl) < 2:
        tpot_ms = 0.0
    if not ttft_ms and not tpot_ms:
        return None
    return Point(round(isl), round(osl), round(users), ttft_ms, tpot_ms, shortest, rounds)


def _number(value: object) -> float:
    """The value as a number; 0 for what is none."""
    try:
        number = float(value)  # type: ignore[arg-type]  # float() tells what is none
    except (TypeError, ValueError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _time(value: object) -> float:
    """A measured time in ms, up to a day; 0 for what can't be one."""
    number = _number(value)
    return number if 1e-6 <= number <= 86_400_000.0 else 0.0


def quantile(values: Iterable[float], q: float) -> float | None:
    """The q-quantile by linear interpolation; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    return percentile(ordered, 100.0 * q)
