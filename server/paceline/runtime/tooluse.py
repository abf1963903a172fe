"""Which tools an answer calls, and with what: a loop that ends, and calls that do no harm.

Agents run what they are told to run. So of the tools on offer those that look are taken before
those that change things; shells are told to `echo`; and what writes or deletes files, or starts
other agents, is called only by a request that leaves no choice, with paths that can't exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from paceline.core.errors import PlanError
from paceline.core.request import ChatPrompt, GenerationRequest, Prompt
from paceline.core.rng import hash64, mix64
from paceline.core.tools import Tool
from paceline.runtime.schema import SchemaCache, SchemaError
from paceline.runtime.schema.from_pattern import string_from
from paceline.runtime.schema.jsontypes import compact
from paceline.runtime.schema.scalars import phrase

RESULT_ROLES = frozenset({"tool", "function"})


class CallDraft(NamedTuple):
    """A call to be made: the tool, and the text of its arguments or input."""

    tool: Tool
    text: str


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELLS = _words("""
    exec_command shell shell_command local_shell bash run_terminal_cmd run_terminal_command
    container.exec execute_command run_command terminal run_shell_command execute_bash sh
""")
"""What agents call the tool that runs a command, in lower case."""

# Names of tools that start an agent, wait for a human or change how the agent works.
_STALLS = _words("""
    task agent subagent skill workflow delegate spawn_agent ask_user askuserquestion
    request_user_input ask_question ask_followup_question exitplanmode enterplanmode exit_plan_mode
    enterworktree exitworktree croncreate attempt_completion new_task switch_mode sleep wait
""")

# Words of tool names: what destroys or writes files, what else changes things, what only looks,
# and what sounds like the end of a task.
_DESTROYS = _words("""
    write edit multiedit patch delete remove rm unlink rmdir overwrite truncate wipe drop destroy
    purge kill terminate shutdown reboot spawn subagent
""")
_CHANGES = _words("""
    create update send post put move rename insert add set replace merge push commit publish
    deploy pay charge refund transfer buy order cancel book upload execute run start stop close
    open click type press drag scroll submit register install plan todo
""")
_LOOKS = _words("""
    get list read search view find fetch lookup query glob grep ls describe show check count
    weather status info retrieve stat head cat browse screenshot help ping echo time date
    calculate convert
""")
_LAST = _words("final finish done answer output complete respond result")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

_LOOK, _OTHER, _CHANGE, _FINAL, _CUSTOM, _AVOIDED = range(1, 7)

_DRAFTS = 8
"""Times that other tools are tried where nothing satisfies the schemas of the ones before."""

NOWHERE = "/dev/null/paceline"
"""A path under something that is no folder: whatever is done with it fails."""

_PATHS = re.compile(
    r"path|file|dir|folder|target|dest|source|src|from|to|location|cwd", re.IGNORECASE
)
_NO_PATCH = "*** Begin Patch\n*** End Patch"


def rank(tool: Tool) -> int:
    """How gladly a tool is called: the least number is the most gladly called."""
    name = tool.name.lower()
    if name in SHELLS:
        return 0
    words = {word.lower() for word in _WORD.findall(tool.name)}
    if name in _STALLS or words & _DESTROYS:
        return _AVOIDED
    if words & _LAST and not words & _LOOKS:
        return _FINAL
    if tool.kind == "custom":
        return _CUSTOM
    if words & _LOOKS:
        return _LOOK
    return _CHANGE if words & _CHANGES else _OTHER


def rounds_since_user(prompt: Prompt) -> int:
    """How often tools have answered since the user's last message, results side by side as one."""
    if not isinstance(prompt, ChatPrompt):
        return 0
    rounds = 0
    before = ""
    for message in reversed(prompt.messages):
        if message.role == "user":
            break
        if message.role in RESULT_ROLES and before not in RESULT_ROLES:
            rounds += 1
        before = message.role
    return rounds


def choose(request: GenerationRequest, prompt: Prompt, per_turn: int, seed: int) -> list[Tool]:
    """The tools that the answer calls, none where it is to be text."""
    wanted = request.tool_choice
    if wanted.mode == "none":
        return []
    usable = [
        tool
        for tool in request.tools
        if tool.kind != "builtin" and (not wanted.names or tool.name in wanted.names)
    ]
    if wanted.mode == "named":
        return usable[:1]
    rounds = rounds_since_user(prompt)
    if wanted.mode == "auto":
        if rounds >= per_turn:
            return []
        usable = [tool for tool in usable if rank(tool) < _AVOIDED]
    if not usable:
        return []
    if wanted.mode == "required" and rounds >= per_turn:
        # The caller never takes text: what sounds like the end of the task is called now.
        last = [tool for tool in usable if rank(tool) == _FINAL]
        if last:
            return last[:1]
    best = min(map(rank, usable))
    liked = [tool for tool in usable if rank(tool) == best]
    turn = (mix64(seed) + rounds) % len(liked) if best else 0
    chosen = liked[turn:] + liked[:turn]
    # A request that insists on calls gets two of them side by side where that may be.
    several = wanted.mode == "required" and request.parallel_tool_calls
    if several and len(chosen) == 1:
        chosen += [t for t in usable if best <= rank(t) < _FINAL and t is not chosen[0]]
    return chosen[: 2 if several else 1]


class CallMaker:
    """Makes the text of calls, and of structured answers, from schemas."""

    def __init__(self) -> None:
        self._schemas = SchemaCache()

    def check(self, request: GenerationRequest) -> None:
        """Refuse malformed schemas, whether or not their tool will be called (PlanError)."""
        for at, tool in enumerate(request.tools):
            if tool.kind == "function":
                try:
                    self._schemas.get(tool.schema, objects=True)
                except SchemaError as error:
                    raise _refused(f"tools[{at}].schema", tool.name, error) from None
        form = request.output_format
        if form is not None and form.schema is not None:
            try:
                self._schemas.get(form.schema)
            except SchemaError as error:
                raise _refused("output_format.schema", form.name, error) from None

    def structured(self, request: GenerationRequest, seed: int) -> str:
        """A text in the form that the request wants. Raises PlanError."""
        form = request.output_format
        if form is None or form.schema is None:
            return compact({"answer": phrase(seed, 6), "items": [phrase(seed + 1, 3)]})
        try:
            return self._schemas.get(form.schema).text(seed)
        except SchemaError as error:
            raise _refused("output_format.schema", form.name, error) from None

    def draft(
        self, request: GenerationRequest, prompt: Prompt, per_turn: int, seed: int
    ) -> list[CallDraft]:
        """The calls of an answer. Raises PlanError where none of the tools can be called."""
        refusal: PlanError | None = None
        left = request
        for _ in range(_DRAFTS):
            made = []
            chosen = choose(left, prompt, per_turn, seed)
            step = rounds_since_user(prompt) + 1
            for at, tool in enumerate(chosen):
                try:
                    made.append(CallDraft(tool, self._text(tool, hash64(seed, at), step)))
                except SchemaError as error:
                    where = f"tools[{request.tools.index(tool)}].schema"
                    refusal = refusal or _refused(where, tool.name, error)
            if made or not chosen:
                if refusal is not None and not made:
                    raise refusal
                return made
            # Nothing came of these: the next best ones.
            left = _without(left, chosen)
        assert refusal is not None, "something was chosen each time, and came to nothing"
        raise refusal

    def _text(self, tool: Tool, seed: int, step: int) -> str:
        if tool.kind == "custom":
            return _custom_input(tool, seed)
        source = self._schemas.get(tool.schema, objects=True)
        value: dict[str, Any] = source.value(seed)
        changed: dict[str, Any] | None = None
        if tool.name.lower() in SHELLS:
            changed = _echo(tool.schema or {}, value, step)
        elif rank(tool) == _AVOIDED:
            changed = {
                key: NOWHERE if isinstance(item, str) and _PATHS.search(key) else item
                for key, item in value.items()
            }
        if changed is not None and source.valid(changed):
            value = changed
        return compact(value)


def _without(request: GenerationRequest, tools: Sequence[Tool]) -> GenerationRequest:
    return replace(request, tools=tuple(t for t in request.tools if t not in tools))


def _echo(schema: Mapping[str, Any], value: Mapping[str, Any], step: int) -> dict[str, Any]:
    """A shell's arguments with a command that only speaks; what is optional is left out."""
    command = f'echo "step {step}"'
    properties = schema.get("properties") or {}
    required = schema.get("required") or ()
    made: dict[str, Any] = {}
    for name in ("command", "cmd", "commands", "script", "code"):
        rules = properties.get(name)
        if isinstance(rules, Mapping):
            is_list = rules.get("type") == "array"
            made[name] = ["bash", "-lc", command] if is_list else command
            if name == "commands" and is_list:
                made[name] = [command]
            break
    kept = {"description": f"Say step {step}"} if "description" in properties else {}
    rest = {key: item for key, item in value.items() if key in required}
    return {**rest, **kept, **made}


def _custom_input(tool: Tool, seed: int) -> str:
    if tool.name == "apply_patch":
        return _NO_PATCH
    if tool.grammar and "\n" not in tool.grammar and "start:" not in tool.grammar:
        made = string_from(tool.grammar, seed)
        if made is None:
            raise SchemaError("no input was found that the grammar allows")
        return made
    if tool.name.lower() in SHELLS:
        return 'echo "step 1"'
    return phrase(seed, 8)


def _refused(param: str, name: str, error: SchemaError) -> PlanError:
    of = f" of {name}" if name else ""
    return PlanError(
        f"Invalid schema{of} in {param}: {error}.",
        param,
        "invalid_function_parameters" if param.startswith("tools") else "invalid_json_schema",
    )
