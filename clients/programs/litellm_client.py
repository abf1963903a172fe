"""litellm: completion whole and streamed, a tool call, and the responses bridge."""

import json
import os
import sys

import litellm

MODEL = os.environ["MODEL"]
options = {"api_base": os.environ["BASE_URL"] + "/v1", "api_key": "any", "max_retries": 0}
hello = [{"role": "user", "content": "The weather in Graz?"}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]

if sys.argv[1] == "responses":
    made = litellm.responses(model="openai/" + MODEL, input="hi", **options)
    assert made.output
    events = list(litellm.responses(model="openai/" + MODEL, input="hi", stream=True, **options))
    assert events[-1].type == "response.completed", events[-1]
    bridged = litellm.completion(model="openai/responses/" + MODEL, messages=hello, **options)
    assert bridged.choices[0].message.content
else:
    whole = litellm.completion(model="openai/" + MODEL, messages=hello, **options)
    assert whole.choices[0].message.content
    chunks = list(
        litellm.completion(
            model="openai/" + MODEL,
            messages=hello,
            stream=True,
            stream_options={"include_usage": True},
            **options,
        )
    )
    assert litellm.stream_chunk_builder(chunks).usage.completion_tokens > 0
    called = litellm.completion(
        model="openai/" + MODEL, messages=hello, tools=TOOLS, tool_choice="required", **options
    )
    (call, *_) = called.choices[0].message.tool_calls
    assert set(json.loads(call.function.arguments)) == {"city"}
