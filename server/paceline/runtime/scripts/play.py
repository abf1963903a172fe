"""Scripts at work: which one a request follows, which turn it is, and what that says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from paceline.core.errors import PlanError
from paceline.core.request import ChatPrompt, GenerationRequest, Message
from paceline.core.tools import Tool
from paceline.runtime.drafted import Draft
from paceline.runtime.schema.jsontypes import compact
from paceline.runtime.scripts.document import Alternative, Call, Script
from paceline.runtime.scripts.templates import filled
from paceline.runtime.tooluse import RESULT_ROLES, CallDraft

_SYSTEM = frozenset({"system", "developer"})
KEY_HEADER = "paceline-key-id"
"""Where the id of the caller's key stands among a request's headers."""

_CLOSING_TOKENS = 40


class Scripts:
    """Scripts in order; the first that a request matches is played."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._scripts = list(scripts)

    def __len__(self) -> int:
        return len(self._scripts)

    def turn(self, request: GenerationRequest, prompt: ChatPrompt) -> Draft | None:
        """What the script says next, None where none is for this request.

        Raises PlanError where a script is over and says that this is an error, or where a
        placeholder names a result that isn't there.
        """
        for script in self._scripts:
            anchor = _anchor(script, request, prompt)
            if anchor is None:
                continue
            tools = _offered(script, request)
            if tools is not None:
                return _draft(script, request, prompt.messages, anchor, tools)
        return None


def _anchor(script: Script, request: GenerationRequest, prompt: ChatPrompt) -> int | None:
    """Where in the messages the script begins, None where it isn't for the request."""
    match = script.match
    if match.models and not any(fnmatchcase(request.model, name) for name in match.models):
        return None
    headers = request.headers
    for name, pattern in match.headers.items():
        if name not in headers or not fnmatchcase(headers[name], pattern):
            return None
    if match.keys and not any(fnmatchcase(headers.get(KEY_HEADER, ""), k) for k in match.keys):
        return None
    messages = prompt.messages
    if match.system is not None and not any(
        message.role in _SYSTEM and match.system.search(message.text) for message in messages
    ):
        return None
    users = (
        at
        for at, message in enumerate(messages)
        if message.role == "user" and (match.user is None or match.user.search(message.text))
    )
    if script.anchor == "first":
        return next(users, None)
    return max(users, default=None)


Resolved = Mapping[str, tuple[Tool, Alternative]]


def _offered(script: Script, request: GenerationRequest) -> Resolved | None:
    """The request's own tool for each that the script calls, None where it lacks one."""
    wanted = {call.tool for turn in script.turns for call in turn.calls}
    if wanted and request.tool_choice.mode == "none":
        return None
    offered = {tool.name: tool for tool in request.tools}
    found = {}
    for name in wanted:
        options = script.tools.get(name, (Alternative(name),))
        option = next((option for option in options if option.name in offered), None)
        if option is None:
            return None
        found[name] = (offered[option.name], option)
    return found


def _draft(
    script: Script,
    request: GenerationRequest,
    messages: Sequence[Message],
    anchor: int,
    tools: Resolved,
) -> Draft:
    at = answers_since(messages, anchor)
    if at >= script.length:
        if script.on_exhausted == "error":
            raise PlanError(
                f"The script {script.name} is over after {script.length} turns.",
                "messages",
                "script_exhausted",
            )
        if script.on_exhausted == "text":
            return Draft(words=_CLOSING_TOKENS)
        at = at % script.length if script.on_exhausted == "restart" else script.length - 1
    turn, step = script.turn(at)
    look_up = _LookUp(script, messages[anchor:], at, step)
    calls = [_call(call, *tools[call.tool], look_up) for call in turn.calls]
    if not request.parallel_tool_calls:
        calls = calls[:1]
    return Draft(
        text=None if turn.text is None else str(filled(turn.text, look_up)),
        words=turn.text_tokens,
        reasoning=turn.reasoning_tokens,
        calls=_within(calls, request.max_tool_calls),
    )


def _within(calls: list[CallDraft], most: int | None) -> list[CallDraft]:
    """At most so many calls of built-in tools, as the Responses API counts them."""
    if most is None:
        return calls
    kept = []
    for call in calls:
        if call.tool.kind == "builtin":
            if not most:
                continue
            most -= 1
        kept.append(call)
    return kept


def answers_since(messages: Sequence[Message], anchor: int) -> int:
    """The assistant's answers after a message; several of its messages in a row are one."""
    count = 0
    before = ""
    for message in messages[anchor:]:
        if message.role == "assistant" and before != "assistant":
            count += 1
        before = message.role
    return count


class _LookUp:
    """The values of placeholders, looked for only where there are any."""

    def __init__(self, script: Script, messages: Sequence[Message], at: int, step: int) -> None:
        self._script = script
        self._messages = messages
        self._at = at
        self._step = step

    def __call__(self, name: str) -> Any:
        if name == "turn":
            return self._at + 1
        if name == "step":
            return self._step + 1
        if name == "user":
            return self._messages[0].text
        results = [m.text for m in self._messages if m.role in RESULT_ROLES]
        index = -1 if name == "last_result" else int(name.partition("[")[2][:-1])
        try:
            return results[index]
        except IndexError:
            raise PlanError(
                f"The script {self._script.name} wants {{{{{name}}}}} in turn {self._at + 1}, and "
                f"there are {len(results)} tool results.",
                "messages",
                "script_error",
            ) from None


def _call(call: Call, tool: Tool, option: Alternative, look_up: _LookUp) -> CallDraft:
    if call.input is not None:
        text = str(filled(call.input, look_up))
        return CallDraft(tool, text if tool.kind != "function" else compact({"input": text}))
    arguments = filled(call.arguments, look_up)
    if option.arguments is not None:
        arguments = filled(option.arguments, lambda name: _of_call(arguments, name, look_up))
    return CallDraft(tool, _as_input(arguments) if tool.kind == "custom" else compact(arguments))


def _of_call(arguments: Mapping[str, Any], name: str, look_up: _LookUp) -> Any:
    return arguments[name[10:]] if name.startswith("arguments.") else look_up(name)


def _as_input(arguments: Mapping[str, Any]) -> str:
    """A custom tool takes one text: that of an argument called input, or the only one's."""
    value = arguments.get("input", next(iter(arguments.values()), ""))
    return value if isinstance(value, str) else compact(value)
