from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.errors import PlanError
from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.core.tools import OutputFormat, Tool, ToolChoice
from paceline.runtime.tooluse import NOWHERE, CallMaker, choose, rounds_since_user

USER = Message("user", "hi")
PATH = {
    "type": "object",
    "properties": {"file_path": {"type": "string"}},
    "required": ["file_path"],
}
WRITE = {
    "type": "object",
    "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["file_path", "content"],
}
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}

# The tools of agents that people run, as far as their names and shapes matter here.
CODEX = (
    Tool(
        "exec_command",
        schema={
            "type": "object",
            "properties": {
                "cmd": {"type": "string"},
                "workdir": {"type": "string"},
                "yield_time_ms": {"type": "number"},
                "tty": {"type": "boolean"},
            },
            "required": ["cmd"],
            "additionalProperties": False,
        },
    ),
    Tool(
        "write_stdin", schema={"type": "object", "properties": {"session_id": {"type": "number"}}}
    ),
    Tool("update_plan"),
    Tool("view_image", schema=PATH),
    Tool("apply_patch", "custom", grammar="start: begin_patch hunk+ end_patch"),
    Tool("web_search", "builtin", type="web_search"),
)
CLAUDE = (
    Tool("Task"),
    Tool(
        "Bash",
        schema={
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "timeout": {"type": "number"},
                "description": {"type": "string"},
                "run_in_background": {"type": "boolean"},
                "dangerouslyDisableSandbox": {"type": "boolean"},
            },
            "required": ["command"],
            "additionalProperties": False,
        },
    ),
    Tool("Write", schema=WRITE),
    Tool("Edit", schema=WRITE),
    Tool("Read", schema=PATH),
    Tool("NotebookEdit", schema=WRITE),
    Tool("ExitPlanMode"),
)
OLD_SHELL = Tool(
    "shell",
    schema={
        "type": "object",
        "properties": {
            "command": {"type": "array", "items": {"type": "string"}},
            "workdir": {"type": "string"},
            "with_escalated_permissions": {"type": "boolean"},
        },
        "required": ["command"],
    },
)


def asked(*tools: Tool, messages: tuple[Message, ...] = (USER,), **fields: Any) -> Any:
    prompt = ChatPrompt(messages)
    return GenerationRequest("m", (prompt,), tools=tools, **fields), prompt


def drafted(*tools: Tool, seed: int = 1, per_turn: int = 1, **fields: Any) -> list[tuple[str, Any]]:
    request, prompt = asked(*tools, **fields)
    made = CallMaker().draft(request, prompt, per_turn, seed)
    return [
        (call.tool.name, call.text if call.tool.kind == "custom" else json.loads(call.text))
        for call in made
    ]


@pytest.mark.parametrize("seed", range(20))
def test_agents_are_told_to_echo(seed: int) -> None:
    assert drafted(*CODEX, seed=seed) == [("exec_command", {"cmd": 'echo "step 1"'})]
    assert drafted(*CLAUDE, seed=seed) == [
        ("Bash", {"command": 'echo "step 1"', "description": "Say step 1"})
    ]
    assert drafted(OLD_SHELL, seed=seed) == [
        ("shell", {"command": ["bash", "-lc", 'echo "step 1"']})
    ]


def test_steps_are_counted() -> None:
    history = (USER, Message("assistant", ""), Message("tool", "a"))
    assert drafted(*CODEX, messages=history, per_turn=2) == [
        ("exec_command", {"cmd": 'echo "step 2"'})
    ]
    assert drafted(*CODEX, messages=history) == []


@pytest.mark.parametrize("seed", range(30))
def test_without_a_shell_what_only_looks_is_called(seed: int) -> None:
    tools = [tool for tool in CLAUDE if tool.name != "Bash"]
    assert [name for name, _ in drafted(*tools, seed=seed)] == ["Read"]
    tools = [tool for tool in CODEX if tool.name != "exec_command"]
    assert [name for name, _ in drafted(*tools, seed=seed)] == ["view_image"]


@pytest.mark.parametrize(
    "name",
    ["Write", "Edit", "MultiEdit", "NotebookEdit", "delete_file", "remove-item", "Task", "Agent",
     "ExitPlanMode", "AskUserQuestion", "write_stdin", "str_replace_edit", "spawn_agent"],
)  # fmt: skip
def test_what_destroys_or_stalls_is_not_called_of_ones_own_will(name: str) -> None:
    assert drafted(Tool(name, schema=WRITE)) == []
    (call,) = drafted(Tool(name, schema=WRITE), tool_choice=ToolChoice("required"))
    assert call[1]["file_path"] == NOWHERE


def test_a_patch_that_changes_nothing() -> None:
    patch = Tool("apply_patch", "custom", grammar="start: begin_patch hunk+ end_patch")
    assert drafted(patch) == []
    ((_, text),) = drafted(patch, tool_choice=ToolChoice("named", ("apply_patch",)))
    assert text == "*** Begin Patch\n*** End Patch"


def test_a_grammar_that_is_a_pattern() -> None:
    ((_, text),) = drafted(Tool("dial", "custom", grammar=r"\d{3}-\d{4}"))
    assert len(text) == 8
    assert text[3] == "-"


@pytest.mark.parametrize("name", ["send_email", "create_event", "update_plan", "book_flight"])
def test_tools_that_change_things_are_called_where_nothing_else_is_there(name: str) -> None:
    assert [called for called, _ in drafted(Tool(name))] == [name]
    assert [called for called, _ in drafted(Tool(name), Tool("get_time"))] == ["get_time"]


def test_built_in_tools_are_never_called_unasked() -> None:
    search = Tool("web_search", "builtin", type="web_search")
    for mode in ("auto", "required", "named"):
        assert drafted(search, tool_choice=ToolChoice(mode, ("web_search",))) == []


def test_allowed_names_narrow_the_choice() -> None:
    tools = (Tool("get_a"), Tool("get_b"), Tool("get_c"))
    for seed in range(10):
        ((name, _),) = drafted(*tools, seed=seed, tool_choice=ToolChoice("auto", ("get_b",)))
        assert name == "get_b"


def test_a_caller_who_never_takes_text_gets_the_last_tool_in_the_end() -> None:
    tools = (Tool("final_result"), Tool("get_weather"))
    must = ToolChoice("required")
    assert [name for name, _ in drafted(*tools, tool_choice=must)] == ["get_weather"]
    history = (USER, Message("assistant", ""), Message("tool", "a"))
    names = [name for name, _ in drafted(*tools, tool_choice=must, messages=history)]
    assert names == ["final_result"]
    assert [name for name, _ in drafted(Tool("final_result"), tool_choice=must)] == ["final_result"]


@pytest.mark.parametrize(
    ("roles", "rounds"),
    [
        ("user", 0),
        ("user assistant tool", 1),
        ("user assistant tool tool", 1),
        ("user assistant tool assistant tool tool assistant tool", 3),
        ("user assistant tool user", 0),
        ("user assistant tool user assistant tool", 1),
        ("user assistant function", 1),
        ("system tool", 1),
    ],
)
def test_rounds(roles: str, rounds: int) -> None:
    prompt = ChatPrompt(tuple(Message(role, "x") for role in roles.split()))
    assert rounds_since_user(prompt) == rounds


NAMES = st.sampled_from(
    ["Bash", "Read", "Write", "get_x", "send_x", "delete_x", "final_result", "x", "Task"]
)


@given(
    names=st.lists(NAMES, unique=True, max_size=6),
    mode=st.sampled_from(["auto", "none", "required"]),
    rounds=st.integers(0, 4),
    per_turn=st.integers(0, 3),
    parallel=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
)
def test_choices_keep_the_rules(
    *, names: list[str], mode: Any, rounds: int, per_turn: int, parallel: bool, seed: int
) -> None:
    history = (USER, *([Message("assistant", ""), Message("tool", "")] * rounds))
    request, prompt = asked(
        *map(Tool, names),
        messages=history,
        tool_choice=ToolChoice(mode),
        parallel_tool_calls=parallel,
    )
    chosen = [tool.name for tool in choose(request, prompt, per_turn, seed)]
    assert set(chosen) <= set(names)
    assert len(chosen) == len(set(chosen)) <= (2 if parallel and mode == "required" else 1)
    if mode == "none" or (mode == "auto" and rounds >= per_turn):
        assert chosen == []
    elif mode == "required" and names:
        assert chosen
    if mode == "auto":
        assert not {"Write", "delete_x", "Task"} & set(chosen)


def test_a_tool_whose_schema_cannot_be_met_is_passed_over() -> None:
    never = {"type": "object", "properties": {"a": False}, "required": ["a"]}
    for seed in range(6):
        ((name, _),) = drafted(Tool("get_a", schema=never), Tool("get_b"), seed=seed)
        assert name == "get_b"
    with pytest.raises(PlanError, match="no value was found") as caught:
        drafted(Tool("x"), Tool("get_a", schema=never), tool_choice=ToolChoice("named", ("get_a",)))
    assert caught.value.param == "tools[1].schema"


def test_malformed_schemas_are_refused_even_uncalled() -> None:
    request, _ = asked(Tool("get_b"), Tool("get_a", schema={"type": "strng"}))
    with pytest.raises(PlanError, match="Invalid schema of get_a") as caught:
        CallMaker().check(request)
    assert (caught.value.param, caught.value.code) == (
        "tools[1].schema",
        "invalid_function_parameters",
    )
    request, _ = asked(output_format=OutputFormat("json_schema", {"enum": 5}))
    with pytest.raises(PlanError) as caught:
        CallMaker().check(request)
    assert (caught.value.param, caught.value.code) == (
        "output_format.schema",
        "invalid_json_schema",
    )


def test_tools_that_nothing_satisfies_are_not_all_tried() -> None:
    tools = tuple(
        Tool(f"get_{at}", schema={"properties": {"x": False}, "required": ["x"]})
        for at in range(40)
    )
    request = GenerationRequest("m", (ChatPrompt((USER,)),), tools=tools)
    made: list[str] = []

    class Counting(CallMaker):
        def _text(self, tool: Tool, seed: int, step: int) -> str:
            made.append(tool.name)
            return super()._text(tool, seed, step)

    with pytest.raises(PlanError, match="no value was found"):
        Counting().draft(request, request.prompts[0], 1, 1)
    assert len(made) == 8
