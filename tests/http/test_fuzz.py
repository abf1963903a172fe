"""Whatever a body holds, the answer is right or an error in the envelope: never a 5xx or a hang."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types import Completion, CreateEmbeddingResponse
from openai.types.chat import ChatCompletion

from paceline.app import App
from paceline.runtime.settings import Settings
from tests.live import CHAT, COMPLETIONS, EMBEDDINGS, PROFILES, Answer, checked_error, events

ANSWER_S = 10.0


class InProcess:
    """The application on a loop in a thread of its own, asked without a socket."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.app = App(Settings(profiles=(PROFILES,)))
        self._run(self._start())

    async def _start(self) -> None:
        self.app.engine.start()

    async def _stop(self) -> None:
        self.app.engine.stop()
        await self._loop.shutdown_default_executor()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result(ANSWER_S)

    def close(self) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        """The answer to a POST, whole; the client leaves once it has it."""
        # The loop gives back whatever the coroutine does.
        return self._run(self._post(path, body, headers or {}))  # type: ignore[no-any-return]

    async def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        answer = Answer(0, [], complete=False)
        requests = [{"type": "http.request", "body": body, "more_body": False}]
        done = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if requests:
                return requests.pop()
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = [(k.decode(), v.decode()) for k, v in message["headers"]]
                return
            answer.body += message.get("body", b"")
            if not message.get("more_body", False):
                answer.complete = True
                done.set()

        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("paceline.test", 80),
            "client": ("127.0.0.1", 1),
            "root_path": "",
        }
        await self.app(scope, receive, send)
        return answer


@pytest.fixture(scope="module")
def inside() -> Iterator[InProcess]:
    made = InProcess()
    yield made
    made.close()


SMALL_TEXT = st.text(max_size=6) | st.sampled_from(
    ["user", "instant", "quick", "flat-5000", "text", "echo", "low", "漢字👩‍🚀", "<|endoftext|>"]
)
NUMBERS = st.integers(-2, 40) | st.integers() | st.floats()
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | SMALL_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SMALL_TEXT, inner, max_size=4),
    max_leaves=10,
)

MESSAGES = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
    {"role": "assistant", "content": "Because."},
]
VALID: list[tuple[str, dict[str, Any]]] = [
    (
        CHAT,
        {
            "model": "quick",
            "messages": MESSAGES,
            "n": 2,
            "max_tokens": 12,
            "seed": 3,
            "stop": ["a"],
            "logprobs": True,
            "top_logprobs": 2,
            "stream": True,
            "stream_options": {"include_usage": True},
            "paceline": {"mode": "echo"},
        },
    ),
    (CHAT, {"model": "instant", "messages": MESSAGES, "max_completion_tokens": 9}),
    (
        CHAT,
        {
            "model": "thinker",
            "messages": MESSAGES,
            "max_tokens": 30,
            "reasoning_effort": "low",
            "include_reasoning": True,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        },
    ),
    (
        COMPLETIONS,
        {
            "model": "instant",
            "prompt": ["a", "b"],
            "n": 2,
            "best_of": 2,
            "max_tokens": 6,
            "echo": True,
            "logprobs": 2,
            "stream": False,
            "ignore_eos": True,
        },
    ),
    (COMPLETIONS, {"model": "flat-5000", "prompt": [1, 2, 3], "stream": True, "max_tokens": 5}),
    (EMBEDDINGS, {"model": "quick", "input": ["a", [1, 2]], "dimensions": 3, "user": "u"}),
    (EMBEDDINGS, {"model": "quick", "input": "a", "encoding_format": "base64"}),
]

# Answers of a million tokens, and clocks of hours, are right but slow.
SLOW = {"n", "max_tokens", "max_completion_tokens", "min_tokens", "best_of", "ignore_eos"}


def tamed(body: Any) -> Any:
    """The same body with nothing in it that would rightly take long."""
    if not isinstance(body, dict):
        return body
    for key in SLOW & set(body):
        if type(body[key]) is int and body[key] > 40:
            body[key] = 1 << 40
    body.setdefault("max_tokens", 20)
    own = body.get("paceline")
    if isinstance(own, dict):
        for key in ("ttft_ms", "rate", "output_tokens"):
            if isinstance(own.get(key), int | float):
                own[key] = 500 if key == "rate" else 5
    return body


def check(path: str, answer: Answer) -> None:
    assert answer.complete
    if answer.status != 200:
        assert answer.status in {400, 404}, answer.body
        error = checked_error(answer.status, answer.header("content-type"), answer.body)
        assert error["type"] == "invalid_request_error"
        assert error["code"] is not None
        return
    if answer.header("content-type") != "application/json":
        assert events(answer.body)
    elif path == CHAT:
        ChatCompletion.model_validate_json(answer.body, strict=True)
    elif path == COMPLETIONS:
        Completion.model_validate_json(answer.body, strict=True)
    elif '"encoding_format"' not in answer.text:
        assert json.loads(answer.body)["object"] == "list"
        if b'"embedding":[' in answer.body:
            CreateEmbeddingResponse.model_validate_json(answer.body, strict=True)


def encode(body: Any) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.parametrize(("path", "body"), VALID)
def test_the_valid_bodies_are_valid(inside: InProcess, path: str, body: dict[str, Any]) -> None:
    if path == EMBEDDINGS and isinstance(body["input"], list):
        body = {**body, "input": ["a", "b"]}
    answer = inside.post(path, encode(body))
    assert answer.status == 200, answer.text
    check(path, answer)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS])
@given(body=JSON)
@settings(max_examples=150)
def test_arbitrary_json(inside: InProcess, path: str, body: Any) -> None:
    check(path, inside.post(path, encode(tamed(body))))


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS])
@given(body=st.binary(max_size=40))
@settings(max_examples=100)
def test_arbitrary_bytes(inside: InProcess, path: str, body: bytes) -> None:
    check(path, inside.post(path, body))


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    found = []
    for key, item in items:
        found += [(*at, key), *places(item, (*at, key))]
    return found


FIELDS = sorted({key for _, body in VALID for key in body} | {"temperature", "user", "metadata"})


@pytest.mark.parametrize(("path", "valid"), VALID)
@given(data=st.data())
@settings(max_examples=120)
def test_mutated_bodies(
    inside: InProcess, path: str, valid: dict[str, Any], data: st.DataObject
) -> None:
    body = copy.deepcopy(valid)
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            body[data.draw(st.sampled_from(FIELDS))] = data.draw(JSON)
            continue
        *parents, last = data.draw(st.sampled_from(places(body) or [("x",)]))
        place: Any = body
        for key in parents:
            place = place[key]
        if data.draw(st.booleans()):
            place[last] = data.draw(JSON)
        else:
            del place[last]
    check(path, inside.post(path, encode(tamed(body))))


HEADER_NAMES = st.sampled_from(
    ["x-paceline-seed", "x-paceline-rate", "x-paceline-mode", "x-paceline-x", "x-request-id", "x"]
)


@given(
    st.dictionaries(
        HEADER_NAMES,
        st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=8)
        | st.integers(-2, 99).map(str),
        max_size=4,
    )
)
@settings(max_examples=150)
def test_arbitrary_headers(inside: InProcess, headers: dict[str, str]) -> None:
    body = {"model": "instant", "messages": MESSAGES, "max_tokens": 3, "stream": True}
    if "x-paceline-rate" in headers and headers["x-paceline-rate"].strip().isdigit():
        headers["x-paceline-rate"] = "900"
    check(CHAT, inside.post(CHAT, encode(body), headers))


NESTED: list[Callable[[int], str]] = [
    lambda depth: "[" * depth + "]" * depth,
    lambda depth: '{"messages":' * depth + "1" + "}" * depth,
    lambda depth: (
        '{"model":"quick","messages":[{"role":"user","content":' + "[" * depth + "]" * depth + "}]}"
    ),
]


@pytest.mark.parametrize("make", NESTED)
@pytest.mark.parametrize("depth", [10, 500, 1000, 2000, 100_000])
def test_deep_nesting(inside: InProcess, make: Callable[[int], str], depth: int) -> None:
    for path in (CHAT, COMPLETIONS, EMBEDDINGS):
        answer = inside.post(path, make(depth).encode())
        # A completion takes messages for a field that it doesn't know.
        assert answer.status == 400 or (path == COMPLETIONS and depth <= 1000)
        check(path, answer)


def test_a_server_that_stops_isn_t_ready() -> None:
    """From outside nobody sees it: the door shuts with the same signal."""
    made = InProcess()
    made.app.engine.draining = True
    answer = made.post(CHAT, encode({"model": "quick", "messages": MESSAGES}))
    assert answer.status == 503
    assert answer.error["code"] == "server_shutting_down"
    made.close()
