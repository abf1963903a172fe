"""langchain-openai: invoke, stream, tools, structured output, embeddings."""

import os
import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

MODEL = os.environ["MODEL"]
base = os.environ["BASE_URL"] + "/v1"
responses = sys.argv[1] == "responses"
llm = ChatOpenAI(
    model=MODEL, base_url=base, api_key="any", max_retries=0, use_responses_api=responses
)


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    days: int


assert llm.invoke("hi").text
assert "".join(chunk.text for chunk in llm.stream("hi"))

bound = llm.bind_tools([Weather])
messages = [HumanMessage("The weather in Graz?")]
called = 0
for _ in range(8):
    answer = bound.invoke(messages)
    messages.append(answer)
    if not answer.tool_calls:
        break
    for call in answer.tool_calls:
        called += 1
        Weather.model_validate(call["args"])
        messages.append(ToolMessage("sunny", tool_call_id=call["id"]))
else:
    raise AssertionError("the loop doesn't end")
assert called, "no tool was called"
assert answer.text

made = llm.with_structured_output(Weather).invoke("Report on Graz.")
assert isinstance(made, Weather), made

if not responses:
    # Counting tokens first would fetch a vocabulary from outside.
    embeddings = OpenAIEmbeddings(
        model=MODEL, base_url=base, api_key="any", max_retries=0, check_embedding_ctx_length=False
    )
    vectors = embeddings.embed_documents(["one", "two"])
    assert len(vectors) == 2
