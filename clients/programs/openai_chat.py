"""openai: chat completions, whole and streamed, a tool loop, and the parse helper."""

import json
import os

from openai import OpenAI
from pydantic import BaseModel

MODEL = os.environ["MODEL"]
client = OpenAI(base_url=os.environ["BASE_URL"] + "/v1", api_key="any", max_retries=0)


class Step(BaseModel):
    explanation: str
    result: float


class Solution(BaseModel):
    steps: list[Step]
    answer: str


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city", "days"],
                "additionalProperties": False,
            },
        },
    }
]
hello = [{"role": "user", "content": "What is the weather like in Graz?"}]

whole = client.chat.completions.create(model=MODEL, messages=hello, max_completion_tokens=400)
assert whole.choices[0].finish_reason in ("stop", "length")
assert whole.usage.completion_tokens > 0

stream = client.chat.completions.create(
    model=MODEL, messages=hello, stream=True, stream_options={"include_usage": True}
)
chunks = list(stream)
assert chunks[-1].usage.completion_tokens > 0
assert any(c.choices and c.choices[0].delta.content for c in chunks)

messages = list(hello)
called = 0
for _ in range(8):
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=TOOLS) as events:
        for _event in events:
            pass
        message = events.get_final_completion().choices[0].message
    messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        called += 1
        arguments = json.loads(call.function.arguments)
        assert set(arguments) == {"city", "days"}, arguments
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"})
else:
    raise AssertionError("the loop doesn't end")
assert called, "no tool was called"
assert message.content

parsed = client.chat.completions.parse(model=MODEL, messages=hello, response_format=Solution)
assert isinstance(parsed.choices[0].message.parsed, Solution), parsed
