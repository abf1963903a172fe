"""Credentials out of a recording: from headers, addresses and bodies, wherever they show.

What counts as one: the values of headers, query parameters and JSON fields with a name for a
credential; every further place where such a value (of eight characters or more) stands again; and
whatever has the form of a well-known kind of key.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote, unquote

from paceline.recording.document import (
    HOP_BY_HOP,
    Chunk,
    Exchange,
    Headers,
    Request,
    Response,
    dumps,
    without_names,
)

MARK = "[redacted]"

_LEAST_SECRET = 8
"""Characters; a shorter value, such as `any`, would take ordinary words with it."""

_WORDS = frozenset(
    {
        "auth", "authorization", "cookie", "cookies", "credential", "credentials", "key", "apikey",
        "password", "passwd", "secret", "sig", "signature", "token",
    }
)  # fmt: skip
"""A header or a query parameter is a credential when its name has one of these words.

`x-ratelimit-limit-tokens` has none: the plural counts what is spent.
"""

_FIELDS = frozenset(
    {
        "accesskey", "accesstoken", "apikey", "authorization", "authtoken", "bearertoken",
        "clientsecret", "cookie", "idtoken", "password", "privatekey", "proxyauthorization",
        "refreshtoken", "secret", "secretaccesskey", "secretkey", "sessiontoken", "setcookie",
        "xapikey",
    }
)  # fmt: skip
"""A JSON field is one by its whole name, letters alone: `prompt_cache_key` is none."""

_Put = bytes | Callable[[re.Match[bytes]], bytes]

_FORMS = tuple(
    (tuple(text.encode() for text in begins), re.compile(form))
    for begins, form in (
        (("sk-", "sk_", "sess-", "sess_"), rb"\b(?:c?sk|sess)[-_][A-Za-z0-9_\-]{16,}"),
        (("rk-", "rk_"), rb"\brk[-_][A-Za-z0-9_\-]{16,}"),
        (("gsk_", "hf_", "r8_"), rb"\b(?:gsk|hf|r8)_[A-Za-z0-9_\-]{16,}"),
        (
            ("xai-", "nvapi-", "pplx-", "tvly-"),
            rb"\b(?:xai|nvapi|pplx|tvly)-[A-Za-z0-9_\-]{16,}",
        ),
        (("AIza",), rb"\bAIza[A-Za-z0-9_\-]{30,}"),
        (("AKIA",), rb"\bAKIA[A-Z0-9]{16}\b"),
        (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), rb"\bgh[pousr]_[A-Za-z0-9]{30,}"),
        (("eyJ",), rb"\beyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}"),
        (("earer ",), rb"(?<=[Bb]earer )[A-Za-z0-9._~+/\-]{16,}=*"),
    )
)
"""Well-known kinds of keys, each with how it begins.

A search for a plain beginning takes a fiftieth of an expression's time, during which no other
stream is passed on.
"""


def is_credential(name: str) -> bool:
    """Whether a header or a query parameter of this name holds a credential."""
    return not _WORDS.isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))


class Redactor:
    """Takes one exchange's credentials out of it, once it has been told where they stand."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()
        self._known: re.Pattern[bytes] | None = None

    def learn(self, headers: Iterable[tuple[str, str]], query: str = "") -> None:
        """Take note of the credentials in headers and a query."""
        for name, value in headers:
            if is_credential(name):
                self._learn_header(name.lower(), value)
        for part in query.split("&"):
            name, _, value = part.partition("=")
            if is_credential(unquote(name)):
                self._add(unquote(value))

    def headers(self, headers: Headers) -> Headers:
        """Headers with a mark in a credential's place."""
        return tuple(
            (name, MARK if is_credential(name) else self.text(value)) for name, value in headers
        )

    def query(self, query: str) -> str:
        """A query with marks in its credentials' places."""
        parts = []
        for part in query.split("&"):
            name, has_value, _ = part.partition("=")
            parts.append(f"{name}={MARK}" if has_value and is_credential(unquote(name)) else part)
        return self.text("&".join(parts))

    def text(self, text: str) -> str:
        """A text with marks in place of what is known for a credential, or looks like one."""
        data = text.encode("utf-8", "surrogateescape")
        return self._marked(data).decode("utf-8", "surrogateescape")

    def request_body(self, body: bytes) -> bytes:
        """A request's body, its credentials' fields marked. Teaches their values too."""
        if body[:1] in (b"{", b"["):
            try:
                data = json.loads(body)
                if self._fields(data):
                    body = dumps(data, separators=(",", ":")).encode()
            except (ValueError, RecursionError):
                pass
        return self._marked(body)

    def response(self, parts: Sequence[bytes]) -> list[bytes]:
        """The parts of an answer, credentials starred out where they are: no length changes.

        One that was cut in the middle is found all the same.
        """
        whole = b"".join(parts)
        clean = self._replaced(whole, lambda found: b"*" * len(found[0]))
        if clean == whole:
            return list(parts)
        cut, at = [], 0
        for part in parts:
            cut.append(clean[at : at + len(part)])
            at += len(part)
        return cut

    def hidden_in(self, parts: Sequence[bytes], encoding: str) -> bytes | None:
        """A compressed answer unpacked and starred out, where it has a credential inside."""
        if encoding not in ("gzip", "deflate"):
            return None
        try:
            data = zlib.decompressobj(wbits=47).decompress(b"".join(parts))
        except zlib.error:
            return None
        clean = b"".join(self.response([data]))
        return None if clean == data else clean

    # -- how -----------------------------------------------------------------------------------

    def _learn_header(self, name: str, value: str) -> None:
        if "cookie" in name:
            for part in value.split(";"):
                self._add(part.partition("=")[2].strip())
            return
        scheme, _, rest = value.partition(" ")
        self._add(rest.strip() or scheme)
        if scheme.lower() == "basic":
            try:
                plain = base64.b64decode(rest, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                return
            self._add(plain.partition(":")[2])

    def _add(self, secret: str) -> None:
        if len(secret) >= _LEAST_SECRET and secret != MARK:
            self._secrets |= {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]}
            self._known = None

    def _fields(self, data: Any) -> bool:
        """Mark the fields of JSON that are credentials; whether there are any."""
        found = False
        if isinstance(data, dict):
            for name, value in data.items():
                if isinstance(value, str):
                    if re.sub(r"[^a-z]", "", name.lower()) in _FIELDS and value != MARK:
                        self._learn_header(name.lower(), value)
                        data[name] = MARK
                        found = True
                elif isinstance(value, dict | list):
                    found = self._fields(value) or found
        elif isinstance(data, list):
            for value in data:
                if isinstance(value, dict | list):
                    found = self._fields(value) or found
        return found

    def _marked(self, data: bytes) -> bytes:
        return self._replaced(data, MARK.encode())

    def _replaced(self, data: bytes, put: _Put) -> bytes:
        """Data with something in every credential's place."""
        known = [secret.encode("utf-8", "surrogateescape") for secret in self._secrets]
        if any(secret in data for secret in known):
            if self._known is None:
                # The longest first: one may be the beginning of another.
                known.sort(key=len, reverse=True)
                self._known = re.compile(b"|".join(map(re.escape, known)))
            data = self._known.sub(put, data)
        for begins, form in _FORMS:
            if any(begin in data for begin in begins):
                data = form.sub(put, data)
        return data


def clean(exchange: Exchange, redactor: Redactor) -> Exchange:
    """An exchange without its credentials, as it is kept."""
    asked, response = exchange.request, exchange.response
    body = redactor.request_body(asked.body)
    query = redactor.query(asked.query)
    request = Request(
        asked.method,
        redactor.text(asked.path),
        query,
        redactor.headers(without_names(asked.headers, HOP_BY_HOP)),
        body,
    )
    # What the client says may teach a credential; the server's frames are looked at after.
    chunks = tuple(
        Chunk(c.at_ns, redactor.request_body(c.data), c.sender)
        if c.sender == "client" and not c.binary
        else c
        for c in exchange.chunks
    )
    if response is not None:
        redactor.learn(response.headers)
        kept = tuple((k, v) for k, v in response.headers if k.lower() != "set-cookie")
        encoding = next((v.lower() for k, v in kept if k.lower() == "content-encoding"), "")
        parts = [chunk.data for chunk in chunks]
        unpacked = redactor.hidden_in(parts, encoding)
        if unpacked is not None:
            # Starred out in its packed form it would be no answer any more.
            kept = without_names(kept, ("content-encoding", "content-length"))
            chunks = (Chunk(chunks[-1].at_ns, unpacked),)
        else:
            chunks = tuple(
                Chunk(c.at_ns, data, c.sender, c.binary)
                for c, data in zip(chunks, redactor.response(parts), strict=True)
            )
        response = Response(response.status, redactor.headers(kept), response.head_ns)
    close = exchange.close
    return Exchange(
        exchange.upstream,
        request,
        response,
        chunks,
        exchange.end,
        exchange.end_ns,
        exchange.recorded_at,
        exchange.added,
        close if close is None else (close[0], redactor.text(close[1])),
    )
