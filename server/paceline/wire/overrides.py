"""What one request fixes for itself: `X-Paceline-*` headers and `paceline` in the body.

A header wins over the body's field of the same meaning. Both are this project's own, so a name
that isn't known is a mistake and is refused: a setting that silently does nothing would spoil a
measurement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paceline.core.request import NO_OVERRIDES, Overrides
from paceline.wire.errors import ApiError, invalid
from paceline.wire.faults import parse_fault
from paceline.wire.fields import Check, an_object, flag, number, one_of, whole

FIELD = "paceline"
PREFIX = "x-paceline-"

_MAX_TOKENS = 100_000_000
_DAY_MS = 86_400_000.0

_TABLE: dict[str, Check] = {
    "output_tokens": whole(0, _MAX_TOKENS),
    "reasoning_tokens": whole(0, _MAX_TOKENS),
    "seed": whole(),
    "ttft_ms": number(0.0, _DAY_MS),
    # No slower than the slowest `flat-RATE`: a token in eleven days.
    "rate": number(1e-6, 1e9),
    "mode": one_of("prose", "echo"),
    "fault": parse_fault,
    "cost_in_body": flag,
}
_DECIMAL = frozenset({"ttft_ms", "rate"})
_HEADERS = {
    "x-paceline-output-tokens": ("output_tokens", "X-Paceline-Output-Tokens"),
    "x-paceline-reasoning-tokens": ("reasoning_tokens", "X-Paceline-Reasoning-Tokens"),
    "x-paceline-seed": ("seed", "X-Paceline-Seed"),
    "x-paceline-ttft-ms": ("ttft_ms", "X-Paceline-TTFT-Ms"),
    "x-paceline-rate": ("rate", "X-Paceline-Rate"),
    "x-paceline-mode": ("mode", "X-Paceline-Mode"),
    "x-paceline-fault": ("fault", "X-Paceline-Fault"),
    "x-paceline-cost-in-body": ("cost_in_body", "X-Paceline-Cost-In-Body"),
}
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DECIMAL_TEXT = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})(e[+-]?[0-9]{1,3})?")


def parse_overrides(headers: Mapping[str, str], field: Any) -> Overrides:
    """The overrides of a request; `field` is the body's `paceline`, None where there is none."""
    found = {} if field is None else _from_body(field)
    named: dict[str, str] = {}
    for key, value in headers.items():
        # Lengths first: this runs over every header of every request.
        if len(key) > len(PREFIX) and key[0] in "xX" and key[:11].lower() == PREFIX:
            name, shown, checked = _from_header(key, value)
            found[name] = checked
            named[name] = shown
    if not found:
        return NO_OVERRIDES
    return _overrides(found, named)


def _from_body(field: Any) -> dict[str, Any]:
    found = {}
    for key, value in an_object(field, FIELD).items():
        check = _TABLE.get(key)
        path = f"{FIELD}.{key}"
        if check is None:
            raise _unknown(path, "known are " + ", ".join(_TABLE))
        if value is not None:
            found[key] = check(value, path)
    return found


def _from_header(key: str, value: str) -> tuple[str, str, Any]:
    entry = _HEADERS.get(key.lower())
    if entry is None:
        shown = ", ".join(header for _, header in _HEADERS.values())
        raise _unknown(key, f"known are {shown}")
    name, shown = entry
    return name, shown, _TABLE[name](_typed(name, shown, value.strip()), shown)


def _typed(name: str, shown: str, value: str) -> Any:
    """A header's text as the type that the field has in a body."""
    if name == "mode":
        return value.lower()
    if name == "fault":
        return value
    if name == "cost_in_body":
        # What else it may be is left to the check, which says what is expected.
        return {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    if name in _DECIMAL:
        if _DECIMAL_TEXT.fullmatch(value.lower()):
            return float(value)
        raise invalid(shown, f"Invalid value for {shown}: expected a number.", "invalid_type")
    if _INTEGER_TEXT.fullmatch(value):
        return int(value)
    raise invalid(shown, f"Invalid value for {shown}: expected an integer.", "invalid_type")


def _overrides(found: dict[str, Any], named: dict[str, str]) -> Overrides:
    output, reasoning = found.get("output_tokens"), found.get("reasoning_tokens")
    if output is not None and reasoning is not None and reasoning > output:
        param = named.get("reasoning_tokens", f"{FIELD}.reasoning_tokens")
        raise invalid(
            param,
            f"Invalid value for {param}: {reasoning} is more than the {output} output tokens.",
        )
    return Overrides(
        output_tokens=output,
        reasoning_tokens=reasoning,
        seed=found.get("seed"),
        ttft_ms=found.get("ttft_ms"),
        rate=found.get("rate"),
        echo=found.get("mode") == "echo",
        fault=found.get("fault"),
        cost_in_body=found.get("cost_in_body"),
    )


def _unknown(param: str, hint: str) -> ApiError:
    return invalid(param, f"Unknown parameter: {param[:100]}; {hint}.", "unknown_parameter")
