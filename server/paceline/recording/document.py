"""One exchange with an endpoint, and its form on disk: JSON that people can read and compare.

Times are whole nanoseconds. Those of a request's answer count from when the last byte of the
request left; those of a WebSocket from when the connection was accepted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

VERSION: Final = 1
VERSION_KEY: Final = "paceline_recording"

WEBSOCKET: Final = "WEBSOCKET"
"""The method of an exchange that is a WebSocket's connection."""

End = Literal["complete", "client_left", "upstream_dropped", "recorder_stopped"]
"""How an exchange ended. Only the first and the third are all that upstream ever said."""

Headers = tuple[tuple[str, str], ...]

HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""RFC 9110, section 7.6.1, and the older names of RFC 2616, section 13.5.1."""


class DocumentError(ValueError):
    """Something that isn't a recorded exchange, or not one that this version can read."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked. `path` is what follows the upstream's base address."""

    method: str
    path: str
    query: str = ""
    headers: Headers = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """How the answer began; `head_ns` is when its headers came."""

    status: int
    headers: Headers
    head_ns: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one read brought, or one frame of a WebSocket, which may be the client's."""

    at_ns: int
    data: bytes
    sender: Literal["server", "client"] = "server"
    binary: bool = False
    """Whether it is a WebSocket's binary frame."""


@dataclass(frozen=True, slots=True)
class Added:
    """What the recorder itself cost: nanoseconds that were not the endpoint's.

    `request_ns` from a request's arrival to its first byte's leaving, of which `connect_ns` went
    into a new connection; `chunk_ns_p50` and `chunk_ns_max` from a read to the same bytes' leaving
    for the client; `paused_ns` while the client was slow to read, and so upstream was not read.
    """

    request_ns: int = 0
    connect_ns: int = 0
    chunk_ns_p50: int = 0
    chunk_ns_max: int = 0
    paused_ns: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and all that came back."""

    upstream: str
    request: Request
    response: Response | None
    """None where the connection ended before an answer began."""
    chunks: tuple[Chunk, ...]
    end: End
    end_ns: int
    recorded_at: str = ""
    """When the request arrived, ISO 8601 in UTC."""
    added: Added = field(default_factory=Added)
    close: tuple[int, str] | None = None
    """A WebSocket's closing code and reason."""
    name: str = ""
    """Where it was read from; not part of the document."""

    @property
    def body(self) -> bytes:
        """The answer's whole body."""
        return b"".join(chunk.data for chunk in self.chunks if chunk.sender == "server")


def to_line(exchange: Exchange) -> str:
    """The document in one line, without its line feed."""
    head = dumps(_head(exchange)).removesuffix("}")
    # Chunk by chunk: the encoder lets nothing else run until it is done.
    chunks = ", ".join([dumps(_chunk(chunk)) for chunk in exchange.chunks])
    return f'{head}, "chunks": [{chunks}]}}'


def to_page(exchange: Exchange) -> str:
    """The document with a line for each chunk, so that two recordings can be compared by line."""
    head = dumps(_head(exchange), indent=2).removesuffix("\n}")
    lines = [dumps(_chunk(chunk)) for chunk in exchange.chunks]
    chunks = "".join(f"\n    {line}," for line in lines).removesuffix(",")
    return f'{head},\n  "chunks": [{chunks}\n  ]\n}}\n'


def from_json(data: Any, name: str = "") -> Exchange:
    """An exchange from its document. Raises DocumentError."""
    if not isinstance(data, dict) or VERSION_KEY not in data:
        raise DocumentError(f"is not a recorded exchange: it has no {VERSION_KEY!r}")
    version = data[VERSION_KEY]
    if version != VERSION:
        raise DocumentError(f"is of version {version!r}; this Paceline reads version {VERSION}")
    try:
        return _exchange(data, name)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DocumentError(f"is not a recorded exchange: {what}") from None


def dumps(value: Any, **how: Any) -> str:
    """JSON that can be written as UTF-8, and has no more escapes than that takes."""
    text = json.dumps(value, ensure_ascii=False, **how)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair: JSON can say it, UTF-8 can't.
        return json.dumps(value, **how)
    return text


def _head(exchange: Exchange) -> dict[str, Any]:
    request, response, added = exchange.request, exchange.response, exchange.added
    head: dict[str, Any] = {
        VERSION_KEY: VERSION,
        "recorded_at": exchange.recorded_at,
        "upstream": exchange.upstream,
        "request": {
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "headers": _dict_or_pairs(request.headers),
            "body": _body(request.body),
        },
        "response": None
        if response is None
        else {
            "status": response.status,
            "head_ns": response.head_ns,
            "headers": _dict_or_pairs(response.headers),
        },
        "end": exchange.end,
        "end_ns": exchange.end_ns,
        "added": {
            "request_ns": added.request_ns,
            "connect_ns": added.connect_ns,
            "chunk_ns_p50": added.chunk_ns_p50,
            "chunk_ns_max": added.chunk_ns_max,
            "paused_ns": added.paused_ns,
        },
    }
    if exchange.close is not None:
        head["close"] = {"code": exchange.close[0], "reason": exchange.close[1]}
    return head


def _exchange(data: Mapping[str, Any], name: str) -> Exchange:
    request, response = data["request"], data["response"]
    end = data["end"]
    if end not in get_args(End):
        raise ValueError(f"end is {end!r}")
    close = data.get("close")
    return Exchange(
        upstream=str(data["upstream"]),
        request=Request(
            method=str(request["method"]),
            path=str(request["path"]),
            query=str(request["query"]),
            headers=_pairs(request["headers"]),
            body=_body_bytes(request["body"]),
        ),
        response=None
        if response is None
        else Response(
            _between(response["status"], 100, 599, "response.status"),
            _pairs(response["headers"]),
            _between(response["head_ns"], 0, None, "response.head_ns"),
        ),
        chunks=tuple(_chunk_of(i, chunk) for i, chunk in enumerate(data["chunks"])),
        end=end,
        end_ns=_between(data["end_ns"], 0, None, "end_ns"),
        recorded_at=str(data.get("recorded_at", "")),
        added=Added(**data.get("added", {})),
        close=None if close is None else (int(close["code"]), str(close["reason"])),
        name=name,
    )


def _dict_or_pairs(headers: Headers) -> dict[str, str] | list[list[str]]:
    """Headers as an object where each has a name of its own, which reads best; else as pairs."""
    if len({key for key, _ in headers}) == len(headers):
        return dict(headers)
    return [[key, value] for key, value in headers]


def _pairs(found: Any) -> Headers:
    items = found.items() if isinstance(found, dict) else found
    return tuple((str(key), str(value)) for key, value in items)


def _body(data: bytes) -> dict[str, Any]:
    """A request's body: as JSON where it is JSON, since nobody reads it escaped."""
    if not data:
        return {}
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    if text[:1] in ("{", "["):
        try:
            return {"json": json.loads(text, parse_constant=_no_constant)}
        except (ValueError, RecursionError):
            pass
    return {"text": text}


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _body_bytes(found: Mapping[str, Any]) -> bytes:
    if "json" in found:
        return dumps(found["json"], separators=(",", ":")).encode()
    if "text" in found:
        return str(found["text"]).encode()
    return base64.b64decode(found.get("base64", ""), validate=True)


def _chunk(chunk: Chunk) -> dict[str, Any]:
    found: dict[str, Any] = {"ns": chunk.at_ns}
    if chunk.sender == "client":
        found["from"] = "client"
    try:
        if chunk.binary:
            raise ValueError
        found["text"] = chunk.data.decode()
    except ValueError:
        found["base64"] = base64.b64encode(chunk.data).decode()
    if chunk.binary:
        found["binary"] = True
    return found


def _chunk_of(index: int, found: Mapping[str, Any]) -> Chunk:
    text = found.get("text")
    return Chunk(
        _between(found["ns"], 0, None, f"chunks[{index}].ns"),
        base64.b64decode(found["base64"], validate=True) if text is None else str(text).encode(),
        "client" if found.get("from") == "client" else "server",
        bool(found.get("binary")),
    )


def _between(value: Any, low: int, high: int | None, name: str) -> int:
    if not isinstance(value, int) or value < low or (high is not None and value > high):
        raise ValueError(f"{name} is {value!r}")
    return value


def is_whole(exchange: Exchange) -> bool:
    """Whether the recording has everything that upstream said."""
    return exchange.end in ("complete", "upstream_dropped")


def without_names(headers: Headers, names: Sequence[str] | frozenset[str]) -> Headers:
    """Headers but for some, by lower-case name."""
    return tuple((key, value) for key, value in headers if key.lower() not in names)


def decoded(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers as text."""
    return tuple((key.decode("latin-1"), value.decode("latin-1")) for key, value in headers)
