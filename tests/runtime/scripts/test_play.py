from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.core.errors import PlanError
from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.core.tools import Tool, ToolChoice
from paceline.runtime.drafted import Draft
from paceline.runtime.scripts import Scripts
from paceline.runtime.scripts.document import read_script
from paceline.runtime.scripts.play import answers_since
from paceline.runtime.scripts.templates import filled

USER = Message("user", "Please fix it.")
CALLED = Message("assistant", "shell {}")
BASH, EXEC = Tool("Bash"), Tool("exec_command")

SCRIPT = """
name = "demo"
match = { user = "fix" }
[tools]
shell = [
  { name = "exec_command", arguments = { cmd = "{{arguments.command}}", n = "{{arguments.n}}" } },
  { name = "Bash", arguments = { command = ["{{arguments.command}}", "turn {{turn}}"] } },
]
[[turns]]
reasoning_tokens = 7
text = "First, {{user}}"
[[turns.calls]]
tool = "shell"
arguments = { command = "ls", n = 3 }
[[turns.calls]]
tool = "shell"
arguments = { command = "pwd", n = 4 }
[[turns]]
repeat = 2
[[turns.calls]]
tool = "shell"
arguments = { command = "cat {{last_result}} # {{results[0]}} {{step}}", n = 5 }
[[turns]]
text_tokens = 9
"""


def scripts(*texts: str) -> Scripts:
    return Scripts([read_script(tomllib.loads(text), "s.toml", "s") for text in texts])


def play(
    what: Scripts | str, *messages: Message, tools: tuple[Tool, ...] = (BASH,), **fields: Any
) -> Draft | None:
    prompt = ChatPrompt(messages or (USER,))
    request = GenerationRequest("gpt-5", (prompt,), tools=tools, **fields)
    return (scripts(what) if isinstance(what, str) else what).turn(request, prompt)


def said(draft: Draft | None) -> list[tuple[str, Any]]:
    assert draft is not None
    return [(call.tool.name, json.loads(call.text)) for call in draft.calls]


def result(text: str) -> Message:
    return Message("tool", text)


def test_turns_follow_the_conversation() -> None:
    first = play(SCRIPT)
    assert first is not None
    assert (first.text, first.reasoning) == ("First, Please fix it.", 7)
    assert said(first) == [
        ("Bash", {"command": ["ls", "turn 1"]}),
        ("Bash", {"command": ["pwd", "turn 1"]}),
    ]
    second = [USER, CALLED, result("a.py"), result("/home")]
    assert said(play(SCRIPT, *second)) == [("Bash", {"command": ["cat /home # a.py 1", "turn 2"]})]
    third = [*second, CALLED, result("b.py")]
    assert said(play(SCRIPT, *third)) == [("Bash", {"command": ["cat b.py # a.py 2", "turn 3"]})]
    last = play(SCRIPT, *third, CALLED, result("c.py"))
    assert last is not None
    assert (last.words, last.calls, last.text) == (9, [], None)


def test_an_answer_of_several_messages_is_one_turn() -> None:
    messages = [USER, CALLED, CALLED, Message("assistant", "and"), result("x"), CALLED]
    assert answers_since(messages, 0) == 2
    assert said(play(SCRIPT, *messages[:5]))[0][1]["command"][1] == "turn 2"


def test_one_script_speaks_to_other_agents() -> None:
    assert said(play(SCRIPT, tools=(Tool("x"), EXEC, BASH))) == [
        ("exec_command", {"cmd": "ls", "n": 3}),
        ("exec_command", {"cmd": "pwd", "n": 4}),
    ]


def test_without_its_tools_a_script_stays_silent() -> None:
    assert play(SCRIPT, tools=(Tool("other"),)) is None
    assert play(SCRIPT, tools=()) is None
    assert play(SCRIPT, tool_choice=ToolChoice("none")) is None
    assert play('[[turns]]\ntext = "a"', tools=()) is not None


def test_one_call_where_parallel_ones_are_off() -> None:
    assert len(said(play(SCRIPT, parallel_tool_calls=False))) == 1


END = [USER, *([CALLED, result("r")] * 4)]


@pytest.mark.parametrize(
    ("how", "turn"), [("repeat_last", None), ("restart", "turn 1"), ("text", None)]
)
def test_what_follows_the_last_turn(how: str, turn: str | None) -> None:
    draft = play(f'on_exhausted = "{how}"\n{SCRIPT}', *END)
    assert draft is not None
    if turn is None:
        assert draft.calls == []
        assert draft.words > 0
    else:
        assert said(draft)[0][1]["command"][1] == turn


def test_the_end_may_be_an_error() -> None:
    with pytest.raises(PlanError, match="demo is over after 4 turns") as caught:
        play('on_exhausted = "error"\n' + SCRIPT, *END)
    assert caught.value.code == "script_exhausted"


def test_a_result_that_is_not_there_is_an_error() -> None:
    with pytest.raises(PlanError, match=r"wants \{\{last_result\}\} in turn 2") as caught:
        play(SCRIPT, USER, CALLED)
    assert caught.value.code == "script_error"


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ('model = "gpt-*"', True),
        ('model = ["x", "gpt-5"]', True),
        ('model = "gpt-4*"', False),
        ('user = "(?i)FIX"', True),
        ('user = "mend"', False),
        ('system = "brief"', True),
        ('system = "loud"', False),
        ('headers = { X-Task = "a*" }', True),
        ('headers = { x-task = "b*" }', False),
        ('headers = { x-other = "*" }', False),
        ('key = "0123*"', True),
        ('key = "4*"', False),
        ('model = "gpt-*"\nuser = "mend"', False),
    ],
)
def test_all_that_is_given_must_hold(match: str, holds: bool) -> None:
    text = f'[match]\n{match}\n[[turns]]\ntext = "a"'
    headers = {"x-task": "abc", "paceline-key-id": "0123456789ab"}
    draft = play(text, Message("system", "Be brief."), USER, headers=headers)
    assert (draft is not None) == holds


def test_the_first_that_matches_is_played() -> None:
    three = scripts(
        '[match]\nuser = "mend"\n[[turns]]\ntext = "a"',
        '[[turns]]\ntext = "b"',
        '[[turns]]\ntext = "c"',
    )
    draft = play(three)
    assert draft is not None
    assert draft.text == "b"


@pytest.mark.parametrize(("anchor", "text"), [("first", "two"), ("last", "one")])
def test_where_counting_begins(anchor: str, text: str) -> None:
    script = f'anchor = "{anchor}"\n[[turns]]\ntext = "one"\n[[turns]]\ntext = "two"'
    draft = play(script, USER, Message("assistant", "one"), Message("user", "more"))
    assert draft is not None
    assert draft.text == text


def test_a_custom_tool_gets_its_text() -> None:
    patch = Tool("apply_patch", "custom")
    draft = play(
        '[[turns]]\n[[turns.calls]]\ntool = "apply_patch"\ninput = "*** {{user}}"', tools=(patch,)
    )
    assert draft is not None
    assert [call.text for call in draft.calls] == ["*** Please fix it."]


def test_built_in_tools_are_called_by_a_script_and_counted() -> None:
    search = Tool("web_search", "builtin", type="web_search")
    script = '[[turns]]\ntext = "t"\n' + '[[turns.calls]]\ntool = "web_search"\n' * 3
    assert len(said(play(script, tools=(search,)))) == 3
    assert len(said(play(script, tools=(search,), max_tool_calls=2))) == 2


@given(st.text(), st.text("{}abc. "))
def test_what_is_put_in_is_not_looked_into(value: str, around: str) -> None:
    around = around.replace("{", "").replace("}", "")
    hostile = "{{secret}}" + value
    assert filled(f"{around} {{{{x}}}}", lambda _: hostile) == f"{around} {hostile}"
