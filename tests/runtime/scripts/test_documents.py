from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from paceline.runtime.scripts import ScriptError, load_scripts, shipped_scripts
from paceline.runtime.scripts.document import read_script


def read(text: str) -> object:
    return read_script(tomllib.loads(text), "a.toml", "a")


TURN = '[[turns]]\ntext = "hi"\n'
CALL = '[[turns]]\n[[turns.calls]]\ntool = "t"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "turns: is missing"),
        ("turns = []", "turns: must be an array that isn't empty"),
        ("[[turns]]", "turns[0]: says nothing"),
        ("trns = 1\n" + TURN, "trns: no such key; did you mean turns?"),
        (TURN + "txt = 1", "turns[0].txt: no such key; did you mean text?"),
        ("[[turns]]\ntext = 5", "turns[0].text: must be a string"),
        (TURN + "text_tokens = 5", "turns[0].text_tokens: can't stand beside text"),
        (TURN + "reasoning_tokens = -1", "turns[0].reasoning_tokens: must be a whole number"),
        (TURN + "repeat = 0", "turns[0].repeat: must be a whole number"),
        ('[[turns]]\ntext = "{{nobody}}"', "turns[0].text: nothing is called {{nobody}}"),
        ('[[turns]]\ntext = "{{arguments.x}}"', "turns[0].text: nothing is called"),
        ("[[turns]]\n[[turns.calls]]\n", "turns[0].calls[0].tool: is missing"),
        (CALL + 'input = "x"\narguments = {}', "turns[0].calls[0].input: can't stand beside"),
        (CALL + "arguments = { day = 2026-11-30 }", "calls[0].arguments.day: must be a JSON value"),
        ('on_exhausted = "stop"\n' + TURN, "on_exhausted: must be one of text, repeat_last"),
        ('anchor = "middle"\n' + TURN, "anchor: must be one of first, last"),
        ('match = { user = "(" }\n' + TURN, "match.user: is no regular expression"),
        ("match = { model = 5 }\n" + TURN, "match.model: must be an array"),
        ("match = { headers = { a = 1 } }\n" + TURN, "match.headers.a: must be a string"),
        ("tools = { t = [{}] }\n" + TURN, "tools.t[0].name: is missing"),
        (
            'tools = { t = [{ name = "x", arguments = { a = "{{arguments.b}}" } }] }\n' + CALL,
            "turns[0].calls[0].arguments: lacks b, which tools.t passes to x",
        ),
    ],
)
def test_a_mistake_is_named_by_file_key_and_reason(text: str, said: str) -> None:
    with pytest.raises(ScriptError) as caught:
        read(text)
    assert str(caught.value).startswith("a.toml: ")
    assert said in str(caught.value)


def test_files_that_are_no_scripts(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("turns = [", "utf-8")
    with pytest.raises(ScriptError, match=r"broken\.toml: is not TOML"):
        load_scripts([broken])
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"name = '\xe9'")
    with pytest.raises(ScriptError, match=r"latin\.toml: is not UTF-8"):
        load_scripts([latin])
    with pytest.raises(ScriptError, match=r"gone\.toml: No such file.*shipped are computer-use"):
        load_scripts([tmp_path / "gone.toml"])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ScriptError, match="no script in this folder"):
        load_scripts([empty])


def test_yaml_says_the_same_as_toml(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "turns:\n- text: hi\n  reasoning_tokens: 4\n- calls: [{tool: t, arguments: {a: 1}}]\n",
        "utf-8",
    )
    (tmp_path / "s.toml").write_text(
        '[[turns]]\ntext = "hi"\nreasoning_tokens = 4\n' + CALL + "arguments = { a = 1 }", "utf-8"
    )
    (tmp_path / "notes.txt").write_text("not a script", "utf-8")
    toml, yaml = load_scripts([tmp_path])
    assert toml == yaml
    (tmp_path / "bad.yml").write_text("a: [", "utf-8")
    with pytest.raises(ScriptError, match=r"bad\.yml: is not YAML"):
        load_scripts([tmp_path / "bad.yml"])


@pytest.mark.parametrize("name", shipped_scripts())
def test_what_ships_is_found_by_name(name: str) -> None:
    (script,) = load_scripts([Path(name)])
    assert script.name == name
    assert script.length > 3
    for options in script.tools.values():
        # One script drives the agents that there are.
        assert {"exec_command", "Bash", "shell"} <= {option.name for option in options}


def test_there_are_three_that_ship() -> None:
    assert set(shipped_scripts()) == {"fix-a-bug", "research", "computer-use"}
