"""What `paceline loadtest run` was told, and what of it can't be used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from paceline.runtime.profile_files import ProfileFileError, ProfileRegistry
from paceline_loadtest.arrivals import Arrivals, parse_arrivals
from paceline_loadtest.caps import Caps, parse_price
from paceline_loadtest.errors import LoadTestError
from paceline_loadtest.load import Load
from paceline_loadtest.model import Target
from paceline_loadtest.scenario import Scenario
from paceline_loadtest.scenario_files import ScenarioError, load_scenario
from paceline_loadtest.thresholds import Threshold, ThresholdError, parse_threshold

_FILES = ("json_file", "html_file", "points", "trace")
_NEVER_TOLD = frozenset({*_FILES, "scenario", "compare", "base_url"})
"""Of the options: not part of how a run was made, or told elsewhere, as a target's address is."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `paceline loadtest run` was told."""

    scenario: str
    tiers: Sequence[str] = ()
    targets: Sequence[str] = ()
    base_url: str | None = None
    api_key_env: str | None = None
    profiles: Sequence[Path] = ()
    client: str = "sdk"
    dialect: str | None = None
    loops: int | None = None
    users: int = 1
    think_s: float = 0.0
    rate: float | None = None
    arrivals: str | None = None
    max_in_flight: int | None = None
    duration_s: float | None = None
    seed: int | None = None
    retries: int = 2
    timeout_s: float = 120.0
    max_late_ms: float = 5.0
    fail_if: Sequence[str] = ()
    json_file: Path | None = None
    html_file: Path | None = None
    compare: Path | None = None
    points: Path | None = None
    trace: Path | None = None
    max_tokens_total: int | None = None
    max_cost_usd: float | None = None
    price: str | None = None

    def told(self) -> dict[str, str]:
        """How the run was made, for its results: what differs from nothing at all."""
        found: dict[str, str] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            nothing = value is None or value == () or (field.name == "think_s" and not value)
            if field.name not in _NEVER_TOLD and not nothing:
                found[field.name] = _shown(value)
        return found

    def check(self) -> None:
        """Raise LoadTestError for numbers that are none, and files that can't be written.

        A cap that isn't a number would never be reached; and that a file can't be written is to
        be known before the run, not after it.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            flag = field.name.removesuffix("_file").removesuffix("_s").replace("_", "-")
            if isinstance(value, float) and not math.isfinite(value):
                raise LoadTestError(f"--{flag}: {value} is not a finite number")
            if field.name in _FILES and value is not None:
                path = Path(value)
                if path.is_dir() or not path.parent.is_dir():
                    raise LoadTestError(
                        f"--{flag}: {path} can't be written: it is a folder, or in one that isn't "
                        "there"
                    )


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def scenario_of(name: str) -> Scenario:
    """A scenario by its name or file. Raises LoadTestError."""
    try:
        return load_scenario(name)
    except ScenarioError as error:
        raise LoadTestError(str(error)) from error


def rules_of(texts: Sequence[str]) -> list[Threshold]:
    """The thresholds of `--fail-if`. Raises LoadTestError."""
    try:
        return [parse_threshold(text) for text in texts]
    except ThresholdError as error:
        raise LoadTestError(f"--fail-if: {error}") from error


def one_of(flag: str, value: str, known: Sequence[Any]) -> Any:
    """The value, if it is a known one. Raises LoadTestError."""
    if value not in known:
        raise LoadTestError(f"{flag}: {value!r} is none of {', '.join(known)}")
    return value


def load_of(options: Options, scenario: Scenario) -> Load:
    """The load that is asked for. Raises LoadTestError."""
    arrivals: Arrivals | None = None
    if options.rate is not None or options.arrivals is not None:
        if options.users != 1 or options.think_s:
            raise LoadTestError("--users and --think are a closed load's; --rate is an open one's")
        arrivals = parse_arrivals(options.arrivals or "poisson", options.rate)
    loops = options.loops
    if loops is None and options.duration_s is None:
        loops = len(arrivals.times) if arrivals and arrivals.times else options.users
        if arrivals is not None and not arrivals.times:
            raise LoadTestError("--rate: an open load needs an end: --loops or --duration")
    return Load(
        users=options.users,
        think_s=options.think_s,
        arrivals=arrivals,
        loops=loops,
        duration_s=options.duration_s,
        slots=options.max_in_flight,
        seed=scenario.seed if options.seed is None else options.seed,
    )


def registry_of(paths: Sequence[Path]) -> ProfileRegistry:
    """The profiles that ship, and those given. Raises LoadTestError."""
    try:
        return ProfileRegistry.load(paths)
    except ProfileFileError as error:
        raise LoadTestError(str(error)) from error


def caps_of(options: Options, targets: Sequence[Target]) -> Caps | None:
    """The caps, None where none are needed. Raises LoadTestError."""
    tokens, usd = options.max_tokens_total, options.max_cost_usd
    if all(target.paceline for target in targets) and tokens is None and usd is None:
        return None
    if tokens is None or usd is None or options.price is None:
        missing = [
            flag
            for flag, value in (
                ("--max-tokens-total", tokens),
                ("--max-cost-usd", usd),
                ("--price", options.price),
            )
            if value is None
        ]
        raise LoadTestError(
            f"{', '.join(missing)}: an endpoint that isn't Paceline may cost money, and is only "
            "asked with all three"
        )
    return Caps(tokens, usd, parse_price(options.price))
