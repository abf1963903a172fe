"""openai: responses, whole and streamed, a tool loop by previous id, parse, and background."""

import json
import os
import time

from openai import OpenAI
from pydantic import BaseModel

MODEL = os.environ["MODEL"]
client = OpenAI(base_url=os.environ["BASE_URL"] + "/v1", api_key="any", max_retries=0)


class Verdict(BaseModel):
    title: str
    score: int
    tags: list[str]


TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    }
]

whole = client.responses.create(model=MODEL, input="Why is the sky blue?", max_output_tokens=400)
assert whole.output_text
assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
again = client.responses.retrieve(whole.id)
assert again.output_text == whole.output_text

with client.responses.stream(model=MODEL, input="Why is the sky blue?") as stream:
    kinds = [event.type for event in stream]
    final = stream.get_final_response()
assert kinds[0] == "response.created"
assert kinds[-1] == "response.completed"
assert final.output_text

response = client.responses.create(model=MODEL, input="The weather in Graz?", tools=TOOLS)
called = 0
for _ in range(8):
    calls = [item for item in response.output if item.type == "function_call"]
    if not calls:
        break
    outputs = []
    for call in calls:
        called += 1
        assert set(json.loads(call.arguments)) == {"city"}
        outputs.append({"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})
    response = client.responses.create(
        model=MODEL, previous_response_id=response.id, input=outputs, tools=TOOLS
    )
else:
    raise AssertionError("the loop doesn't end")
assert called, "no tool was called"
assert response.output_text

parsed = client.responses.parse(model=MODEL, input="Judge this.", text_format=Verdict)
assert isinstance(parsed.output_parsed, Verdict), parsed

later = client.responses.create(
    model=MODEL, input="Take your time.", background=True, max_output_tokens=200
)
assert later.status in ("queued", "in_progress"), later.status
for _ in range(600):
    later = client.responses.retrieve(later.id)
    if later.status not in ("queued", "in_progress"):
        break
    time.sleep(0.1)
assert later.status in ("completed", "incomplete"), later.status
