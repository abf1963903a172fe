"""anthropic: a message, a stream, thinking, counted tokens, a tool loop and its tool runner."""

import os

import anthropic
from anthropic import beta_tool

MODEL = os.environ["MODEL"]
client = anthropic.Anthropic(base_url=os.environ["BASE_URL"], api_key="any", max_retries=0)
hello = [{"role": "user", "content": "The weather in Graz?"}]

whole = client.messages.create(model=MODEL, max_tokens=300, messages=hello)
assert whole.content[0].text
with client.messages.stream(
    model=MODEL,
    max_tokens=3000,
    messages=hello,
    thinking={"type": "enabled", "budget_tokens": 1024},
    extra_headers={"x-paceline-reasoning-tokens": "20"},
) as stream:
    assert "".join(stream.text_stream)
    assert [block.type for block in stream.get_final_message().content] == ["thinking", "text"]
counted = client.messages.count_tokens(model=MODEL, messages=hello)
assert counted.input_tokens == whole.usage.input_tokens

calls = []


@beta_tool
def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Its name.
    """
    calls.append(city)
    return f"sunny in {city}"


runner = client.beta.messages.tool_runner(
    model=MODEL, max_tokens=2000, messages=hello, tools=[get_weather], max_iterations=8
)
final = runner.until_done()
assert calls, "no tool was called"
assert final.stop_reason == "end_turn", final.stop_reason
assert any(block.type == "text" for block in final.content)
