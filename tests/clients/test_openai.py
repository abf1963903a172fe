"""The openai package against a real server: its own types judge every answer and every chunk."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import openai
import pytest
import tiktoken
from openai import AsyncOpenAI, OpenAI
from openai.types import Completion, CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

from paceline.runtime.tokenizer import Tokenizer
from paceline.runtime.vocabulary import load_encoding
from tests.live import CHAT, COMPLETIONS, PROFILES, Server, chat, compl, events

MODELS = ["quick", "instant", "flat-2000", "uneven"]
QUESTION: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Why is the sky blue? ☀️"},
]


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    with server.openai() as made:
        yield made


@pytest.fixture(scope="module")
def plain() -> tiktoken.Encoding:
    """o200k_base as any client has it."""
    return load_encoding()


def join(chunks: list[ChatCompletionChunk]) -> dict[int, str]:
    texts: defaultdict[int, str] = defaultdict(str)
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    return dict(texts)


def texts_of(answer: ChatCompletion) -> dict[int, str]:
    return {choice.index: choice.message.content or "" for choice in answer.choices}


# -- chat --------------------------------------------------------------------------------------

CHAT_CASES: list[dict[str, Any]] = [
    {},
    {"n": 3},
    {"logprobs": True},
    {"logprobs": True, "top_logprobs": 5, "n": 2},
    {"stop": ["the", " a "]},
    {"stop": ".", "logprobs": True, "top_logprobs": 1},
    {"max_tokens": 1},
    {"max_completion_tokens": 40, "extra_body": {"ignore_eos": True}},
    {"reasoning_effort": "low", "extra_body": {"include_reasoning": True}},
    {"extra_body": {"paceline": {"mode": "echo"}}},
    {"extra_body": {"paceline": {"mode": "echo"}, "logprobs": True, "top_logprobs": 3}},
    {"extra_body": {"paceline": {"output_tokens": 0}}},
    {"service_tier": "priority", "user": "u", "metadata": {"a": "b"}, "store": True},
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", CHAT_CASES)
def test_chat_answers_and_chunks_are_valid_and_agree(
    server: Server, client: OpenAI, plain: tiktoken.Encoding, model: str, case: dict[str, Any]
) -> None:
    fields = {"model": model, "messages": QUESTION, "seed": 42, **case}
    raw = client.chat.completions.with_raw_response.create(**fields)
    answer = ChatCompletion.model_validate_json(raw.content, strict=True)
    assert answer == raw.parse()
    with client.chat.completions.with_streaming_response.create(
        **fields, stream=True, stream_options={"include_usage": True}
    ) as response:
        body = b"".join(response.iter_bytes())
    data = events(body)
    chunks = [ChatCompletionChunk.model_validate_json(json.dumps(d), strict=True) for d in data]
    TypeAdapter(list[ChatCompletionChunk]).validate_python(data)

    assert join(chunks) == texts_of(answer)
    usage, streamed = answer.usage, chunks[-1].usage
    assert usage is not None
    assert streamed is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (
        streamed.prompt_tokens,
        streamed.completion_tokens,
        streamed.total_tokens,
    )
    assert usage.completion_tokens_details == streamed.completion_tokens_details
    assert answer.model == chunks[0].model == model
    ends = {c.index: c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason}
    assert ends == {choice.index: choice.finish_reason for choice in answer.choices}

    details = usage.completion_tokens_details
    assert details is not None
    if "stop" not in case and not case.get("extra_body", {}).get("ignore_eos"):
        # A stop string's own tokens are generated and not shown, so there they can't agree; a
        # text that goes on after its end is no text that anybody would encode.
        visible = usage.completion_tokens - (details.reasoning_tokens or 0)
        assert visible == sum(len(plain.encode_ordinary(t)) for t in texts_of(answer).values())

    for choice in answer.choices:
        parts = [c for chunk in chunks for c in chunk.choices if c.index == choice.index]
        entries = [e for p in parts if p.logprobs for e in p.logprobs.content or ()]
        if choice.logprobs is None:
            assert entries == []
            continue
        assert choice.logprobs.content is not None
        assert [e.model_dump() for e in entries] == [
            e.model_dump() for e in choice.logprobs.content
        ]
        for entry in entries:
            assert -100.0 < entry.logprob <= 0.0
            assert math.isfinite(entry.logprob)
            assert bytes(entry.bytes or ()).decode("utf-8", "replace") == entry.token
            top = {other.token: other.logprob for other in entry.top_logprobs}
            assert len(entry.top_logprobs) == fields.get(
                "top_logprobs", case.get("extra_body", {}).get("top_logprobs", 0)
            )
            assert sum(math.exp(value) for value in top.values()) <= 1.0 + 1e-6


@pytest.mark.parametrize("model", ["quick", "instant"])
def test_prompt_tokens_are_those_of_the_published_recipe(
    client: OpenAI, plain: tiktoken.Encoding, tokenizer: Tokenizer, model: str
) -> None:
    """Three tokens a message and its role's, three for the answer's beginning."""
    answer = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=1)
    assert answer.usage is not None
    texts = [text for message in QUESTION for text in (message["role"], message["content"])]
    expected = 3 + 3 * len(QUESTION) + sum(len(plain.encode(text)) for text in texts)
    assert answer.usage.prompt_tokens == expected
    assert expected == 9 + sum(map(tokenizer.count, texts))


def test_seeds_decide(client: OpenAI) -> None:
    def text(**fields: Any) -> str:
        answer: ChatCompletion = client.chat.completions.create(
            model="instant", messages=QUESTION, **fields
        )
        return answer.choices[0].message.content or ""

    assert text(seed=1) == text(seed=1)
    assert text() == text()
    assert len({text(seed=n) for n in range(8)}) > 4
    several = client.chat.completions.create(model="instant", messages=QUESTION, n=3, seed=1)
    assert len({choice.message.content for choice in several.choices}) == 3
    assert several.choices[0].message.content == text(seed=1)


def test_stop_ends_the_text_before_it(client: OpenAI) -> None:
    fields: dict[str, Any] = {"model": "instant", "messages": QUESTION, "seed": 3}
    whole = client.chat.completions.create(**fields).choices[0].message.content or ""
    stop = whole[len(whole) // 2 :][:7]
    cut = client.chat.completions.create(**fields, stop=[stop, "§"]).choices[0]
    assert cut.finish_reason == "stop"
    assert cut.message.content == whole[: whole.index(stop)]


def test_the_streaming_helper_adds_it_all_up(client: OpenAI) -> None:
    """`client.chat.completions.stream` parses each chunk and keeps a snapshot."""
    with client.chat.completions.stream(
        model="quick", messages=QUESTION, seed=1, logprobs=True, n=2
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    whole = client.chat.completions.create(model="quick", messages=QUESTION, seed=1, n=2)
    assert {"chunk", "content.delta", "content.done", "logprobs.content.delta"} <= kinds
    assert {c.index: c.message.content for c in final.choices} == texts_of(whole)


async def test_async_streams_side_by_side(server: Server) -> None:
    import asyncio

    async with server.async_openai() as client:

        async def ask(number: int) -> tuple[str, str]:
            messages: list[Any] = [{"role": "user", "content": f"Question {number}"}]
            parts = []
            stream = await client.chat.completions.create(
                model="quick", messages=messages, seed=number, stream=True
            )
            async for chunk in stream:
                ChatCompletionChunk.model_validate(chunk.model_dump(), strict=True)
                parts.append(chunk.choices[0].delta.content or "")
            whole = await client.chat.completions.create(
                model="quick", messages=messages, seed=number
            )
            return "".join(parts), whole.choices[0].message.content or ""

        found = await asyncio.gather(*(ask(number) for number in range(20)))
    assert all(streamed == whole for streamed, whole in found)
    assert len({whole for _, whole in found}) > 10


# -- text completions --------------------------------------------------------------------------

COMPLETION_CASES: list[dict[str, Any]] = [
    {"prompt": "Once upon a time"},
    {"prompt": ["one", "two"], "n": 2},
    {"prompt": [1000, 2000, 3000]},
    {"prompt": [[1000, 2000], [3000]], "logprobs": 3},
    {"prompt": "echoed", "echo": True, "logprobs": 0},
    {"prompt": "echoed", "echo": True, "max_tokens": 0},
    {"prompt": "hi", "stop": "e", "logprobs": 1},
    {
        "prompt": "déjà vu 漢字 👩‍👩‍👧",
        "extra_body": {"paceline": {"mode": "echo"}},
        "max_tokens": 50,
    },
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", COMPLETION_CASES)
def test_completions_are_valid_and_agree(client: OpenAI, model: str, case: dict[str, Any]) -> None:
    fields = {"model": model, "seed": 7, **case}
    raw = client.completions.with_raw_response.create(**fields)
    answer = Completion.model_validate_json(raw.content, strict=True)
    with client.completions.with_streaming_response.create(
        **fields, stream=True, stream_options={"include_usage": True}
    ) as response:
        data = events(b"".join(response.iter_bytes()))
    assert answer.usage is not None
    texts: defaultdict[int, str] = defaultdict(str)
    ends: dict[int, str] = {}
    logprobs: dict[str, dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for chunk in data:
        for choice in chunk["choices"]:
            # The package has one type for whole answers and for chunks, in which the reason is
            # required; OpenAI's API and vLLM send null until the end, and so does this server.
            if choice["finish_reason"] is not None:
                ends[choice["index"]] = choice["finish_reason"]
            else:
                choice["finish_reason"] = "stop"
            texts[choice["index"]] += choice["text"]
            for key, values in (choice["logprobs"] or {}).items():
                logprobs[key][choice["index"]] += values
        Completion.model_validate_json(json.dumps(chunk), strict=True)
    assert dict(texts) == {choice.index: choice.text for choice in answer.choices}
    assert ends == {choice.index: choice.finish_reason for choice in answer.choices}
    usage = data[-1]["usage"]
    assert usage["prompt_tokens"] == answer.usage.prompt_tokens
    assert usage["completion_tokens"] == answer.usage.completion_tokens
    for whole in answer.choices:
        if whole.logprobs is not None:
            for key, values in whole.logprobs.model_dump().items():
                assert logprobs[key][whole.index] == values


@pytest.mark.parametrize(
    ("prompt", "count"),
    [("Once upon a time", 4), (["one", "two"], 2), ([1, 2, 3], 3), ([[1, 2], [3]], 3)],
)
def test_completion_prompts_count_without_overhead(client: OpenAI, prompt: Any, count: int) -> None:
    answer = client.completions.create(model="quick", prompt=prompt, max_tokens=3)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == count
    assert answer.usage.completion_tokens == 3 * len(answer.choices)


# -- embeddings --------------------------------------------------------------------------------


def test_embeddings_are_valid_unit_vectors(client: OpenAI, tokenizer: Tokenizer) -> None:
    texts = ["The sky is blue.", "漢字", "The sky is blue."]
    raw = client.embeddings.with_raw_response.create(
        model="quick", input=texts, encoding_format="float"
    )
    answer = CreateEmbeddingResponse.model_validate_json(raw.content, strict=True)
    assert [item.index for item in answer.data] == [0, 1, 2]
    assert answer.usage.prompt_tokens == answer.usage.total_tokens
    assert answer.usage.total_tokens == sum(map(tokenizer.count, texts))
    for item in answer.data:
        assert math.fsum(x * x for x in item.embedding) == pytest.approx(1.0, abs=1e-5)
    assert answer.data[0].embedding == answer.data[2].embedding != answer.data[1].embedding


def test_embeddings_in_base64_are_the_same_numbers(client: OpenAI) -> None:
    """The package asks for base64 by default and unpacks it."""
    fields: dict[str, Any] = {"model": "quick", "input": "hello", "dimensions": 64}
    unpacked = client.embeddings.create(**fields).data[0].embedding
    floats = client.embeddings.create(**fields, encoding_format="float").data[0].embedding
    raw = client.embeddings.with_raw_response.create(**fields, encoding_format="base64")
    packed = json.loads(raw.content)["data"][0]["embedding"]
    assert list(struct.unpack("<64f", base64.b64decode(packed))) == list(unpacked)
    assert list(unpacked) == pytest.approx(floats, abs=1e-7)
    assert len(floats) == 64


def test_embeddings_of_tokens_and_of_lists_of_tokens(client: OpenAI) -> None:
    one = client.embeddings.create(model="quick", input=[5, 6, 7])
    several = client.embeddings.create(model="quick", input=[[5, 6, 7], [8]])
    assert one.usage.prompt_tokens == 3
    assert several.usage.prompt_tokens == 4
    assert several.data[0].embedding == one.data[0].embedding


# -- models ------------------------------------------------------------------------------------


def test_models_are_listed_and_found(client: OpenAI) -> None:
    raw = client.models.with_raw_response.list()
    listed = TypeAdapter(list[Model]).validate_json(
        json.dumps(json.loads(raw.content)["data"]), strict=True
    )
    names = {model.id for model in listed}
    assert {path.stem for path in PROFILES.glob("*.toml")} <= names
    assert {"gpu-40", "wafer-750", "spark-1000", "b300-340", "wafer-600"} <= names
    assert [model.id for model in client.models.list()] == [model.id for model in listed]
    for model in listed:
        assert client.models.retrieve(model.id) == model


@pytest.mark.parametrize("name", ["flat-40", "flat-1250.5", "instant"])
def test_models_without_a_file_are_found_too(client: OpenAI, name: str) -> None:
    assert client.models.retrieve(name).id == name


# -- errors and headers ------------------------------------------------------------------------


def test_unknown_models_raise_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="nope", messages=QUESTION)
    error = caught.value
    assert (error.status_code, error.code, error.param) == (404, "model_not_found", "model")
    assert error.type == "invalid_request_error"
    assert error.request_id is not None
    assert error.request_id.startswith("req_")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nope")
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="nope", prompt="x", stream=True)
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="nope", input="x")


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"temperature": 3}, "temperature", "decimal_above_max_value"),
        ({"n": 0}, "n", "integer_below_min_value"),
        ({"messages": []}, "messages", "empty_array"),
        ({"messages": [{"role": "bot", "content": ""}]}, "messages[0].role", "invalid_value"),
        ({"max_tokens": 5000}, "max_tokens", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": "word " * 5000}]},
            "messages",
            "context_length_exceeded",
        ),
        ({"extra_body": {"paceline": {"speed": 1}}}, "paceline.speed", "unknown_parameter"),
        (
            {"extra_headers": {"X-Paceline-Rate": "-1"}},
            "X-Paceline-Rate",
            "decimal_below_min_value",
        ),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_bad_requests_name_their_field(
    client: OpenAI, fields: dict[str, Any], param: str, code: str, stream: bool
) -> None:
    fields = {"model": "quick", "messages": QUESTION, **fields}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**fields, stream=stream)
    assert caught.value.param == param
    assert caught.value.code == code
    assert caught.value.type == "invalid_request_error"


def test_headers_of_raw_responses(server: Server, client: OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="quick", messages=QUESTION, extra_body={"some_field": 1, "other field": 2}
    )
    assert raw.headers["x-request-id"] == raw.request_id
    assert raw.request_id == raw.parse()._request_id
    assert int(raw.headers["openai-processing-ms"]) >= 0
    assert raw.headers["openai-version"] == "2020-10-01"
    assert raw.headers["x-paceline-profile"] == "quick"
    assert raw.headers["x-paceline-unknown-fields"] == "some_field, other?field"
    names = {part.split(";")[0].strip() for part in raw.headers["server-timing"].split(",")}
    assert {"queue", "prefill", "ttft"} <= names
    assert server.record(raw.request_id or "")["output_tokens"] > 0


@pytest.mark.parametrize("method", ["models", "embeddings"])
def test_every_answer_has_a_request_id(client: OpenAI, method: str) -> None:
    if method == "models":
        assert client.models.retrieve("quick")._request_id
        assert client.models.list()._request_id
    else:
        assert client.embeddings.create(model="quick", input="x")._request_id


def test_an_error_in_a_stream_is_raised() -> None:
    """A server that stops breaks its streams off with an error that the package understands."""
    with Server("--grace-s", "0") as server, server.openai() as client:
        stream = client.chat.completions.create(
            model="flat-50", messages=QUESTION, stream=True, extra_body={"ignore_eos": True}
        )
        for _ in range(3):
            next(stream)
        server.process.terminate()
        with pytest.raises(openai.APIError, match="shutting down"):
            list(stream)


async def test_a_client_that_closes_its_stream_frees_the_slot(server: Server) -> None:
    client: AsyncOpenAI
    async with server.async_openai() as client:
        stream = await client.chat.completions.create(
            model="slow", messages=QUESTION, stream=True, max_tokens=2000
        )
        async for _ in stream:
            break
        await stream.close()
    server.wait_idle("slow")


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_raw_bytes_are_what_the_package_read(server: Server, client: OpenAI, path: str) -> None:
    """The body as a plain socket sees it holds the same object."""
    body = chat("instant", seed=1) if path == CHAT else compl("instant", seed=1)
    found = server.post(path, body).object
    if path == CHAT:
        parsed: Any = client.chat.completions.create(**body)
    else:
        parsed = client.completions.create(**body)
    mine = parsed.to_dict()
    for key in ("id", "created"):
        assert type(mine.pop(key)) is type(found.pop(key))
    assert mine == found
