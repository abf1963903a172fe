"""Result files of benchmark programs, each told by what is in it.

Each gives means of a run. Lengths are the mean ones, without spread; where a file doesn't say how
many requests were under way, Little's law does: requests a second times the mean latency.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from paceline.fit.points import Point, PointsError, point_of, read_csv

Named = tuple[str, Point]
"""A model's name, or "", and a point of it."""

_MOST_ROUNDS = 10_000


def read_points(files: Iterable[Path]) -> dict[str, list[Point]]:
    """The points of each deployment of all files: CSV, or results in JSON or JSON Lines.

    Result files of one model are one deployment; where they name none, all of them are. Raises
    PointsError.
    """
    found: dict[str, list[Point]] = {}
    for path in files:
        if path.suffix.lower() in {".json", ".jsonl"}:
            for name, point in _results(path):
                found.setdefault(name or "measured", []).append(point)
        else:
            for name, points in read_csv(path).items():
                found.setdefault(name, []).extend(points)
    return found


def _results(path: Path) -> list[Named]:
    documents = _documents(path)
    if documents and all("metrics" in d and "metadata" in d for d in documents):
        points = list(_aiperf_records(documents))
    else:
        points = [named for document in documents for named in _runs(document)]
    if not points:
        raise PointsError(
            f"{path}: no result of vllm bench serve, guidellm or AIPerf that a fit could use"
        )
    return points


def _documents(path: Path) -> list[dict[str, Any]]:
    """The objects of a file: one, an array of them, or one a line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PointsError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PointsError(f"{path}: is not UTF-8 text") from error
    try:
        whole = json.loads(text)
        found = whole if isinstance(whole, list) else [whole]
    except ValueError:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise PointsError(f"{path}: is neither JSON nor JSON Lines: {error}") from error
    return [document for document in found if isinstance(document, dict)]


def _runs(document: Mapping[str, Any]) -> Iterator[Named]:
    if "benchmarks" in document:
        yield from _guidellm(document)
    elif "time_to_first_token" in document:
        yield from _aiperf(document)
    elif "mean_ttft_ms" in document:
        yield from _vllm(document)


# --- vllm bench serve --save-result --------------------------------------------------------


def _vllm(run: Mapping[str, Any]) -> Iterator[Named]:
    """Totals and means; `max_concurrency` is null where the run had no limit."""
    completed = _number(run.get("completed"))
    if not completed:
        return
    isl = _number(run.get("total_input_tokens")) / completed
    osl = _number(run.get("total_output_tokens")) / completed
    ttft_ms, tpot_ms = _number(run.get("mean_ttft_ms")), _number(run.get("mean_tpot_ms"))
    latency_s = (ttft_ms + tpot_ms * max(osl - 1, 0)) / 1000
    users = _number(run.get("max_concurrency")) or (
        _number(run.get("request_throughput")) * latency_s
    )
    yield from _point(
        _text(run.get("model_id")),
        isl=isl,
        osl=osl,
        users=users,
        ttft_ms=ttft_ms,
        tpot_ms=tpot_ms,
        requests=completed,
    )


# --- guidellm benchmark --------------------------------------------------------------------


def _guidellm(report: Mapping[str, Any]) -> Iterator[Named]:
    """One point a benchmark of a report, from what its successful requests measured."""
    for run in report["benchmarks"]:
        metrics = _at(run, "metrics")

        def mean(name: str, metrics: Any = metrics) -> float:
            return _number(_at(metrics, name, "successful", "mean"))

        strategy = _at(run, "config", "strategy") or _at(run, "args", "strategy")
        users = _number(_at(strategy, "streams")) or mean("request_concurrency")
        if _at(strategy, "type_") == "synchronous":
            users = 1.0
        name = _text(_at(run, "config", "backend", "model") or _at(report, "args", "model"))
        yield from _point(
            name,
            isl=mean("prompt_token_count"),
            osl=mean("output_token_count"),
            users=users,
            ttft_ms=mean("time_to_first_token_ms"),
            tpot_ms=mean("inter_token_latency_ms"),
            requests=_number(_at(metrics, "request_totals", "successful")),
        )


# --- AIPerf --------------------------------------------------------------------------------


def _aiperf(run: Mapping[str, Any]) -> Iterator[Named]:
    """`profile_export_aiperf.json`: aggregates of a run, with the configuration that made it."""

    def mean(name: str) -> float:
        return _number(_at(run, name, "avg")) * _to_ms(_at(run, name, "unit"))

    config = run.get("input_config")
    users = _concurrency(config) or mean("request_throughput") * mean("request_latency") / 1000
    yield from _point(
        _model(config),
        isl=mean("input_sequence_length"),
        osl=mean("output_sequence_length"),
        users=users,
        ttft_ms=mean("time_to_first_token"),
        tpot_ms=mean("inter_token_latency"),
        requests=mean("request_count"),
    )


def _concurrency(config: Any) -> float:
    """The concurrency of the last phase that isn't a warm-up, or of older files' `loadgen`."""
    phases = _at(config, "phases")
    entries = phases.values() if isinstance(phases, dict) else phases
    for phase in reversed(list(entries)) if isinstance(entries, Iterable) else ():
        names = (_at(phase, "name"), _at(phase, "kind"))
        if "warmup" not in names and (users := _number(_at(phase, "concurrency"))):
            return users
    return _number(_at(config, "loadgen", "concurrency"))


def _model(config: Any) -> str:
    models = _at(config, "models") or _at(config, "endpoint", "model_names")
    first = models[0] if isinstance(models, list) and models else models
    return _text(_at(first, "name") or first)


def _aiperf_records(records: list[dict[str, Any]]) -> Iterator[Named]:
    """`profile_export.jsonl`: a line a request, means taken here.

    The users are the most requests that were ever under way at once.
    """
    good = [
        record
        for record in records
        if not record.get("error")
        and _at(record, "metadata", "benchmark_phase") != "warmup"
        and not _at(record, "metadata", "was_cancelled")
    ]

    def mean(name: str) -> float:
        found = [
            _number(_at(r, "metrics", name, "value")) * _to_ms(_at(r, "metrics", name, "unit"))
            for r in good
            if _at(r, "metrics", name) is not None
        ]
        return sum(found) / len(found) if found else 0.0

    yield from _point(
        "",
        isl=mean("input_sequence_length"),
        osl=mean("output_sequence_length"),
        users=_most_at_once(good),
        ttft_ms=mean("time_to_first_token"),
        tpot_ms=mean("inter_token_latency"),
        requests=len(good),
    )


def _most_at_once(records: list[dict[str, Any]]) -> int:
    changes: list[tuple[float, int]] = []
    for record in records:
        changes.append((_number(_at(record, "metadata", "request_start_ns")), 1))
        changes.append((_number(_at(record, "metadata", "request_end_ns")), -1))
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def _to_ms(unit: Any) -> float:
    return {"sec": 1000.0, "s": 1000.0, "us": 1e-3, "ns": 1e-6}.get(str(unit), 1.0)


# --- What they share -----------------------------------------------------------------------


def _point(
    name: str,
    *,
    isl: float,
    osl: float,
    users: float,
    ttft_ms: float,
    tpot_ms: float,
    requests: float,
) -> Iterator[Named]:
    values = {"isl": isl, "osl": osl, "users": users, "ttft_ms": ttft_ms, "tpot_ms": tpot_ms}
    rounds = min(max(round(requests / max(users, 1)), 1), _MOST_ROUNDS)
    point = point_of(values, shortest=1.0, rounds=rounds)
    if point is not None:
        yield name, point


def _at(value: Any, *path: str) -> Any:
    """What lies at a path of keys; None where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
