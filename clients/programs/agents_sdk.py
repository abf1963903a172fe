"""openai-agents: an agent with a tool and a typed answer, over the transport that is named."""

import asyncio
import os
import sys

from agents import (
    Agent,
    OpenAIProvider,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from pydantic import BaseModel

MODEL = os.environ["MODEL"]
kind = sys.argv[1]
set_tracing_disabled(True)
calls = []


class Report(BaseModel):
    city: str
    degrees: float


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    calls.append(city)
    return f"sunny in {city}"


provider = OpenAIProvider(
    base_url=os.environ["BASE_URL"] + "/v1",
    api_key="any",
    use_responses=kind != "chat",
    use_responses_websocket=kind == "websocket",
)
config = RunConfig(model_provider=provider)


async def main() -> None:
    """Run it whole, streamed, and with a typed answer."""
    agent = Agent(name="A", instructions="Use tools.", tools=[get_weather], model=MODEL)
    result = await Runner.run(agent, "The weather in Graz?", run_config=config)
    assert calls, "no tool was called"
    assert result.final_output
    calls.clear()
    streamed = Runner.run_streamed(agent, "And in Linz?", run_config=config)
    async for _event in streamed.stream_events():
        pass
    assert calls, "no tool was called"
    assert streamed.final_output
    typed = Agent(name="B", instructions="Report.", output_type=Report, model=MODEL)
    result = await Runner.run(typed, "Report on Graz.", run_config=config)
    assert isinstance(result.final_output, Report), result.final_output


asyncio.run(main())
