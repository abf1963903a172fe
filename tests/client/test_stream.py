"""The client against a server of a few lines, that says exactly what it is told to."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from paceline.client.sse import DONE
from paceline.client.stream import BaseUrl, EventStream, RefusedError, StreamError

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole_request(peer: socket.socket) -> bytes:
    """All of it: a socket that is closed with something unread resets its connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += peer.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += peer.recv(65536)
    return head + b"\r\n\r\n" + body


@contextlib.contextmanager
def answering(pieces: Sequence[bytes], *, then_wait: bool = False) -> Iterator[EventStream]:
    """A stream that has sent a request to a server which answers with these pieces."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()
    heard: list[bytes] = []

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            heard.append(whole_request(peer))
            for piece in pieces:
                peer.sendall(piece)
                time.sleep(0.002)
            if then_wait:
                done.wait(10)

    thread = threading.Thread(target=serve)
    thread.start()
    base = BaseUrl.parse(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
    stream = EventStream(base, "secret", timeout_s=5.0)
    try:
        stream.open()
        stream.send("/chat/completions", {"model": "m"})
        yield stream
        assert heard[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
        assert b"Authorization: Bearer secret\r\n" in heard[0]
    finally:
        done.set()
        stream.finish()
        thread.join()
        listener.close()


def test_events_come_with_the_read_that_completed_them() -> None:
    body = b"data: one\n\ndata: t"
    pieces = [CHUNKED, chunk(body), chunk(b"wo\n\ndata: [DONE]\n\n"), chunk(b"")]
    before = time.perf_counter()
    with answering(pieces) as stream:
        received = list(stream.receive())
    assert [e.data for r in received for e in r.events] == ["one", "two", DONE]
    stamps = [r.at for r in received]
    assert stamps == sorted(stamps)
    assert before < stamps[0] <= stamps[-1] < time.perf_counter()


def test_an_answer_cut_at_every_byte_is_the_same() -> None:
    whole = CHUNKED + chunk("data: zo\u00eb\n\n".encode()) + chunk(b"data: b\r\n\r\n") + chunk(b"")
    with answering([bytes([b]) for b in whole]) as stream:
        assert [e.data for r in stream.receive() for e in r.events] == ["zo\u00eb", "b"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error":{"message":"No model is called x.","type":"t"}}', "404: No model is called x."),
        (b'{"detail":"Not Found"}', "404: Not Found"),
        (b"plain words", "404: plain words"),
        (b"", "404: Missing"),
    ],
)
def test_a_refusal_says_what_the_server_said(body: bytes, told: str) -> None:
    head = b"HTTP/1.1 404 Missing\r\nContent-Length: %d\r\n\r\n" % len(body)
    with answering([head, body]) as stream, pytest.raises(RefusedError) as caught:
        list(stream.receive())
    assert str(caught.value) == told
    assert caught.value.status == 404


def test_an_answer_that_is_no_stream_is_refused() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi"
    with answering([head]) as stream, pytest.raises(RefusedError, match="text/html, not a stream"):
        list(stream.receive())


def test_an_answer_that_breaks_off_says_so() -> None:
    with (
        answering([CHUNKED, chunk(b"data: a\n\n"), b"ff\r\nda"]) as stream,
        pytest.raises(StreamError, match="broke off: the server closed it before the end"),
    ):
        list(stream.receive())


def test_closing_from_another_thread_wakes_the_reader() -> None:
    with answering([CHUNKED, chunk(b"data: a\n\n")], then_wait=True) as stream:
        timer = threading.Timer(0.1, stream.close)
        timer.start()
        begun = time.perf_counter()
        with pytest.raises(StreamError, match="broke off"):
            list(stream.receive())
        assert time.perf_counter() - begun < 4
        timer.join()


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    stream = EventStream(BaseUrl.parse(f"http://127.0.0.1:{port}"), "k")
    with pytest.raises(StreamError, match=f"127.0.0.1:{port} can't be reached: Connection refused"):
        stream.open()


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("https://example.test/a/v1", "https://example.test:443/a/v1"),
        ("http://[::1]:9/v1", "http://[::1]:9/v1"),
    ],
)
def test_base_urls(url: str, whole: str) -> None:
    assert str(BaseUrl.parse(url)) == whole


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("localhost:8000", "not an http:// or https:// address"),
        ("ftp://a/v1", "not an http:// or https:// address"),
        ("http://", "not an http:// or https:// address"),
        ("http://a:99999/v1", "Port out of range"),
        ("http://a/v1?x=1", "more than a path"),
    ],
)
def test_what_is_no_base_url(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        BaseUrl.parse(url)
