"""The tools and the answer's form in the Responses API's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.core.tools import AUTO, OutputFormat, Tool, ToolChoice
from paceline.wire.errors import invalid
from paceline.wire.fields import (
    an_array,
    an_object,
    any_text,
    flag,
    name_text,
    one_of,
    required,
    required_object,
    text,
    wrong_type,
    wrong_value,
)

BUILTIN = (
    "web_search",
    "web_search_preview",
    "file_search",
    "computer",
    "computer_use",
    "computer_use_preview",
    "code_interpreter",
    "image_generation",
    "mcp",
    "local_shell",
    "shell",
    "apply_patch",
    "tool_search",
    "programmatic_tool_calling",
)
"""Tools that the API itself runs, or the client under a fixed name."""

_DATED = ("web_search_", "web_search_preview_", "computer_use_preview_")
_tool_name = text(1, 128)
_syntax = one_of("lark", "regex")


def parse_tools(value: Any, path: str) -> tuple[Tool, ...]:
    """The tools on offer, those inside namespaces too. Raises ApiError."""
    found: list[Tool] = []
    for i, tool in enumerate(an_array(value, path)):
        _tool(an_object(tool, f"{path}[{i}]"), f"{path}[{i}]", "", found)
    return tuple(found)


def _tool(tool: Mapping[str, Any], path: str, namespace: str, found: list[Tool]) -> None:
    kind = required(tool, "type", path)
    if not isinstance(kind, str):
        raise wrong_type(f"{path}.type", "a string", kind)
    if kind == "function":
        found.append(_function(tool, path, namespace))
    elif kind == "custom":
        found.append(_custom(tool, path, namespace))
    elif kind == "namespace" and not namespace:
        name = _tool_name(required(tool, "name", path), f"{path}.name")
        inside = an_array(required(tool, "tools", path), f"{path}.tools")
        for i, item in enumerate(inside):
            where = f"{path}.tools[{i}]"
            _tool(an_object(item, where), where, name, found)
    elif kind in BUILTIN or kind.startswith(_DATED):
        name = kind
        if kind == "mcp":
            name = _tool_name(required(tool, "server_label", path), f"{path}.server_label")
        found.append(Tool(name, "builtin", type=kind, namespace=namespace))
    else:
        raise wrong_value(f"{path}.type", "a known type of tool", kind)


def _function(tool: Mapping[str, Any], path: str, namespace: str) -> Tool:
    name = _tool_name(required(tool, "name", path), f"{path}.name")
    schema = tool.get("parameters")
    if schema is not None:
        schema = an_object(schema, f"{path}.parameters")
    strict = tool.get("strict")
    return Tool(
        name,
        schema=schema or None,
        strict=False if strict is None else flag(strict, f"{path}.strict"),
        description=_description(tool, path),
        namespace=namespace,
    )


def _custom(tool: Mapping[str, Any], path: str, namespace: str) -> Tool:
    name = _tool_name(required(tool, "name", path), f"{path}.name")
    grammar = ""
    form = tool.get("format")
    if form is not None:
        form = an_object(form, f"{path}.format")
        if form.get("type") == "grammar":
            _syntax(required(form, "syntax", f"{path}.format"), f"{path}.format.syntax")
            definition = required(form, "definition", f"{path}.format")
            grammar = any_text(definition, f"{path}.format.definition")
    return Tool(
        name,
        "custom",
        description=_description(tool, path),
        type="custom",
        namespace=namespace,
        grammar=grammar,
    )


def _description(tool: Mapping[str, Any], path: str) -> str:
    given = tool.get("description")
    return "" if given is None else any_text(given, f"{path}.description")


def shown_tools(tools: Any) -> list[Any]:
    """The tools as an answer gives them back: a function with all of its fields."""
    return [
        {"description": None, "parameters": None, **tool, "strict": tool.get("strict") is not False}
        if tool.get("type") == "function"
        else tool
        for tool in tools or ()
    ]


def parse_tool_choice(value: Any, path: str, tools: tuple[Tool, ...]) -> ToolChoice:
    """How tools are to be chosen; a name must be that of a tool on offer. Raises ApiError."""
    if value is None:
        return AUTO
    if isinstance(value, str):
        mode = _mode(value, path)
        if mode == "required" and not tools:
            raise invalid(path, f"{path} is required, but there are no tools.")
        return ToolChoice(mode)
    choice = an_object(value, path)
    kind = required(choice, "type", path)
    if not isinstance(kind, str):
        raise wrong_type(f"{path}.type", "a string", kind)
    if kind == "allowed_tools":
        mode = _allowed_mode(required(choice, "mode", path), f"{path}.mode")
        allowed = an_array(required(choice, "tools", path), f"{path}.tools")
        names = tuple(
            _offered(an_object(tool, f"{path}.tools[{i}]"), f"{path}.tools[{i}]", tools)
            for i, tool in enumerate(allowed)
        )
        return ToolChoice(mode, names)
    return ToolChoice("named", (_offered(choice, path, tools),))


_mode = one_of("none", "auto", "required")
_allowed_mode = one_of("auto", "required")


def _offered(choice: Mapping[str, Any], path: str, tools: tuple[Tool, ...]) -> str:
    """The name of the offered tool that a choice means."""
    kind = choice.get("type")
    if kind in ("function", "custom"):
        name, where = name_text(required(choice, "name", path), f"{path}.name"), f"{path}.name"
        fits = [tool for tool in tools if tool.type == kind and tool.name == name]
    elif kind == "mcp":
        label = required(choice, "server_label", path)
        name, where = name_text(label, f"{path}.server_label"), f"{path}.server_label"
        fits = [tool for tool in tools if tool.type == kind and tool.name == name]
    else:
        if not isinstance(kind, str) or not (kind in BUILTIN or kind.startswith(_DATED)):
            raise wrong_value(f"{path}.type", "a known kind of tool choice", str(kind))
        name, where = kind, path
        fits = [tool for tool in tools if tool.type == kind]
    if not fits:
        raise invalid(where, f"Tool choice {name!r} is not among the tools.")
    return fits[0].name


def parse_format(value: Any, path: str) -> OutputFormat | None:
    """The form asked for; None for free text. Raises ApiError."""
    form = an_object(value, path)
    kind = required(form, "type", path)
    if kind == "text":
        return None
    if kind == "json_object":
        return OutputFormat("json_object")
    if kind != "json_schema":
        raise wrong_value(f"{path}.type", "one of text, json_object, json_schema", str(kind))
    strict = form.get("strict")
    return OutputFormat(
        "json_schema",
        required_object(form, "schema", path),
        name=_format_name(required(form, "name", path), f"{path}.name"),
        strict=False if strict is None else flag(strict, f"{path}.strict"),
    )


_format_name = text(1, 64)
