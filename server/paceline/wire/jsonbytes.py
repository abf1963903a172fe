"""JSON as bytes that any line reader keeps whole."""

from __future__ import annotations

import json
from typing import Any

import orjson

_LINE_BREAKS = (
    (b"\xc2\x85", b"\\u0085"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)


def json_bytes(value: Any) -> bytes:
    """`value` as compact UTF-8 JSON.

    U+0085, U+2028 and U+2029 are escaped: some clients split an event stream at them (Python's
    `str.splitlines` does). They can occur only inside strings, so replacing bytes is enough.
    """
    try:
        data = orjson.dumps(value)
    except TypeError:
        # A lone surrogate has no UTF-8 form; the standard library writes it as \udXXX.
        return json.dumps(value, separators=(",", ":")).encode()
    if not data.isascii():
        for raw, escaped in _LINE_BREAKS:
            data = data.replace(raw, escaped)
    return data


def inner(text: str) -> bytes:
    """`text` escaped for the inside of a JSON string, without its quotes."""
    return json_bytes(text)[1:-1]
