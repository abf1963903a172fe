"""Which recorded exchange answers a request.

A key says what makes two requests the same; several recordings of one key answer in turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final, Generic, Literal, TypeVar
from urllib.parse import urlsplit

from paceline.recording.document import WEBSOCKET, Exchange, dumps, is_whole
from paceline.recording.redact import Redactor
from paceline.recording.turns import Turn, turns_of

Match = Literal["body", "path", "order"]

VOLATILE: Final = frozenset(
    {"client_metadata", "metadata", "prompt_cache_key", "safety_identifier", "stream_id", "user"}
)
"""Fields of a body that say who asks or what for, and change from run to run; they don't count."""

Key = tuple[str, ...]
T = TypeVar("T")


class Rotation(Generic[T]):
    """Things by key; several of one key come in turn, and after the last the first again."""

    def __init__(self) -> None:
        self._found: dict[Key, list[T]] = {}
        self._turn: dict[Key, int] = {}

    def add(self, key: Key, thing: T) -> None:
        """One more of a key."""
        self._found.setdefault(key, []).append(thing)

    def take(self, key: Key) -> T | None:
        """The next of a key; None where there is none."""
        found = self._found.get(key)
        if not found:
            return None
        turn = self._turn.get(key, 0)
        self._turn[key] = turn + 1
        return found[turn % len(found)]

    def __len__(self) -> int:
        return sum(map(len, self._found.values()))


class Tape:
    """Recorded exchanges, to be found again; those over a WebSocket turn by turn."""

    def __init__(self, exchanges: Iterable[Exchange], match: Match = "body") -> None:
        """Those that the client or the recorder broke off are left out: their end is unknown."""
        self.match: Match = match
        every = list(exchanges)
        sockets = [e for e in every if e.request.method == WEBSOCKET]
        self.exchanges = [e for e in every if is_whole(e) and e.request.method != WEBSOCKET]
        self.left_out = len(every) - len(sockets) - len(self.exchanges)
        bases = {urlsplit(e.upstream).path.rstrip("/") for e in every}
        self._bases = sorted(bases - {""}, key=len, reverse=True)
        self._found: Rotation[Exchange] = Rotation()
        self.turns: Rotation[Turn] = Rotation()
        for each in self.exchanges:
            asked = each.request
            # What is redacted is redacted the same way in what is looked for.
            key = self.key(asked.method, asked.path, asked.query, asked.body)
            self._found.add(key, each)
        for each in sockets:
            for turn in turns_of(each):
                self.turns.add(self.key(WEBSOCKET, each.request.path, "", turn.asked), turn)

    def key(self, method: str, path: str, query: str, body: bytes) -> Key:
        """What has to be equal; the query and the body are without credentials."""
        if self.match == "order":
            return ()
        where = (method, self.resource(path))
        if self.match == "path":
            return where
        return (*where, "&".join(sorted(filter(None, query.split("&")))), digest(body))

    def take(self, key: Key) -> Exchange | None:
        """The next exchange of a key; after the last comes the first again."""
        return self._found.take(key)

    def resource(self, path: str) -> str:
        """A path without what is the base address's: the upstream's own path, or `/v1`."""
        for base in (*self._bases, "/v1"):
            if path.startswith(base + "/"):
                path = path.removeprefix(base)
                break
        return path.removeprefix("/v1") if path.startswith("/v1/") else path

    def miss(self, method: str, path: str, query: str, body: bytes) -> str:
        """Says what was looked for in vain, and what comes closest."""
        resource = self.resource(path)
        asked = f"{method} {resource}" + (f"?{query}" if query else "")
        same = [
            e
            for e in self.exchanges
            if (e.request.method, self.resource(e.request.path)) == (method, resource)
        ]
        if not same:
            there = sorted(
                {f"{e.request.method} {self.resource(e.request.path)}" for e in self.exchanges}
            )
            return f"No recording of {asked}; there is {_listed(there)}."
        message = f"No recording of {asked} with this body (key {digest(body)[:12]})."
        wanted = _plain(body)
        nearest = min((_differing(_plain(e.request.body), wanted) for e in same), key=len)
        if nearest:
            message += f" The nearest of {len(same)} differs in {_listed(nearest)}."
        return message

    def miss_turn(self, frame: bytes) -> str:
        """The same of a WebSocket's frame."""
        return (
            f"No recording of this frame (key {digest(frame)[:12]}) over a WebSocket; "
            f"there are {len(self.turns)} turns."
        )


def redacted(headers: Iterable[tuple[str, str]], query: str, body: bytes) -> tuple[str, bytes]:
    """A request's query and body as they stand in a recording."""
    redactor = Redactor()
    redactor.learn(headers, query)
    clean = redactor.request_body(body)
    return redactor.query(query), clean


def canonical(body: bytes) -> bytes:
    """A body in the form in which bodies are compared.

    JSON without its volatile fields, its keys in order, whole numbers without a point. Whatever
    isn't JSON is compared as it is.
    """
    data = _plain(body)
    if data is None:
        return body
    if isinstance(data, dict):
        data = {name: value for name, value in data.items() if name not in VOLATILE}
    return dumps(data, sort_keys=True, separators=(",", ":")).encode()


def digest(body: bytes) -> str:
    """A body's key."""
    return sha256(canonical(body)).hexdigest()


def _plain(body: bytes) -> Any:
    """The JSON of a body; None for what is none."""
    if body[:1] not in (b"{", b"["):
        return None
    try:
        return json.loads(body, parse_float=_number)
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value


def _differing(recorded: Any, wanted: Any) -> list[str]:
    """The fields by which two bodies differ, as precisely as a list of messages allows."""
    if not isinstance(recorded, dict) or not isinstance(wanted, dict):
        return ["the body"]
    found = []
    for name in sorted((recorded.keys() | wanted.keys()) - VOLATILE):
        a, b = recorded.get(name), wanted.get(name)
        if a == b:
            continue
        if isinstance(a, list) and isinstance(b, list):
            at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
            found.append(f"{name}[{min(len(a), len(b)) if at is None else at}]")
        else:
            found.append(name)
    return found


def _listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "") or "none"
