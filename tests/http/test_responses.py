"""The Responses API over HTTP, by the types and the client of the openai package."""

from __future__ import annotations

import time
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError
from openai.types.responses import Response
from openai.types.responses.response_item_list import ResponseItemList
from pydantic import BaseModel

from tests.live import Server, wait_until
from tests.wire.responses.grammar import checked, sse_events, walk

PATH = "/v1/responses"


def resp(model: str = "quick", given: Any = "hi", **fields: Any) -> dict[str, Any]:
    return {"model": model, "input": given, **fields}


@pytest.mark.parametrize("model", ["quick", "instant", "thinker"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"max_output_tokens": 3},
        {"reasoning": {"effort": "low", "summary": "auto"}},
        {"include": ["reasoning.encrypted_content", "message.output_text.logprobs"]},
        {"top_logprobs": 2, "max_output_tokens": 200},
        {"background": True},
        {"paceline": {"output_tokens": 0}},
    ],
)
def test_a_stream_follows_the_grammar_and_says_what_the_object_says(
    server: Server, model: str, body: dict[str, Any]
) -> None:
    asked = resp(model, **{**body, "paceline": {"seed": 5, **body.get("paceline", {})}})
    streamed = server.post(PATH, {**asked, "stream": True})
    assert streamed.status == 200
    assert streamed.header("content-type") == "text/event-stream; charset=utf-8"
    assert b"[DONE]" not in streamed.body
    final = walk(sse_events(streamed.body))
    whole = checked(server.post(PATH, {**asked, "background": False}).object)
    assert without_ids(final["output"]) == without_ids(whole["output"])
    assert final["status"] == whole["status"]
    assert final["usage"]["output_tokens"] == whole["usage"]["output_tokens"]


def without_ids(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key != "id"} for item in output]


@pytest.mark.realtime
def test_nothing_but_the_opening_leaves_before_the_first_token(server: Server) -> None:
    body = resp("flat-40", stream=True, max_output_tokens=4)
    answer = server.post(PATH, body, {"X-Paceline-TTFT-Ms": "300"})
    first, *rest = answer.arrivals
    assert b"response.in_progress" in first[1]
    assert b"output_item.added" not in first[1]
    assert 0.25 < rest[0][0] - first[0] < 0.6
    assert b"output_text.delta" in rest[0][1]


def test_the_client_s_helpers(server: Server) -> None:
    client = server.openai()
    with client.responses.stream(model="quick", input="hi") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert final.output_text

    class Empty(BaseModel):
        """Anything that a JSON object is."""

    parsed = client.responses.parse(model="instant", input="hi", text_format=Empty)
    assert parsed.id.startswith("resp_")


def test_a_chain_counts_all_that_went_before(server: Server) -> None:
    client = server.openai()
    first = client.responses.create(model="instant", input="hi", instructions="Be brief.")
    second = client.responses.create(
        model="instant", input="more", previous_response_id=first.id, instructions="Be brief."
    )
    resent = client.responses.create(
        model="instant",
        instructions="Be brief.",
        input=[
            {"role": "user", "content": "hi"},
            # output is input too
            *[item.to_dict() for item in first.output],  # type: ignore[list-item]
            {"role": "user", "content": "more"},
        ],
    )
    assert first.usage is not None
    assert second.usage is not None
    assert resent.usage is not None
    # What the chain remembers is what the whole history says.
    assert second.usage.input_tokens == resent.usage.input_tokens
    assert second.usage.input_tokens > first.usage.total_tokens
    assert client.responses.retrieve(second.id) == second
    with pytest.raises(BadRequestError) as caught:
        client.responses.create(model="instant", input="x", previous_response_id="resp_none")
    assert caught.value.code == "previous_response_not_found"


def test_what_is_not_stored_is_not_found(server: Server) -> None:
    client = server.openai()
    kept = client.responses.create(model="instant", input="hi")
    left = client.responses.create(model="instant", input="hi", store=False)
    with pytest.raises(NotFoundError):
        client.responses.retrieve(left.id)
    client.responses.delete(kept.id)
    with pytest.raises(NotFoundError):
        client.responses.retrieve(kept.id)
    with pytest.raises(NotFoundError):
        client.responses.delete(kept.id)


def test_input_items_are_paged(server: Server) -> None:
    given = [{"role": "user", "content": f"m{i}"} for i in range(5)]
    made = server.post(PATH, resp("instant", given)).object
    seen: list[str] = []
    after = ""
    while True:
        path = f"{PATH}/{made['id']}/input_items?limit=2&order=asc{after}"
        page = server.ask("GET", path).object
        ResponseItemList.model_validate(page, strict=True)
        seen += [item["content"][0]["text"] for item in page["data"]]
        after = f"&after={page['last_id']}"
        if not page["has_more"]:
            break
    assert seen == [f"m{i}" for i in range(5)]
    backwards = server.openai().responses.input_items.list(made["id"])
    # Every item is a message with content.
    assert [item.to_dict()["content"][0]["text"] for item in backwards] == seen[::-1]  # type: ignore[index]
    assert server.ask("GET", f"{PATH}/{made['id']}/input_items?limit=0").error["param"] == "limit"


def test_input_tokens_are_those_that_a_response_is_charged(server: Server) -> None:
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}]
    asked = {"input": "hi there", "instructions": "Be brief.", "tools": tools}
    counted = server.post(f"{PATH}/input_tokens", asked).object
    made = server.post(PATH, resp("instant", **{**asked, "given": asked.pop("input")})).object
    assert counted["object"] == "response.input_tokens"
    assert counted["input_tokens"] == made["usage"]["input_tokens"]


def test_compaction(server: Server) -> None:
    client = server.openai()
    made = client.responses.compact(model="instant", input="a long story")
    (item,) = made.output
    assert item.type == "compaction"
    trigger: Any = [{"role": "user", "content": "a"}, {"type": "compaction_trigger"}]
    answer = client.responses.create(model="thinker", input=trigger)
    (sealed,) = answer.output
    assert sealed.type == "compaction"
    assert answer.usage is not None
    assert answer.usage.output_tokens_details.reasoning_tokens == 0
    after = client.responses.create(
        model="instant",
        # What an answer has as output is input as well.
        input=[sealed.to_dict(), {"role": "user", "content": "go on"}],  # type: ignore[list-item]
    )
    assert after.usage is not None
    assert answer.usage.output_tokens <= after.usage.input_tokens < 2 * answer.usage.output_tokens


def test_an_agent_s_summary_is_a_short_whole_text(server: Server) -> None:
    text = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."
    given = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]
    made = server.post(PATH, resp("thinker", given, tools=[])).object
    assert made["status"] == "completed"
    assert [item["type"] for item in made["output"]] == ["message"]
    assert made["usage"]["output_tokens"] == 256


def test_a_prompt_that_is_too_long_is_refused_or_cut(server: Server) -> None:
    given = [{"role": "user", "content": "word " * 400} for _ in range(12)]
    refused = server.post(PATH, resp("quick", given, stream=True))
    assert refused.status == 400
    assert refused.error["code"] == "context_length_exceeded"
    assert refused.error["param"] == "input"
    cut = server.post(PATH, resp("quick", given, truncation="auto", max_output_tokens=20)).object
    assert cut["status"] in ("completed", "incomplete")
    # As much as fits stays: another message would have been too much.
    assert 4096 - 20 - 410 < cut["usage"]["input_tokens"] <= 4096 - 20
    alone = [{"role": "user", "content": "word " * 5000}]
    assert server.post(PATH, resp("quick", alone, truncation="auto")).status == 400


def test_unknown_fields_are_named(server: Server) -> None:
    answer = server.post(PATH, resp("instant", brand_new=1))
    assert answer.status == 200
    assert answer.header("x-paceline-unknown-fields") == "brand_new"


@pytest.mark.realtime
def test_in_the_background(server: Server) -> None:
    client = server.openai()
    made = client.responses.create(model="slow", input="hi", background=True, max_output_tokens=12)
    assert made.status == "queued"
    assert made.output == []

    def status() -> str | None:
        return client.responses.retrieve(made.id).status

    wait_until(lambda: status() == "in_progress", "the response runs")
    joined = list(client.responses.retrieve(made.id, stream=True, starting_after=2))
    assert [event.sequence_number for event in joined][0] == 3  # noqa: RUF015 - all are read
    assert joined[-1].type == "response.incomplete"
    final = client.responses.retrieve(made.id)
    assert joined[-1].response == final
    again = server.ask("GET", f"{PATH}/{made.id}?stream=true")
    events = sse_events(again.body)
    assert walk(events)["id"] == made.id
    assert [e["sequence_number"] for e in events[3:]] == [e.sequence_number for e in joined]
    assert Response.model_validate(events[-1]["response"]) == final


@pytest.mark.realtime
def test_a_background_response_outlives_its_client(server: Server) -> None:
    client = server.openai()
    stream = client.responses.create(
        model="slow", input="hi", background=True, stream=True, max_output_tokens=10
    )
    created = next(iter(stream))
    assert created.type == "response.created"
    stream.close()
    made = created.response.id
    wait_until(lambda: client.responses.retrieve(made).status == "incomplete", "it ends by itself")


@pytest.mark.realtime
def test_a_background_response_can_be_cancelled(server: Server) -> None:
    client = server.openai()
    made = client.responses.create(model="slow", input="hi", background=True)
    time.sleep(0.2)
    assert client.responses.cancel(made.id).status == "cancelled"
    server.wait_idle("slow")
    assert client.responses.cancel(made.id).status == "cancelled"
    last = list(client.responses.retrieve(made.id, stream=True))[-1]
    assert last.type == "response.incomplete"
    assert last.response.status == "cancelled"
    plain = client.responses.create(model="instant", input="hi")
    with pytest.raises(BadRequestError):
        client.responses.cancel(plain.id)
    with pytest.raises(BadRequestError):
        list(client.responses.retrieve(plain.id, stream=True))


def test_conversations(server: Server) -> None:
    client = server.openai()
    talk = client.conversations.create(
        metadata={"topic": "sea"}, items=[{"type": "message", "role": "user", "content": "Hello"}]
    )
    assert client.conversations.retrieve(talk.id).metadata == {"topic": "sea"}
    assert client.conversations.update(talk.id, metadata={"a": "b"}).metadata == {"a": "b"}
    first = client.responses.create(model="instant", input="one", conversation=talk.id)
    second = client.responses.create(model="instant", input="two", conversation={"id": talk.id})
    assert first.conversation is not None
    assert first.conversation.id == talk.id
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens > first.usage.total_tokens
    items = list(client.conversations.items.list(talk.id, order="asc"))
    assert [item.to_dict()["role"] for item in items] == [
        "user", "user", "assistant", "user", "assistant",
    ]  # fmt: skip
    added = client.conversations.items.create(
        talk.id, items=[{"type": "message", "role": "user", "content": "three"}]
    )
    key = added.data[0].id
    assert key is not None
    assert client.conversations.items.retrieve(key, conversation_id=talk.id).id == key
    client.conversations.items.delete(key, conversation_id=talk.id)
    with pytest.raises(NotFoundError):
        client.conversations.items.retrieve(key, conversation_id=talk.id)
    assert client.conversations.delete(talk.id).deleted
    with pytest.raises(NotFoundError):
        client.responses.create(model="instant", input="x", conversation=talk.id)
