"""A script's document: its parts, and the reading of them from parsed TOML or YAML.

Every mistake is found here, at start, and named by file, key and reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, get_args

from paceline.runtime.scripts.templates import placeholders

Exhausted = Literal["text", "repeat_last", "restart", "error"]
Anchor = Literal["first", "last"]

MAX_REPEAT = 100_000
MAX_TOKENS = 1_000_000


class ScriptError(ValueError):
    """A script that can't be used; the message names file, key and reason."""


@dataclass(frozen=True, slots=True)
class Match:
    """Which requests a script is for: all that is given must hold.

    `models` and the values of `headers` are shell patterns (`gpt-*`); `user` and `system` are
    regular expressions searched for in the messages of those roles.
    """

    models: tuple[str, ...] = ()
    user: re.Pattern[str] | None = None
    system: re.Pattern[str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """One agent's name for a tool; `arguments`, where given, put a call's into its words."""

    name: str
    arguments: Any = None


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `input` is a custom tool's text, in place of arguments."""

    tool: str
    arguments: Mapping[str, Any]
    input: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What one answer says: reasoning, text (given, or prose of so many tokens), calls."""

    text: str | None = None
    text_tokens: int = 0
    reasoning_tokens: int | None = None
    calls: tuple[Call, ...] = ()
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Script:
    """A whole script."""

    name: str
    turns: tuple[Turn, ...]
    match: Match = Match()
    tools: Mapping[str, tuple[Alternative, ...]] = field(default_factory=dict)
    on_exhausted: Exhausted = "text"
    anchor: Anchor = "first"

    @property
    def length(self) -> int:
        """Turns in all, repeated ones counted each time."""
        return sum(turn.repeat for turn in self.turns)

    def turn(self, at: int) -> tuple[Turn, int]:
        """The turn that is number `at`, and which of its repeats that is."""
        for turn in self.turns:
            if at < turn.repeat:
                return turn, at
            at -= turn.repeat
        raise IndexError(at)


def read_script(data: Any, file: str, default_name: str) -> Script:
    """A script from its parsed document. Raises ScriptError."""
    return _Reader(file).script(data, default_name)


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file

    def _wrong(self, key: str, reason: str) -> ScriptError:
        return ScriptError(f"{self._file}: {key}: {reason}" if key else f"{self._file}: {reason}")

    def _table(self, value: Any, key: str, known: tuple[str, ...] = ()) -> Mapping[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise self._wrong(key, "must be a table")
        for name in value if known else ():
            if name not in known:
                close = get_close_matches(name, known, n=1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise self._wrong(_join(key, name), f"no such key{hint}")
        return value

    def _text(self, value: Any, key: str) -> str:
        if not isinstance(value, str):
            raise self._wrong(key, "must be a string")
        return value

    def _template(self, value: Any, key: str, arguments: bool = False) -> str:
        text = self._text(value, key)
        for name in placeholders(text):
            if not _PLACEHOLDER.fullmatch(name) and not (arguments and name[:10] == "arguments."):
                raise self._wrong(key, f"nothing is called {{{{{name}}}}}")
        return text

    def _templates(self, value: Any, key: str, arguments: bool = False) -> Any:
        """A JSON value whose strings may hold placeholders."""
        if isinstance(value, str):
            return self._template(value, key, arguments)
        if isinstance(value, list):
            return [self._templates(item, f"{key}[{i}]", arguments) for i, item in enumerate(value)]
        if isinstance(value, Mapping):
            inner = self._table(value, key)
            return {
                name: self._templates(item, _join(key, name), arguments)
                for name, item in inner.items()
            }
        if value is None or isinstance(value, bool | int | float):
            return value
        raise self._wrong(key, "must be a JSON value: dates and times go in quotes")

    def _whole(self, value: Any, key: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._wrong(key, f"must be a whole number from {low} to {high}")
        return value

    def _word(self, value: Any, key: str, allowed: tuple[str, ...]) -> Any:
        if value not in allowed:
            raise self._wrong(key, f"must be one of {', '.join(allowed)}")
        return value

    def _pattern(self, value: Any, key: str) -> re.Pattern[str]:
        try:
            return re.compile(self._text(value, key))
        except re.error as error:
            raise self._wrong(key, f"is no regular expression: {error}") from None

    def _some(self, value: Any, key: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise self._wrong(key, "must be an array that isn't empty")
        return tuple(read(item, f"{key}[{i}]") for i, item in enumerate(value))

    def _texts(self, value: Any, key: str) -> tuple[str, ...]:
        return self._some([value] if isinstance(value, str) else value, key, self._text)

    def script(self, data: Any, default_name: str) -> Script:
        root = self._table(data, "", _ROOT_KEYS)
        if "turns" not in root:
            raise self._wrong("turns", "is missing")
        tools = {
            name: self._some([v] if isinstance(v, str) else v, _join("tools", name), self._tool)
            for name, v in self._table(root.get("tools", {}), "tools").items()
        }
        script = Script(
            name=self._text(root.get("name", default_name), "name"),
            turns=self._some(root["turns"], "turns", self._turn),
            match=self._match(root.get("match", {})),
            tools=tools,
            on_exhausted=self._word(
                root.get("on_exhausted", "text"), "on_exhausted", get_args(Exhausted)
            ),
            anchor=self._word(root.get("anchor", "first"), "anchor", get_args(Anchor)),
        )
        self._text(root.get("description", ""), "description")
        self._check_tools(script)
        return script

    def _match(self, value: Any) -> Match:
        table = self._table(value, "match", _MATCH_KEYS)
        headers = self._table(table.get("headers", {}), "match.headers")
        return Match(
            models=self._texts(table["model"], "match.model") if "model" in table else (),
            user=self._pattern(table["user"], "match.user") if "user" in table else None,
            system=self._pattern(table["system"], "match.system") if "system" in table else None,
            headers={
                name.lower(): self._text(item, f"match.headers.{name}")
                for name, item in headers.items()
            },
            keys=self._texts(table["key"], "match.key") if "key" in table else (),
        )

    def _tool(self, value: Any, key: str) -> Alternative:
        if isinstance(value, str):
            return Alternative(value)
        table = self._table(value, key, ("name", "arguments"))
        if "name" not in table:
            raise self._wrong(f"{key}.name", "is missing")
        arguments = None
        if "arguments" in table:
            self._table(table["arguments"], f"{key}.arguments")
            arguments = self._templates(table["arguments"], f"{key}.arguments", arguments=True)
        return Alternative(self._text(table["name"], f"{key}.name"), arguments)

    def _turn(self, value: Any, key: str) -> Turn:
        table = self._table(value, key, _TURN_KEYS)
        if "text" in table and "text_tokens" in table:
            raise self._wrong(f"{key}.text_tokens", "can't stand beside text")
        calls: tuple[Call, ...] = ()
        if table.get("calls"):
            calls = self._some(table["calls"], f"{key}.calls", self._call)
        text = self._template(table["text"], f"{key}.text") if "text" in table else None
        tokens = self._whole(table.get("text_tokens", 0), f"{key}.text_tokens", 0, MAX_TOKENS)
        if text is None and not tokens and not calls:
            raise self._wrong(key, "says nothing: give it text, text_tokens or calls")
        reasoning = table.get("reasoning_tokens")
        if reasoning is not None:
            reasoning = self._whole(reasoning, f"{key}.reasoning_tokens", 0, MAX_TOKENS)
        repeat = self._whole(table.get("repeat", 1), f"{key}.repeat", 1, MAX_REPEAT)
        return Turn(text, tokens, reasoning, calls, repeat)

    def _call(self, value: Any, key: str) -> Call:
        table = self._table(value, key, ("tool", "arguments", "input"))
        if "tool" not in table:
            raise self._wrong(f"{key}.tool", "is missing")
        if "input" in table and "arguments" in table:
            raise self._wrong(f"{key}.input", "can't stand beside arguments")
        arguments = self._table(table.get("arguments", {}), f"{key}.arguments")
        return Call(
            self._text(table["tool"], f"{key}.tool"),
            self._templates(arguments, f"{key}.arguments"),
            self._template(table["input"], f"{key}.input") if "input" in table else None,
        )

    def _check_tools(self, script: Script) -> None:
        """What an alternative takes from a call's arguments must be there in every call of it."""
        for i, turn in enumerate(script.turns):
            for j, call in enumerate(turn.calls):
                for option in script.tools.get(call.tool, ()):
                    for name in _argument_names(option.arguments):
                        if name not in call.arguments:
                            raise self._wrong(
                                f"turns[{i}].calls[{j}].arguments",
                                f"lacks {name}, which tools.{call.tool} passes to {option.name}",
                            )


_ROOT_KEYS = ("name", "description", "match", "tools", "turns", "on_exhausted", "anchor")
_MATCH_KEYS = ("model", "user", "system", "headers", "key")
_TURN_KEYS = ("text", "text_tokens", "reasoning_tokens", "calls", "repeat")
_PLACEHOLDER = re.compile(r"last_result|user|turn|step|results\[-?\d{1,6}\]")


def _argument_names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [name[10:] for name in placeholders(value) if name.startswith("arguments.")]
    if isinstance(value, list):
        return [name for item in value for name in _argument_names(item)]
    if isinstance(value, Mapping):
        return [name for item in value.values() for name in _argument_names(item)]
    return []


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
