"""How good fits are: every deployment of a file, half of its points held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paceline.fit.deployment import Errors, FittedProfile, fit_points
from paceline.fit.points import Point

_ENGINE = (
    "step_ms",
    "step_ms_per_seq",
    "seq_exponent",
    "step_ms_per_kv_token",
    "step_ms_per_prefill_token",
    "prefill_step_ms",
    "kv_cache_tokens",
)


def validate(
    deployments: Mapping[str, list[Point]],
    told: Callable[[dict[str, Any]], None] = lambda _row: None,
) -> dict[str, Any]:
    """Fit every second point of each deployment, from the first on, and test on the others.

    The object that `paceline fit --validate --json` prints: errors are fractions, over all points
    held out and by deployment; None where nothing was. `told` gets each deployment as it is done.
    """
    errors = Errors()
    rows: list[dict[str, Any]] = []
    for name, points in deployments.items():
        fit = fit_points(points[::2])
        own = Errors()
        own.add(fit, points[1::2])
        errors.merge(own)
        rows.append(_row(name, len(points[::2]), len(points[1::2]), own, fit))
        told(rows[-1])
    return {
        **errors.to_json(),
        "points": sum(map(len, deployments.values())),
        "held_out": sum(row["n_test"] for row in rows),
        "deployments": rows,
    }


def _row(
    name: str, n_train: int, n_test: int, errors: Errors, fit: FittedProfile
) -> dict[str, Any]:
    engine, overhead = fit.profile.engine, fit.profile.overhead
    return {
        "name": name,
        "n_train": n_train,
        "n_test": n_test,
        **errors.to_json(),
        "parameters": {
            **{key: getattr(engine, key) for key in _ENGINE},
            "overhead_ms": overhead.api_ms_p50,
            "overhead_sites": len(overhead.sites),
            "spare_users": fit.fitted.spare_users,
        },
    }
