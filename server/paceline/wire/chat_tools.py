"""Chat completions: tools, how they are to be chosen, and the form of the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from paceline.core.tools import AUTO, OutputFormat, Tool, ToolChoice
from paceline.wire.errors import invalid
from paceline.wire.fields import (
    an_array,
    an_object,
    any_text,
    flag,
    missing,
    one_of,
    required,
    required_object,
    required_text,
    wrong_type,
    wrong_value,
)

MAX_TOOLS = 128
"""OpenAI's limit of tools in one request."""

LEGACY = "functions"
"""The `Tool.type` of what came in the field `functions`, from before there were tools."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MODES = one_of("none", "auto", "required")
_LEGACY_MODES = one_of("none", "auto")
_allowed_mode = one_of("auto", "required")
_syntax = one_of("lark", "regex")


def parse_tools(value: Any, path: str) -> tuple[Tool, ...]:
    """`tools`: functions and custom tools. Raises ApiError."""
    tools = an_array(value, path)
    if len(tools) > MAX_TOOLS:
        raise wrong_value(path, f"at most {MAX_TOOLS} tools", len(tools), "array_above_max_length")
    return tuple(
        [_tool(an_object(item, f"{path}[{i}]"), f"{path}[{i}]") for i, item in enumerate(tools)]
    )


def parse_functions(value: Any, path: str) -> tuple[Tool, ...]:
    """`functions`, as `tools` were called in 2023. Raises ApiError."""
    functions = an_array(value, path)
    if len(functions) > MAX_TOOLS:
        raise wrong_value(
            path, f"at most {MAX_TOOLS} functions", len(functions), "array_above_max_length"
        )
    return tuple(
        [
            _function(an_object(item, f"{path}[{i}]"), f"{path}[{i}]", LEGACY)
            for i, item in enumerate(functions)
        ]
    )


def _tool(tool: Mapping[str, Any], path: str) -> Tool:
    kind = required(tool, "type", path)
    if kind == "function":
        return _function(required_object(tool, "function", path), f"{path}.function", "function")
    if kind == "custom":
        return _custom(required_object(tool, "custom", path), f"{path}.custom")
    if not isinstance(kind, str):
        raise wrong_type(f"{path}.type", "a string", kind)
    raise wrong_value(f"{path}.type", "one of function, custom", kind)


def _function(function: Mapping[str, Any], path: str, type_: str) -> Tool:
    schema = function.get("parameters")
    if schema is not None:
        schema = an_object(schema, f"{path}.parameters")
        kind = schema.get("type", "object")
        if kind != "object" and not (isinstance(kind, list) and "object" in kind):
            raise invalid(
                f"{path}.parameters",
                f"Invalid schema in {path}.parameters: its type must be object, as arguments are "
                "always one.",
                "invalid_function_parameters",
            )
    strict = function.get("strict")
    return Tool(
        name=_name(function, path),
        schema=schema or None,
        strict=False if strict is None else flag(strict, f"{path}.strict"),
        description=_description(function, path),
        type=type_,
    )


def _custom(custom: Mapping[str, Any], path: str) -> Tool:
    grammar = ""
    form = custom.get("format")
    if form is not None:
        form = an_object(form, f"{path}.format")
        kind = required(form, "type", f"{path}.format")
        if one_of("text", "grammar")(kind, f"{path}.format.type") == "grammar":
            where = f"{path}.format.grammar"
            rules = required_object(form, "grammar", f"{path}.format")
            _syntax(required_text(rules, "syntax", where), f"{where}.syntax")
            grammar = required_text(rules, "definition", where)
    return Tool(
        name=_name(custom, path),
        kind="custom",
        description=_description(custom, path),
        type="custom",
        grammar=grammar,
    )


def parse_tool_choice(value: Any, path: str) -> ToolChoice:
    """`tool_choice`: a word, one tool, or allowed tools with a word. Raises ApiError."""
    if isinstance(value, str):
        return ToolChoice(_MODES(value, path))
    choice = an_object(value, path)
    kind = required(choice, "type", path)
    if kind in ("function", "custom"):
        return ToolChoice("named", (_named(choice, path),))
    if kind != "allowed_tools":
        if not isinstance(kind, str):
            raise wrong_type(f"{path}.type", "a string", kind)
        raise wrong_value(f"{path}.type", "one of function, custom, allowed_tools", kind)
    path = f"{path}.allowed_tools"
    allowed = an_object(choice.get("allowed_tools", {}), path)
    mode = _allowed_mode(required_text(allowed, "mode", path), f"{path}.mode")
    tools = required(allowed, "tools", path)
    names = [
        _named(an_object(item, f"{path}.tools[{i}]"), f"{path}.tools[{i}]")
        for i, item in enumerate(an_array(tools, f"{path}.tools"))
    ]
    if not names:
        raise invalid(f"{path}.tools", f"{path}.tools must name at least one tool.", "empty_array")
    return ToolChoice(mode, tuple(names))


def parse_function_call(value: Any, path: str) -> ToolChoice:
    """`function_call`, the older way: a word or a name. Raises ApiError."""
    if isinstance(value, str):
        return ToolChoice(_LEGACY_MODES(value, path))
    return ToolChoice("named", (required_text(an_object(value, path), "name", path),))


def _named(choice: Mapping[str, Any], path: str) -> str:
    """The name in `{"type": "function", "function": {"name"}}`, or in a custom tool's likes."""
    kind = choice.get("type", "function")
    key = "custom" if kind == "custom" else "function"
    return required_text(required_object(choice, key, path), "name", f"{path}.{key}")


def settle_tools(found: Mapping[str, Any]) -> tuple[tuple[Tool, ...], ToolChoice]:
    """Tools and choice of a request, old or new; both must fit each other. Raises ApiError."""
    tools: tuple[Tool, ...] = found.get("tools") or ()
    functions: tuple[Tool, ...] = found.get("functions") or ()
    if tools and functions:
        raise invalid("functions", "functions and tools can't be used together.")
    choice_name = "function_call" if functions else "tool_choice"
    choice: ToolChoice | None = found.get(choice_name)
    tools = tools or functions
    if choice is None:
        return tools, AUTO
    if not tools and choice.mode in ("required", "named"):
        raise invalid(choice_name, f"{choice_name} is only allowed when tools are given.")
    offered = {tool.name for tool in tools}
    for name in choice.names:
        if name not in offered:
            raise invalid(
                choice_name, f"{choice_name} names {name!r:.80}, which is not among the tools."
            )
    return tools, choice


def response_format(value: Any, path: str) -> OutputFormat | None:
    """`response_format`: text (None), any JSON object, or JSON of a schema. Raises ApiError."""
    form = an_object(value, path)
    kind = required(form, "type", path)
    if kind == "text":
        return None
    if kind == "json_object":
        return OutputFormat("json_object")
    if kind != "json_schema":
        if not isinstance(kind, str):
            raise wrong_type(f"{path}.type", "a string", kind)
        raise wrong_value(f"{path}.type", "one of text, json_object, json_schema", kind)
    path = f"{path}.json_schema"
    rules = form.get("json_schema")
    if rules is None:
        raise missing(path)
    rules = an_object(rules, path)
    name = _name(rules, path)
    schema = rules.get("schema")
    strict = rules.get("strict")
    return OutputFormat(
        "json_schema",
        schema=None if schema is None else an_object(schema, f"{path}.schema"),
        name=name,
        strict=False if strict is None else flag(strict, f"{path}.strict"),
    )


def _name(item: Mapping[str, Any], path: str) -> str:
    name = required_text(item, "name", path)
    if _NAME.fullmatch(name) is None:
        raise wrong_value(f"{path}.name", "1 to 64 letters, digits, _ and -", name)
    return name


def _description(item: Mapping[str, Any], path: str) -> str:
    given = item.get("description")
    return "" if given is None else any_text(given, f"{path}.description")
