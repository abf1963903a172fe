"""Who is it? A request's API key, and the caller that it stands for.

The key comes as `Authorization: Bearer`, as `x-api-key` (Anthropic's clients) or as `api-key`
(Azure's). Every scope that passes the front door has its `Caller` under CALLER, on a server that
asks for no key too.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from paceline.runtime.keys import NOBODY, Caller, Keys
from paceline.wire.errors import INVALID_REQUEST, ApiError

CALLER = "paceline.caller"
"""Where a scope has its caller."""

_CARRIERS = frozenset({b"authorization", b"x-api-key", b"api-key"})
_BEARER = b"bearer "
_GUARDED = ("/v1/", "/paceline/")
_ADMIN = frozenset({"/paceline/reload", "/paceline/requests"})
"""What changes the server, and the list of everybody's requests. One of them is for whoever knows
its id."""
_STRANGER = Caller()
_NO_RETRY = {"x-should-retry": "false"}
"""Claude Code would ask ten times, for minutes, with a key that stays wrong."""
_SHOWN_FROM = 20
"""A shorter key shows nothing of itself in an error: too much would be left to see."""


def caller_of(scope: MutableMapping[str, Any]) -> Caller:
    """Who sent a request that passed the front door."""
    caller = scope.get(CALLER, _STRANGER)
    assert isinstance(caller, Caller), "put there by Auth"
    return caller


def key_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The key that a request carries, empty where it has none.

    A bearer token comes first, then `x-api-key`, `api-key`, and at last an `Authorization` of
    another form, whole. Of headers that are there twice the first counts.
    """
    authorization = other = azure = b""
    for name, value in headers:
        if name in _CARRIERS:
            if name == b"authorization":
                authorization = authorization or value
            elif name == b"x-api-key":
                other = other or value
            else:
                azure = azure or value
    if authorization[:7].lower() == _BEARER:
        key = authorization[7:].strip()
        if key:
            return key
    found = (other or azure).strip()
    if found or authorization.strip().lower() == b"bearer":
        return found
    return authorization.strip()


class Auth:
    """Looks at each request's key before anything else does."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def check(self, scope: MutableMapping[str, Any]) -> ApiError | None:
        """Put the caller to the scope; the answer to one who isn't let in, else None."""
        keys = self._keys
        key = key_of(scope["headers"])
        if key:
            caller = keys.find(key)
        else:
            caller = None if keys.required else NOBODY
        if caller is not None and caller.admin:
            scope[CALLER] = caller
            return None
        # An application that this one is mounted in puts its own part before the path.
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if caller is None:
            scope[CALLER] = _STRANGER
            return _unknown(key) if path.startswith(_GUARDED) else None
        scope[CALLER] = caller
        return _not_an_admin() if path in _ADMIN else None


def _unknown(key: bytes) -> ApiError:
    if not key:
        return ApiError(
            401,
            "You didn't provide an API key. Send one in a header: Authorization: Bearer YOUR_KEY, "
            "or x-api-key: YOUR_KEY.",
            type=INVALID_REQUEST,
            headers={"WWW-Authenticate": 'Bearer realm="paceline"', **_NO_RETRY},
        )
    return ApiError(
        401,
        f"Incorrect API key provided: {masked(key)}.",
        type=INVALID_REQUEST,
        code="invalid_api_key",
        headers={"WWW-Authenticate": 'Bearer realm="paceline", error="invalid_token"', **_NO_RETRY},
    )


def no_longer_let_in() -> ApiError:
    """401: the key of a connection has gone from the list, or has expired."""
    return ApiError(
        401,
        "The API key of this connection is no longer let in.",
        type=INVALID_REQUEST,
        code="invalid_api_key",
        headers=_NO_RETRY,
    )


def _not_an_admin() -> ApiError:
    return ApiError(403, "This takes the key of an admin.", code="admin_required")


def masked(key: bytes) -> str:
    """As much of a key as lets its owner know it again: `sk-pacel****wxyz`."""
    if len(key) < _SHOWN_FROM:
        return "****"
    text = "".join(chr(c) if 33 <= c <= 126 else "?" for c in key[:8] + key[-4:])
    return f"{text[:8]}****{text[8:]}"
