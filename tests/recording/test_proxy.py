from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import httpx2
import pytest
from openai import OpenAI

from tests.connection import Wire
from tests.live import PATIENCE_S, wait_until
from tests.recording.rig import (
    DROP,
    KEY,
    Asked,
    Step,
    chunked,
    packed,
    recording,
    stream,
    stream_head,
    upstream,
    whole,
)

PATH = "/v1/chat/completions"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
PARTS = ('data: {"a":"é"}\n\ndata: {"b"'.encode(), b':"\xf0\x9f', b'\x98\x80"}\n\n', b"x")


def test_a_stream_passes_as_it_comes_and_is_kept_with_its_times(tmp_path: Path) -> None:
    with upstream(stream(*PARTS, pause_s=0.05)) as up, recording(up.url, tmp_path) as rec:
        with Wire(rec) as wire:
            wire.send("POST", PATH, BODY, {"Authorization": f"Bearer {KEY}"})
            answer = wire.read()
        (kept,) = rec.kept()
    assert answer.body == kept.body == b"".join(PARTS)
    assert [data for _, data in answer.arrivals] == list(PARTS)
    assert [chunk.data for chunk in kept.chunks] == list(PARTS)
    seen = [at for at, _ in answer.arrivals]
    for i, chunk in enumerate(kept.chunks):
        assert 45_000_000 * (i + 1) <= chunk.at_ns
        # What the client waited for is what was recorded, but for a busy machine's delays.
        assert chunk.at_ns - kept.chunks[0].at_ns == pytest.approx(
            (seen[i] - seen[0]) * 1e9, abs=40_000_000
        )
    assert kept.end == "complete"
    assert kept.response is not None
    assert kept.response.status == 200
    assert dict(kept.response.headers)["x-request-id"] == "req_upstream"
    assert answer.header("x-request-id") == "req_upstream"
    assert 0 < kept.added.chunk_ns_p50 <= kept.added.chunk_ns_max
    assert kept.added.request_ns > 0


def test_what_goes_up_is_what_came_but_for_the_hop(tmp_path: Path) -> None:
    with upstream(whole(b"{}")) as up, recording(up.url, tmp_path) as rec:
        with Wire(rec) as wire:
            named = {
                "Authorization": f"Bearer {KEY}", "Accept-Encoding": "gzip, br", "X-Own": "é",
                "Connection": "keep-alive, X-Hop", "X-Hop": "1", "Keep-Alive": "5",
            }  # fmt: skip
            wire.send("POST", "/v1/any/thing%20here?b=2&a=1", b'{"x": 1.50}', named)
            assert wire.read().status == 200
        (asked,) = up.asked
        (kept,) = rec.kept()
    assert asked.line == "POST /v1/any/thing%20here?b=2&a=1 HTTP/1.1"
    assert asked.body == b'{"x": 1.50}'
    assert asked.header("authorization") == f"Bearer {KEY}"
    assert asked.header("accept-encoding") == "identity"
    assert asked.header("host") == f"127.0.0.1:{up.port}"
    assert asked.header("x-own") == "é"
    assert asked.header("x-hop") is None
    assert asked.header("keep-alive") is None
    assert (kept.request.path, kept.request.query) == ("/any/thing%20here", "b=2&a=1")
    assert json.loads(kept.request.body) == {"x": 1.5}


def test_a_base_without_its_path_leads_to_the_same_place(tmp_path: Path) -> None:
    with upstream(whole(b"{}")) as up, recording(up.url, tmp_path) as rec:
        for path in ("/chat/completions", PATH):
            with Wire(rec) as wire:
                wire.send("POST", path, BODY)
                wire.read()
        assert {asked.line for asked in up.asked} == {f"POST {PATH} HTTP/1.1"}
        assert {kept.request.path for kept in rec.kept(2)} == {"/chat/completions"}


def test_a_body_in_chunks_goes_up_as_it_comes(tmp_path: Path) -> None:
    with upstream(whole(b"{}")) as up, recording(up.url, tmp_path) as rec:
        with Wire(rec) as wire:
            head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            wire.socket.sendall(head.encode() + chunked(b'{"a":'))
            time.sleep(0.05)
            wire.socket.sendall(chunked(b"1}") + chunked(b""))
            assert wire.read().status == 200
        (kept,) = rec.kept()
        assert up.asked[0].body == kept.request.body == b'{"a":1}'
        # The clock starts when the last of the request has left.
        assert kept.added.request_ns < 40_000_000
        assert kept.chunks[0].at_ns < 40_000_000


def test_an_upstream_that_packs_is_passed_on_packed(tmp_path: Path) -> None:
    body = json.dumps({"text": "é" * 500}).encode()
    with upstream(packed(body)) as up, recording(up.url, tmp_path) as rec:
        with httpx2.Client(trust_env=False) as client:
            answer = client.post(f"{rec.base_url}/responses", json={})
        (kept,) = rec.kept()
    assert answer.content == body
    assert dict(kept.response.headers if kept.response else ())["content-encoding"] == "gzip"
    assert kept.body[:2] == b"\x1f\x8b"


@pytest.mark.parametrize("status", ["400 Bad Request", "429 Too Many Requests", "503 Busy"])
def test_an_error_is_an_answer_like_any_other(tmp_path: Path, status: str) -> None:
    headers = {"Retry-After": "3", "X-RateLimit-Remaining-Tokens": "0"}
    script = whole(b'{"error":{"message":"no"}}', status, headers)
    with upstream(script) as up, recording(up.url, tmp_path) as rec:
        with Wire(rec) as wire:
            wire.send("POST", PATH, BODY)
            answer = wire.read()
        (kept,) = rec.kept()
    assert kept.response is not None
    assert answer.status == kept.response.status == int(status[:3])
    assert answer.header("retry-after") == "3"
    assert dict(kept.response.headers)["x-ratelimit-remaining-tokens"] == "0"


@pytest.mark.parametrize(
    ("script", "body", "status"),
    [
        ([stream_head(), chunked(b"data: 1\n\n"), 0.02, DROP], b"data: 1\n\n", 200),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", 0.02, DROP], b"half", 200),
        ([stream_head(), chunked(b"ok"), b"zz\r\nno size\r\n", 0.3], b"ok", 200),
        ([0.02, DROP], b"", None),
        ([b"HTTP/1.1 600 No Class\r\nContent-Length: 2\r\n\r\nok", 0.3], b"", None),
    ],
)
def test_an_upstream_that_breaks_off_is_passed_on_as_that(
    tmp_path: Path, script: list[Step], body: bytes, status: int | None
) -> None:
    with upstream(script) as up, recording(up.url, tmp_path) as rec:
        with Wire(rec) as wire:
            wire.send("POST", PATH, BODY)
            if status is None:
                assert wire.more() == b""
            else:
                answer = wire.read()
                assert answer.body == body
                assert not answer.complete
        (kept,) = rec.kept()
    assert kept.end == "upstream_dropped"
    assert (kept.response.status if kept.response else None) == status
    assert kept.body == body


def test_a_body_that_ends_with_the_connection_is_complete(tmp_path: Path) -> None:
    script: list[Step] = [b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nall", DROP]
    with upstream(script) as up, recording(up.url, tmp_path) as rec:
        with Wire(rec) as wire:
            wire.send("GET", "/v1/models")
            answer = wire.read()
        (kept,) = rec.kept()
    assert answer.complete
    assert answer.body == b"all"
    assert kept.end == "complete"


@pytest.mark.parametrize(("method", "body"), [("POST", b"all"), ("HEAD", b"")])
def test_what_comes_behind_an_answer_is_none_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, body: bytes
) -> None:
    first = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"all") + chunked(b"")
    )
    more = b"HTTP/1.1 404 Gone\r\nX: y\r\nContent-Length: 4\r\n\r\nmore"
    with upstream([first + more]) as up, recording(up.url, tmp_path) as rec:
        with Wire(rec) as wire:
            for _ in range(2):
                wire.send(method, PATH, BODY)
                answer = wire.read(no_body=method == "HEAD")
                assert (answer.status, answer.body) == (200, body)
                assert answer.header("x") is None
        kept = rec.kept(2)
    assert [(each.end, each.body) for each in kept] == [("complete", body)] * 2
    assert not caplog.records


@pytest.mark.parametrize(
    ("method", "script"),
    [
        ("HEAD", [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"]),
        ("GET", [b"HTTP/1.1 204 No Content\r\n\r\n"]),
        ("GET", [b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n"]),
        ("GET", [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Gone\r\nContent-Length: 0\r\n\r\n"]),
    ],
)
def test_answers_without_a_body(tmp_path: Path, method: str, script: list[Step]) -> None:
    with upstream(script) as up, recording(up.url, tmp_path) as rec:
        answers = []
        for _ in range(2):
            with Wire(rec) as wire:
                wire.send(method, "/v1/models")
                answers.append(wire.read(no_body=True).status)
        kept = rec.kept(2)
    assert [each.response.status for each in kept if each.response] == answers
    assert set(answers) <= {200, 204, 304, 404}
    assert [each.body for each in kept] == [b"", b""]


def test_a_client_that_leaves_ends_upstreams_work(tmp_path: Path) -> None:
    script = stream(*[b"data: %d\n\n" % i for i in range(500)])
    with upstream(script) as up, recording(up.url, tmp_path) as rec:
        with Wire(rec) as wire:
            wire.send("POST", PATH, BODY)
            wire.until(b"data: 2")
        (kept,) = rec.kept()
        wait_until(lambda: up.gone == 1, "upstream is told")
    assert kept.end == "client_left"
    assert 3 <= len(kept.chunks) < 100


def test_what_is_under_way_at_the_end_is_kept(tmp_path: Path) -> None:
    script = stream(*[b"data: %d\n\n" % i for i in range(500)])
    with upstream(script) as up:
        with recording(up.url, tmp_path) as rec:
            wire = Wire(rec)
            wire.send("POST", PATH, BODY)
            wire.until(b"data: 2")
            rec.tell_to_stop()
            (kept,) = rec.kept()
            wire.close()
        assert kept.end == "recorder_stopped"
        assert kept.chunks


def test_streams_side_by_side_are_kept_apart(tmp_path: Path) -> None:
    def script(asked: Asked) -> list[Step]:
        name = json.loads(asked.body)["name"]
        return stream(*[f"data: {name}-{i}\n\n".encode() for i in range(20)], pause_s=0.005)

    with upstream(script) as up, recording(up.url, tmp_path / "t.jsonl") as rec:
        answers: dict[int, bytes] = {}

        def one(name: int) -> None:
            with Wire(rec) as wire:
                wire.send("POST", PATH, {"name": name})
                answers[name] = wire.read().body

        threads = [threading.Thread(target=one, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        kept = rec.kept(16)
    assert {json.loads(each.request.body)["name"]: each.body for each in kept} == answers
    assert all(f"data: {name}-19" in body.decode() for name, body in answers.items())


def test_connections_are_used_again_and_one_that_went_stale_is_replaced(tmp_path: Path) -> None:
    count = 0

    def script(_asked: Asked) -> list[Step]:
        nonlocal count
        count += 1
        # The connection ends after the second answer, as idle ones do.
        return [*whole(b"%d" % count), *([DROP] if count == 2 else [])]

    with upstream(script) as up, recording(up.url, tmp_path) as rec:
        for i in range(4):
            with Wire(rec) as wire:
                wire.send("POST", PATH, BODY)
                assert wire.read().body == b"%d" % (i + 1)
            rec.kept(i + 1)
        assert up.connections == 2
    assert count == 4


def test_a_connection_that_closes_under_a_request_is_tried_once_more(tmp_path: Path) -> None:
    seen = 0

    def script(_asked: Asked) -> list[Step]:
        nonlocal seen
        seen += 1
        return [DROP] if seen == 2 else whole(b"fine")

    with upstream(script) as up, recording(up.url, tmp_path) as rec:
        for _ in range(2):
            with Wire(rec) as wire:
                wire.send("POST", PATH, BODY)
                assert wire.read().body == b"fine"
        assert [each.end for each in rec.kept(2)] == ["complete", "complete"]
    assert seen == 3


def test_no_upstream_is_said_in_the_apis_words(tmp_path: Path) -> None:
    with upstream([]) as up:
        url = up.url
    with recording(url, tmp_path) as rec, Wire(rec) as wire:
        wire.send("POST", PATH, BODY)
        answer = wire.read()
        assert answer.status == 502
        assert answer.error["code"] == "upstream_unreachable"
        assert rec.recorder.kept == 0


@pytest.mark.parametrize("name", ["folder", "file.jsonl"])
def test_no_credential_is_on_the_disk(tmp_path: Path, name: str) -> None:
    echo = f'data: {{"you":"{KEY}"}}\n\n'.encode()
    script = stream(echo[:20], echo[20:], extra=f"Set-Cookie: id={KEY}\r\nX-Echo: {KEY}\r\n")
    with upstream(script) as up, recording(up.url, tmp_path / name) as rec:
        for headers in (
            {"Authorization": f"Bearer {KEY}"},
            {"X-Api-Key": KEY},
            {"Api-Key": KEY},
            {"Cookie": f"session={KEY}"},
        ):
            with Wire(rec) as wire:
                body = {"input": f"my key: {KEY}", "tools": [{"authorization": KEY}]}
                wire.send("POST", f"/v1/responses?key={KEY}", body, headers)
                answer = wire.read()
            # It passes whole, whatever is kept.
            assert answer.body == echo
            assert f"?key={KEY}" in up.asked[-1].line
        kept = rec.kept(4)
        text = rec.text()
    assert KEY not in text
    assert "0123456789" not in text
    assert text.count("[redacted]") >= 4
    assert all(len(each.body) == len(echo) for each in kept)


def test_the_real_client_sees_no_difference(tmp_path: Path) -> None:
    chunk = {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"content": "hé"}, "finish_reason": None}],
    }  # fmt: skip
    parts = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()] * 3
    with upstream(stream(*parts, b"data: [DONE]\n\n")) as up, recording(up.url, tmp_path) as rec:
        with OpenAI(base_url=rec.base_url, api_key=KEY, max_retries=0) as client:
            events = client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            text = "".join(event.choices[0].delta.content or "" for event in events)
        assert text == "hé" * 3
        rec.kept()
        assert KEY not in rec.text()


def test_a_slow_reader_slows_upstream_and_fills_no_memory(tmp_path: Path) -> None:
    piece = b"x" * 65536
    script: list[Step] = [stream_head(), *([chunked(piece)] * 400), chunked(b"")]
    with upstream(script) as up, recording(up.url, tmp_path) as rec:
        with Wire(rec, receive_buffer=4096) as wire:
            wire.send("POST", PATH, BODY)
            wire.until(b"\r\n\r\n")
            time.sleep(0.3)
            (passing,) = rec.recorder._passing
            assert len(passing._chunks) < 300
            while b"0\r\n\r\n" not in wire.more():
                pass
        (kept,) = rec.kept()
    assert kept.body == piece * 400
    assert kept.added.paused_ns > 100_000_000
