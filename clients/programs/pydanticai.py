"""pydantic-ai: an agent with a tool, streamed and whole, and a typed answer."""

import asyncio
import os
import sys

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

MODEL = os.environ["MODEL"]
provider = OpenAIProvider(base_url=os.environ["BASE_URL"] + "/v1", api_key="any")
kind = OpenAIResponsesModel if sys.argv[1] == "responses" else OpenAIChatModel
model = kind(MODEL, provider=provider)
calls = []


class Report(BaseModel):
    city: str
    degrees: float
    words: list[str]


agent = Agent(model, instructions="Use tools.")


@agent.tool_plain
def get_weather(city: str) -> str:
    """The weather of a city."""
    calls.append(city)
    return f"sunny in {city}"


async def main() -> None:
    """Run it whole, streamed, and with a typed answer."""
    result = await agent.run("The weather in Graz?")
    assert calls, "no tool was called"
    assert result.output
    async with agent.run_stream("And in Linz?") as stream:
        assert "".join([text async for text in stream.stream_text(delta=True)])
    typed = Agent(model, output_type=Report)
    result = await typed.run("Report on Graz.")
    assert isinstance(result.output, Report), result.output


asyncio.run(main())
