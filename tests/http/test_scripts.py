"""One script, three dialects, streamed and not: the same turns each time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.live import CHAT, Server, chat

SCRIPT = """
[match]
user = "go"
[tools]
shell = [
  { name = "exec_command", arguments = { cmd = "{{arguments.command}}" } },
  { name = "Bash", arguments = { command = "{{arguments.command}}" } },
]
[[turns]]
reasoning_tokens = 5
text = "Looking."
[[turns.calls]]
tool = "shell"
arguments = { command = "ls" }
[[turns.calls]]
tool = "shell"
arguments = { command = "pwd" }
[[turns]]
[[turns.calls]]
tool = "shell"
arguments = { command = "cat {{last_result}}" }
[[turns]]
text = "It was {{results[0]}}."
"""
KEYED = '[match]\nkey = "{}"\n[[turns]]\ntext = "Your key is known."\n'
COMMAND = {"type": "object", "properties": {"cmd": {"type": "string"}}}
EXPECTED = [
    ("Looking.", ["ls", "pwd"]),
    ("", ["cat two"]),
    ("It was one.", []),
]


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "go.toml").write_text(SCRIPT, "utf-8")
    key = sha256(b"secret").hexdigest()[:12]
    (folder / "keyed.toml").write_text(KEYED.format(key), "utf-8")
    with Server("--scripts", str(folder), "--scripts", "computer-use") as server:
        yield server


@pytest.mark.parametrize("stream", [True, False])
def test_chat(scripted: Server, stream: bool) -> None:
    client = scripted.openai()
    tools: Any = [{"type": "function", "function": {"name": "Bash", "parameters": COMMAND}}]
    messages: list[Any] = [{"role": "user", "content": "go"}]
    turns = []
    for _ in EXPECTED:
        fields: Any = {"model": "quick", "messages": messages, "tools": tools}
        if stream:
            with client.chat.completions.stream(**fields) as events:
                answer = events.get_final_completion()
        else:
            answer = client.chat.completions.create(**fields)
        message = answer.choices[0].message
        calls = message.tool_calls or []
        turns.append(
            (message.content or "", [json.loads(c.function.arguments)["command"] for c in calls])
        )
        messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": content}
            for call, content in zip(calls, ("one", "two"), strict=False)
        ]
    assert turns == EXPECTED


def test_responses_with_new_items_alone(scripted: Server) -> None:
    client = scripted.openai()
    tools: Any = [
        {"type": "function", "name": "exec_command", "parameters": COMMAND, "strict": False}
    ]
    new: Any = "go"
    turns = []
    previous = None
    for _ in EXPECTED:
        answer = client.responses.create(
            model="quick", input=new, tools=tools, previous_response_id=previous
        )
        calls = [item for item in answer.output if item.type == "function_call"]
        turns.append((answer.output_text, [json.loads(c.arguments)["cmd"] for c in calls]))
        previous = answer.id
        new = [
            {"type": "function_call_output", "call_id": call.call_id, "output": output}
            for call, output in zip(calls, ("one", "two"), strict=False)
        ]
    assert turns == EXPECTED


def test_messages(scripted: Server) -> None:
    tools = [{"name": "Bash", "input_schema": COMMAND}]
    messages: list[Any] = [{"role": "user", "content": "go"}]
    turns = []
    for _ in EXPECTED:
        answer = scripted.post(
            "/v1/messages",
            {"model": "quick", "max_tokens": 500, "messages": messages, "tools": tools},
        ).object
        blocks = answer["content"]
        calls = [block for block in blocks if block["type"] == "tool_use"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        turns.append((text, [call["input"]["command"] for call in calls]))
        messages.append({"role": "assistant", "content": blocks})
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": content}
            for call, content in zip(calls, ("one", "two"), strict=False)
        ]
        messages.append({"role": "user", "content": results})
    assert turns == EXPECTED


def test_reasoning_is_what_the_script_says(scripted: Server) -> None:
    tools = [{"type": "function", "function": {"name": "Bash", "parameters": COMMAND}}]
    body = {**chat("quick"), "messages": [{"role": "user", "content": "go"}], "tools": tools}
    usage = scripted.post(CHAT, body).object["usage"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 5


def test_a_key_is_known_by_its_hash(scripted: Server) -> None:
    def content(headers: dict[str, str]) -> str:
        answer = scripted.post(CHAT, chat("quick"), headers).object
        return str(answer["choices"][0]["message"]["content"])

    assert content({"Authorization": "Bearer secret"}) == "Your key is known."
    assert content({"Authorization": "Bearer other"}) != "Your key is known."
    assert content({}) != "Your key is known."


def test_who_asks_for_no_script_gets_none(scripted: Server) -> None:
    body = {**chat("quick"), "messages": [{"role": "user", "content": "go"}]}
    assert scripted.post(CHAT, body).object["choices"][0]["message"]["content"] != "Looking."


def test_a_wrong_script_ends_the_command(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('[[turns]]\ntext = "{{nobody}}"\n', "utf-8")
    server = Server("--scripts", str(path))
    output, _ = server.process.communicate(timeout=20)
    assert server.process.returncode == 2
    assert output == f"paceline: {path}: turns[0].text: nothing is called {{{{nobody}}}}\n"
