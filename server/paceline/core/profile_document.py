"""A profile from a parsed TOML document.

Unknown keys and impossible values are refused with the dotted key's name, so that a profile that
loads is a profile that makes sense.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from paceline.core.overhead import Site
from paceline.core.profile import SECTIONS, SERVED_AS, Profile, ProfileError
from paceline.core.sources import Source, read_sources

_STRONGEST_SITE = 20.0

_ROUNDING = 1e-5
"""How far a rate made of rounded numbers may lie above the one it stands for."""

_TOP = {"name", "title", "owned_by", "models", "notes", "sources", "tiers"}


def parse_profile(data: Mapping[str, Any]) -> Profile:
    """Make a profile from a parsed TOML document.

    Raises ProfileError for an unknown key, a value out of range, a percentile below its median, a
    number without a source, or a source of no number.
    """
    for key in data:
        if key not in _TOP and key not in SECTIONS:
            raise ProfileError(key, "unknown key")
    name = _text(data, "name")
    if not name or any(c.isspace() or c == "/" for c in name):
        raise ProfileError("name", "must be a word without spaces or slashes")
    models = data.get("models", [])
    if not isinstance(models, list) or not all(isinstance(m, str) and m for m in models):
        raise ProfileError("models", "must be a list of names")
    if "engine" not in data:
        raise ProfileError("engine", "missing section")
    parts = {key: _section(key, cls, data[key]) for key, cls in SECTIONS.items() if key in data}
    profile = Profile(
        name=name,
        title=_text(data, "title"),
        owned_by=_text(data, "owned_by", "paceline"),
        notes=_text(data, "notes", ""),
        models=tuple(models),
        tiers=_tiers(data.get("tiers", {})),
        sources=_spread(read_sources(data.get("sources", {}), ProfileError), data),
        **parts,
    )
    _check_pairs(profile)
    _check_sources(profile, data)
    return profile


def _text(data: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise ProfileError(key, "missing" if value is None else "must be a string")
    return value


def _tiers(data: Any) -> dict[str, str]:
    if not isinstance(data, Mapping):
        raise ProfileError("tiers", "must be a table")
    for tier, name in data.items():
        if tier not in SERVED_AS:
            raise ProfileError(f"tiers.{tier}", f"unknown tier; known are {', '.join(SERVED_AS)}")
        if not isinstance(name, str) or not name:
            raise ProfileError(f"tiers.{tier}", "must be the name of a profile")
    return dict(data)


def _section(section: str, cls: type[Any], data: Any) -> Any:
    if not isinstance(data, Mapping):
        raise ProfileError(section, "must be a table")
    known = {item.name: item for item in fields(cls)}
    for key in data:
        if key not in known:
            raise ProfileError(f"{section}.{key}", "unknown key")
    values = {}
    for name, item in known.items():
        if name in data:
            values[name] = _value(f"{section}.{name}", item.metadata, data[name])
        elif item.default is MISSING:
            raise ProfileError(f"{section}.{name}", "missing")
    return cls(**values)


def _value(key: str, meta: Mapping[str, Any], value: Any) -> Any:
    kind = meta["kind"]
    if kind == "bool":
        if not isinstance(value, bool):
            raise ProfileError(key, "must be true or false")
        return value
    if kind == "str":
        if value not in meta["allowed"]:
            raise ProfileError(key, f"must be one of {', '.join(meta['allowed'])}")
        return value
    if kind == "sites":
        return _sites(key, value)
    wanted = int if kind == "int" else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise ProfileError(key, "must be a whole number" if kind == "int" else "must be a number")
    low, high = meta["low"], meta["high"]
    if not math.isfinite(value) or value < low or value > high or (meta["above"] and value <= low):
        span = f"above {low:g}" if meta["above"] else f"at least {low:g}"
        upper = "" if high == math.inf else f" and at most {high:g}"
        raise ProfileError(key, f"must be {span}{upper}, not {value!r}")
    return value if kind == "int" else float(value)


def _sites(key: str, value: Any) -> tuple[Site, ...]:
    sites: list[Site] = []
    for row in value if isinstance(value, list) else [None]:
        if (
            not isinstance(row, list)
            or len(row) != 4
            or not all(isinstance(x, int | float) and math.isfinite(x) for x in row)
            or min(row[:3]) < 1
            or abs(row[3]) > _STRONGEST_SITE
        ):
            raise ProfileError(
                key,
                "must be a list of [in flight, prompt tokens, output tokens, weight], "
                f"the first three at least 1, the weight from -{_STRONGEST_SITE:g} to "
                f"{_STRONGEST_SITE:g}",
            )
        sites.append((float(row[0]), float(row[1]), float(row[2]), float(row[3])))
    return tuple(sites)


def _spread(sources: dict[str, Source], data: Mapping[str, Any]) -> dict[str, Source]:
    """A section's source, on each number that the file gives in it and that has none of its own.

    What the file leaves at its default is nobody's word, and gets no source.
    """
    spread = {key: source for key, source in sources.items() if key not in SECTIONS}
    for section in SECTIONS.keys() & sources.keys():
        for key in data.get(section, {}):
            spread.setdefault(f"{section}.{key}", sources[section])
        if section not in data:
            spread[section] = sources[section]
    return spread


def _check_pairs(profile: Profile) -> None:
    """Values that make sense only together."""
    for section, low, high in (
        ("overhead", "api_ms_p50", "api_ms_p90"),
        ("tenants", "queue_ms_p50", "queue_ms_p90"),
        ("output", "tokens_p50", "tokens_p90"),
    ):
        part = getattr(profile, section)
        if getattr(part, high) < getattr(part, low):
            raise ProfileError(f"{section}.{high}", f"must not be below {low}")
    engine = profile.engine
    if engine.tokens_per_step > 1.0 and engine.tokens_per_step > engine.draft_tokens + 1:
        raise ProfileError("engine.tokens_per_step", "must not be above draft_tokens + 1")
    fastest_ms = engine.step_ms / engine.tokens_per_step
    if profile.overhead.per_token_ms > fastest_ms:
        raise ProfileError(
            "overhead.per_token_ms", f"must not be above the engine's {fastest_ms:g} ms a token"
        )
    slots = engine.max_num_seqs
    if slots and profile.tenants.running >= slots:
        raise ProfileError("tenants.running", "must leave a slot of max_num_seqs free")
    if profile.limits.max_output_tokens > profile.limits.context_tokens:
        raise ProfileError("limits.max_output_tokens", "must not be above context_tokens")
    stated = profile.limits.ceiling_tok_s
    if stated and profile.ceiling_tok_s > stated * (1 + _ROUNDING):
        raise ProfileError(
            "limits.ceiling_tok_s", f"must not be below the engine's {profile.ceiling_tok_s:.6g}"
        )
    if profile.variation.stall_every_steps and not profile.variation.stall_ms:
        raise ProfileError("variation.stall_ms", "must be above 0 where stalls happen")


def _check_sources(profile: Profile, data: Mapping[str, Any]) -> None:
    """Every number that the file gives has a source, and every source has a number."""
    given = {f"{section}.{key}" for section in SECTIONS if section in data for key in data[section]}
    for key in sorted(given):
        if profile.source(key) is None:
            raise ProfileError(f"sources.{key}", "missing: every number needs a source")
    for key in profile.sources:
        if key not in given and key not in data and not key.startswith("fit"):
            raise ProfileError(f"sources.{key}", "names no number of this profile")
