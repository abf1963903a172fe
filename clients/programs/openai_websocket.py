"""openai: responses over a WebSocket, a tool loop that sends only what is new."""

import json
import os

from openai import OpenAI

MODEL = os.environ["MODEL"]
client = OpenAI(base_url=os.environ["BASE_URL"] + "/v1", api_key="any", max_retries=0)
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

with client.responses.connect() as connection:

    def turn(**fields):
        """One response: sent, and read to its end."""
        connection.send(
            {"type": "response.create", "model": MODEL, "store": False, "tools": TOOLS, **fields}
        )
        while True:
            event = connection.recv()
            assert event.type != "error", event
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                return event.response

    response = turn(input="The weather in Graz?")
    called = 0
    for _ in range(8):
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            break
        called += len(calls)
        for call in calls:
            assert set(json.loads(call.arguments)) == {"city"}
        response = turn(
            previous_response_id=response.id,
            input=[
                {"type": "function_call_output", "call_id": c.call_id, "output": "sunny"}
                for c in calls
            ],
        )
    else:
        raise AssertionError("the loop doesn't end")
    assert called, "no tool was called"
    assert response.status == "completed"
    assert response.output_text
