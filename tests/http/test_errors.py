"""Every error of every path leaves in the envelope, whoever made it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.live import CHAT, COMPLETIONS, EMBEDDINGS, Server, Wire, chat, request_bytes

GET = ["/health", "/ready", "/version", "/metrics", "/v1/models", "/v1/models/quick"]
GET += ["/paceline/requests", "/paceline/requests/x", "/paceline/profiles", "/paceline/live"]
POST = [CHAT, COMPLETIONS, EMBEDDINGS, "/paceline/reload"]


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/nope", "/v1/chat", "/nope", "/paceline", "/v1/engines", "/v1//models"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "PATCH"])
def test_unknown_paths(server: Server, method: str, path: str) -> None:
    answer = server.ask(method, path, {} if method != "GET" else None)
    assert answer.status == 404
    assert answer.error["code"] == "not_found"
    assert answer.error["type"] == "invalid_request_error"
    assert path in answer.error["message"]
    assert answer.header("x-request-id")


@pytest.mark.parametrize("prefix", ["", "/v1/v1"])
@pytest.mark.parametrize("path", ["/chat/completions", "/responses", "/messages", "/models"])
def test_a_base_url_without_v1_or_with_two_is_told_so(
    server: Server, path: str, prefix: str
) -> None:
    answer = server.ask("POST", prefix + path, {})
    assert answer.status == 404
    said = answer.error["message"]
    assert ("missing at the end of the base URL" if prefix == "" else "/v1 twice") in said
    assert "base URL" not in server.ask("POST", "/v1/nope", {}).error["message"]


@pytest.mark.parametrize(
    ("path", "allowed"), [(path, "GET") for path in GET] + [(path, "POST") for path in POST]
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
def test_wrong_methods(server: Server, method: str, path: str, allowed: str) -> None:
    if method == allowed:
        return
    answer = server.ask(method, path, {} if method != "GET" else None)
    assert answer.status == 405
    assert answer.error["code"] == "method_not_allowed"
    assert answer.header("allow") == allowed
    assert answer.header("x-request-id")


@pytest.mark.parametrize("path", [*GET, *POST, "/nope"])
def test_head_has_no_body(server: Server, path: str) -> None:
    with Wire(server) as wire:
        wire.send("HEAD", path)
        answer = wire.read(no_body=True)
        assert answer.status == (404 if path == "/nope" else 405)
        assert answer.header("x-request-id")
        wire.send("GET", "/health")
        assert wire.read().object == {"status": "ok"}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS])
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b"\xff\xfe", b'{"model": NaN}', b'{"a":1}{"b":2}', b"[" * 5000],
)
def test_bad_json(server: Server, path: str, body: bytes) -> None:
    answer = server.post(path, body)
    assert answer.status == 400
    assert answer.error["code"] == "invalid_json"
    assert answer.error["param"] is None


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS])
@pytest.mark.parametrize("body", [None, True, 3, "text", [], [{}]])
def test_json_that_is_no_object(server: Server, path: str, body: Any) -> None:
    answer = server.post(path, json.dumps(body).encode())
    assert answer.status == 400
    assert answer.error["code"] == "invalid_type"


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS])
def test_a_missing_model(server: Server, path: str) -> None:
    answer = server.post(path, {})
    assert answer.status == 400
    assert answer.error["param"] == "model"
    assert answer.error["code"] == "missing_required_parameter"


def test_a_body_that_is_too_large_in_pieces() -> None:
    """Without a length in its headers it is read only as far as the limit."""
    with Server("--max-body-bytes", "4096") as server, Wire(server) as wire:
        piece = b"400\r\n" + b"x" * 1024 + b"\r\n"
        wire.socket.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(8):
            wire.socket.sendall(piece)
        answer = wire.read()
        assert answer.status == 413
        assert answer.error["code"] == "request_too_large"
        body = request_bytes("POST", CHAT, chat("instant", "x" * 3000))
        with Wire(server) as other:
            other.socket.sendall(body)
            assert other.read().status == 200


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit="])
def test_bad_query_parameters(server: Server, query: str) -> None:
    answer = server.ask("GET", f"/paceline/requests?{query}")
    assert answer.status == 400
    assert answer.error["param"] == "limit"


def test_bytes_that_are_no_http() -> None:
    """The HTTP parser answers these; what counts is that it does, and that the server lives."""
    with Server("--log-level", "critical") as server:
        for garbage in (b"\x16\x03\x01\x00", b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n"):
            with Wire(server) as wire:
                wire.socket.sendall(garbage + b"nonsense\r\n\r\n")
                assert wire.head().status == 400
        assert server.ask("GET", "/health").status == 200


def test_a_client_that_leaves_in_the_middle_of_its_body(server: Server) -> None:
    with Wire(server) as wire:
        wire.socket.sendall(request_bytes("POST", CHAT, chat("quick"))[:-10])
    assert server.ask("GET", "/health").status == 200


def test_a_path_with_a_slash_too_many_leads_to_the_right_one(server: Server) -> None:
    answer = server.post(f"{CHAT}/", chat("quick"))
    assert answer.status == 307
    assert (answer.header("location") or "").endswith(CHAT)
