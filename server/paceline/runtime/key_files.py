"""The keys file: `[[keys]]` tables, each a key's digest and what the key may do.

Unknown keys and impossible values are refused with file, key and reason, because a limit with a
typing mistake is one that silently isn't there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from paceline.core.ledger import BUDGET_PERIODS, Terms, Window
from paceline.core.money import to_pico
from paceline.core.profile import SERVED_AS
from paceline.runtime.caller import KEY_ID_DIGITS, WHEN_FULL, WHEN_NOT_ENTITLED, Caller
from paceline.runtime.limits import NO_OWN_SIZES, OwnSizes
from paceline.runtime.toml_files import FileError, read_toml

MOST = 1_000_000
"""Largest amount of dollars or credits: sums of such in pico fit 64 bits."""

WINDOWS: Mapping[str, int] = {"window_5h_credits": 300, "window_week_credits": 10_080}
"""Minutes of the windows, in the order of Codex's primary and secondary."""
AMOUNTS = ("budget_usd", "budget_credits", "prepaid_usd", "prepaid_credits", *WINDOWS)
LIMITS: Mapping[str, int] = {"rpm": 10**9, "tpm": 10**12, "rpd": 10**9, "max_streams": 10**6}
"""A key's own limits, each with the most it can be."""
TIERS = ("default", *SERVED_AS)

KNOWN = (
    "name",
    "sha256",
    *AMOUNTS,
    "budget_period",
    "tiers",
    "default_tier",
    *LIMITS,
    "limits",
    "plan_type",
    "admin",
    "when_full",
    "when_not_entitled",
    "expires",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_PLAN = re.compile(r"[a-z][a-z0-9_]{0,31}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MISSING: Final = object()

W = TypeVar("W", bound=str)


class KeyFileError(FileError):
    """A keys file that can't be used: which file, which key, and why."""


class Entry(NamedTuple):
    """A key that is let in: its whole digest, and until when (Unix time; None is for good)."""

    caller: Caller
    digest: bytes
    expires_s: float | None = None


class _RefusedError(Exception):
    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


def load_keys(path: Path) -> tuple[Entry, ...]:
    """Read a keys file. Raises KeyFileError."""
    return _parsed(path, lambda: read_toml(path, KeyFileError, parse_float=Decimal))


def keys_of(text: str, path: Path | None = None) -> tuple[Entry, ...]:
    """The keys of a file's text. Raises KeyFileError, which names `path`."""
    return _parsed(path, lambda: tomllib.loads(text, parse_float=Decimal))


def _parsed(path: Path | None, read: Callable[[], Mapping[str, Any]]) -> tuple[Entry, ...]:
    try:
        return _entries(read())
    except KeyFileError:
        raise
    except _RefusedError as refused:
        raise KeyFileError(path, refused.key, refused.reason) from None
    except (ValueError, ArithmeticError, RecursionError) as error:
        # What the TOML reader itself stumbles over: numbers of thousands of digits, endless nests.
        raise KeyFileError(path, "", f"can't be read: {error}") from None


def _entries(data: Mapping[str, Any]) -> tuple[Entry, ...]:
    _only("", data, ("keys",))
    tables = data.get("keys", [])
    if not isinstance(tables, list):
        raise _RefusedError("keys", "must be tables: [[keys]]")
    found: list[Entry] = []
    names: dict[str, str] = {}
    ids: dict[str, str] = {}
    for i, table in enumerate(tables):
        where = f"keys[{i}]"
        entry = _entry(where, table)
        for key, value, taken in (
            ("name", entry.caller.name, names),
            ("sha256", entry.caller.key_id, ids),
        ):
            if value in taken:
                raise _RefusedError(f"{where}.{key}", f"is that of {taken[value]} too")
            taken[value] = where
        found.append(entry)
    return tuple(found)


def _entry(where: str, table: Any) -> Entry:
    if not isinstance(table, Mapping):
        raise _RefusedError(where, "must be a table")
    _only(where, table, KNOWN)
    digest = _text(where, table, "sha256", _DIGEST, "must be the 64 hex digits of a SHA-256")
    limits = _limits(where, table)
    tiers = _tiers(where, table)
    default = _word(where, table, "default_tier", TIERS) or "default"
    if tiers is not None and default != "default" and SERVED_AS[default] not in tiers:
        raise _RefusedError(f"{where}.default_tier", "must be one of its tiers")
    admin = table.get("admin", False)
    if not isinstance(admin, bool):
        raise _RefusedError(f"{where}.admin", "must be true or false")
    plan = None
    if "plan_type" in table:
        plan = _text(where, table, "plan_type", _PLAN, "must be a word such as plus")
    caller = Caller(
        key_id=digest[:KEY_ID_DIGITS],
        name=_text(where, table, "name", _NAME, "must be a word of at most 64 characters"),
        terms=_terms(where, table),
        tiers=tiers,
        default_tier=default,
        limits=limits,
        tier_limits=_tier_limits(f"{where}.limits", table.get("limits", {}), limits),
        plan_type=plan,
        admin=admin,
        when_full=_word(where, table, "when_full", WHEN_FULL),
        when_not_entitled=_word(where, table, "when_not_entitled", WHEN_NOT_ENTITLED),
    )
    return Entry(caller, bytes.fromhex(digest), _expires(where, table))


def _terms(where: str, table: Mapping[str, Any]) -> Terms:
    amounts = {key: _amount(where, key, table[key]) for key in AMOUNTS if key in table}
    period = _word(where, table, "budget_period", BUDGET_PERIODS)
    if period is not None and not amounts.keys() & {"budget_usd", "budget_credits"}:
        raise _RefusedError(f"{where}.budget_period", "is of no use without a budget")
    primary, secondary = (
        Window(minutes, amounts.pop(key)) if key in amounts else None
        for key, minutes in WINDOWS.items()
    )
    return Terms(budget_period=period or "total", primary=primary, secondary=secondary, **amounts)


def _amount(where: str, key: str, value: Any) -> int:
    key = f"{where}.{key}"
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _RefusedError(key, "must be a number")
    if isinstance(value, Decimal) and not value.is_finite():
        raise _RefusedError(key, f"must be a number, not {value}")
    if not 0 <= value <= MOST:
        raise _RefusedError(key, f"must be from 0 to {MOST}")
    try:
        return to_pico(value)
    except (ValueError, ArithmeticError):
        raise _RefusedError(key, "must have at most 12 digits behind the point") from None


def _limits(where: str, table: Mapping[str, Any]) -> OwnSizes:
    found: dict[str, int] = {}
    for key, most in LIMITS.items():
        if key not in table:
            continue
        value = table[key]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise _RefusedError(f"{where}.{key}", f"must be a whole number from 0 to {most}")
        found[key] = value
    return OwnSizes(**found) if found else NO_OWN_SIZES


def _tier_limits(where: str, table: Any, others: OwnSizes) -> dict[str, OwnSizes]:
    if not isinstance(table, Mapping):
        raise _RefusedError(where, "must be tables, one for a tier: [keys.limits.ultrafast]")
    found: dict[str, OwnSizes] = {}
    for tier, inside in table.items():
        inner = f"{where}.{tier}"
        if tier not in TIERS:
            raise _RefusedError(inner, f"unknown tier; known are {', '.join(TIERS)}")
        if not isinstance(inside, Mapping):
            raise _RefusedError(inner, "must be a table")
        _only(inner, inside, LIMITS)
        served = SERVED_AS.get(str(tier), str(tier))
        if served in found:
            raise _RefusedError(inner, f"is another name of {served}, which has limits already")
        found[served] = _limits(inner, inside).before(others)
    return found


def _tiers(where: str, table: Mapping[str, Any]) -> frozenset[str] | None:
    given = table.get("tiers")
    if given is None:
        return None
    if not isinstance(given, list) or not all(tier in TIERS for tier in given):
        raise _RefusedError(f"{where}.tiers", f"must be a list of some of {', '.join(TIERS)}")
    return frozenset(SERVED_AS.get(str(tier), str(tier)) for tier in given)


def _expires(where: str, table: Mapping[str, Any]) -> float | None:
    given = table.get("expires")
    if given is None:
        return None
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise _RefusedError(
            f"{where}.expires", "must be a moment with its zone: 2027-01-31T00:00:00Z"
        )
    return given.timestamp()


def _text(
    where: str, table: Mapping[str, Any], key: str, form: re.Pattern[str], reason: str
) -> str:
    value = table.get(key, _MISSING)
    if value is _MISSING:
        raise _RefusedError(f"{where}.{key}", "missing")
    if not isinstance(value, str) or not form.fullmatch(value):
        raise _RefusedError(f"{where}.{key}", reason)
    return value


def _word(where: str, table: Mapping[str, Any], key: str, words: Collection[W]) -> W | None:
    if key not in table:
        return None
    for word in words:
        if table[key] == word:
            return word
    raise _RefusedError(f"{where}.{key}", f"must be one of {', '.join(words)}")


def _only(where: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    for key in table:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise _RefusedError(f"{where}.{key}" if where else key, f"unknown key{hint}")
