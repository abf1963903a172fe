"""String formats: a made value for each, and a strict check.

The checks lean to the narrow side: what they pass, every validator passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, time
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from paceline.core.rng import mix64
from paceline.runtime.schema.errors import SchemaError
from paceline.runtime.schema.patterns import compile_pattern

_NAMES = ("anna", "tom", "maria", "peter", "emma", "simon", "helen", "martin")
_HOSTS = ("example.com", "example.org", "example.net", "docs.example.com")
_PAGES = ("", "index.html", "guide", "notes/today", "items/42")


def _pick(options: tuple[str, ...], key: int) -> str:
    return options[mix64(key) % len(options)]


def _date(key: int) -> str:
    key = mix64(key + 7)
    return f"2026-{1 + key % 12:02}-{1 + key // 16 % 28:02}"


def _time(key: int) -> str:
    key = mix64(key + 9)
    return f"{key % 24:02}:{key // 32 % 4 * 15:02}:00Z"


def _uuid(key: int) -> str:
    text = f"{mix64(key):016x}{mix64(key + 1):016x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"


_MAKE: dict[str, Callable[[int], str]] = {
    "date-time": lambda key: f"{_date(key)}T{_time(key)}",
    "date": _date,
    "time": _time,
    "duration": lambda key: f"PT{1 + mix64(key) % 59}M",
    "email": lambda key: f"{_pick(_NAMES, key)}@{_pick(_HOSTS, key + 1)}",
    "hostname": lambda key: _pick(_HOSTS, key),
    # Addresses that RFC 5737 and RFC 3849 set apart for examples.
    "ipv4": lambda key: f"192.0.2.{1 + mix64(key) % 254}",
    "ipv6": lambda key: f"2001:db8::{1 + mix64(key) % 65000:x}",
    "uri": lambda key: f"https://{_pick(_HOSTS, key)}/{_pick(_PAGES, key + 1)}",
    "uri-reference": lambda key: f"/{_pick(_PAGES, key)}",
    "uri-template": lambda key: f"https://{_pick(_HOSTS, key)}/items/{{id}}",
    "uuid": _uuid,
    "json-pointer": lambda key: f"/items/{mix64(key) % 10}",
    "relative-json-pointer": lambda key: f"{mix64(key) % 3}/items",
    "regex": lambda key: f"^[a-z]{{1,{1 + mix64(key) % 9}}}$",
}
_SAME = {
    "idn-email": "email", "idn-hostname": "hostname", "iri": "uri", "url": "uri",
    "iri-reference": "uri-reference", "ip": "ipv4", "ip-address": "ipv4", "host-name": "hostname",
    "datetime": "date-time", "timestamp": "date-time",
}  # fmt: skip
_BASE64 = "UGFjZWxpbmU="

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOSTNAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*", re.IGNORECASE)
_EMAIL = re.compile(
    rf"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@{_LABEL}(?:\.{_LABEL})+", re.IGNORECASE
)
_PATH = r"[A-Za-z0-9._~!$&'()*+,;=:@/%-]*"
_URI = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.-]*:(?://[A-Za-z0-9.-]+(?::\d{{1,5}})?(?:/{_PATH})?|(?!//){_PATH})"
    rf"(?:\?{_PATH})?(?:\#{_PATH})?"
)
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_REFERENCE = re.compile(r"/?(?:[A-Za-z0-9._~-]+/?)*(?:\?[A-Za-z0-9._~=&-]*)?(?:#[A-Za-z0-9._~-]*)?")
_TIME = re.compile(r"(\d\d:\d\d:\d\d)(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)")
_DURATION = re.compile(
    r"P(?=\dT?|T\d)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)"
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_RELATIVE_POINTER = re.compile(r"(?:0|[1-9]\d*)(?:#|(?:/(?:[^~/]|~[01])*)*)")
_TEMPLATE = re.compile(r"(?:[A-Za-z0-9._~!$&()*+,;=:@/-]|\{[A-Za-z0-9_]+\})*")


def make(name: str, key: int) -> str | None:
    """A value of a format, or None for a format that isn't known."""
    if name in ("byte", "base64"):
        return _BASE64
    found = _MAKE.get(_SAME.get(name, name))
    return None if found is None else found(key)


def holds(name: str, text: str) -> bool:
    """Whether a string is of a format; true for a format that isn't known."""
    check = _CHECKS.get(_SAME.get(name, name))
    return check is None or check(text)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10 and text.isascii()


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None or not text.isascii():
        return False
    try:
        time.fromisoformat(found[1])
    except ValueError:
        return False
    return True


def _is_address(kind: type[IPv4Address | IPv6Address]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            kind(text)
        except (AddressValueError, ValueError):
            return False
        return "%" not in text and text.isascii()

    return check


def _is_regex(text: str) -> bool:
    try:
        return compile_pattern(text).pattern == text
    except SchemaError:
        return False


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: text.isascii() and pattern.fullmatch(text) is not None


def _is_uri(text: str) -> bool:
    return bool(_URI.fullmatch(text)) and text.isascii() and not _BAD_PERCENT.search(text)


_CHECKS: dict[str, Callable[[str], bool]] = {
    "date-time": lambda text: (
        len(text) > 11 and text[10] in "Tt" and _is_date(text[:10]) and _is_time(text[11:])
    ),
    "date": _is_date,
    "time": _is_time,
    "duration": _matches(_DURATION),
    "email": _matches(_EMAIL),
    "hostname": _matches(_HOSTNAME),
    "ipv4": _is_address(IPv4Address),
    "ipv6": _is_address(IPv6Address),
    "uri": _is_uri,
    "uri-reference": lambda text: bool(_REFERENCE.fullmatch(text)) or _is_uri(text),
    "uri-template": _matches(_TEMPLATE),
    "uuid": _matches(_UUID),
    "json-pointer": _matches(_POINTER),
    "relative-json-pointer": _matches(_RELATIVE_POINTER),
    "regex": _is_regex,
}
